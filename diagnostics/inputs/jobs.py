"""Which files, and which parts of them, are of one job: several runs given in one call are never judged as one.

What proves that two parts belong together is an id of a communicator of several ranks (commId, NCCL 2.16 and newer)
or a run folder of raybench; what proves that they do not is that each has such communicators and they share none, or,
within a file, that a GPU which one process had is another process's from some line on: the job was started again.
Parts without a communicator go with the job beside them, or with the folder that was named.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from diagnostics.inputs.files import Input
from diagnostics.inputs.job_names import names_of
from diagnostics.inputs.launches import survey
from diagnostics.inputs.part import Part

_RAYBENCH_LOG = re.compile(r"(?:nccl|output)-rank-\d+\.log(?:\.\d+)?$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The parts of one job. ``name`` tells it from the others of the call."""

    name: str
    parts: tuple[Part, ...]


def sort_by_job(files: Sequence[Input], processes: int = 1) -> tuple[Job, ...]:
    """The jobs that wrote these files, in the order of their first lines."""
    return sort_parts([part for file in files for part in survey(file, processes)])


def sort_parts(parts: Sequence[Part]) -> tuple[Job, ...]:
    """The jobs that these parts are of."""
    groups = _groups(parts)
    return tuple(Job(name=name, parts=tuple(group)) for name, group in zip(names_of(groups), groups, strict=True))


def _groups(parts: Sequence[Part]) -> list[list[Part]]:
    """Parts of the same job, each group and the groups in the order of reading."""
    place = {id(part): number for number, part in enumerate(parts)}
    anchored = {part: None for part in parts if part.communicators or part.start or part.end or _run_folder(part.file)}
    groups = _joined(list(anchored))
    found = _Homes(groups)
    homeless = [part for part in parts if part not in anchored and not found.take(part)]
    groups += _by_named_folder(homeless, groups)
    for group in groups:
        group.sort(key=lambda part: place[id(part)])
    return sorted(groups, key=lambda group: place[id(group[0])])


def _joined(parts: Sequence[Part]) -> list[list[Part]]:
    """The parts, those that share a communicator or a run folder, directly or through others, in one list."""
    leader = list(range(len(parts)))

    def lead(number: int) -> int:
        while leader[number] != number:
            leader[number] = leader[leader[number]]
            number = leader[number]
        return number

    owner: dict[str, int] = {}
    for number, part in enumerate(parts):
        folder = _run_folder(part.file) if not part.start else None
        for key in (*part.communicators, *([f"folder {folder}"] if folder else ())):
            leader[lead(number)] = lead(owner.setdefault(key, number))
    groups: dict[int, list[Part]] = defaultdict(list)
    for number, part in enumerate(parts):
        groups[lead(number)].append(part)
    return list(groups.values())


class _Homes:
    """Finds the group beside a part without communicators: in its folder, else in the folder that was named."""

    def __init__(self, groups: Sequence[list[Part]]) -> None:
        self._processes = [set().union(*(part.processes for part in group)) for group in groups]
        self._groups = groups
        self._beside: dict[str, set[int]] = defaultdict(set)
        for number, group in enumerate(groups):
            for part in group:
                for folder in _folders(part.file):
                    self._beside[folder].add(number)

    def take(self, part: Part) -> bool:
        """Put the part into its group; whether it has one."""
        for folder in _folders(part.file):
            beside = self._beside.get(folder, set())
            if len(beside) > 1:
                beside = {number for number in beside if part.processes & self._processes[number]}
            if len(beside) == 1:
                self._groups[next(iter(beside))].append(part)
                return True
        return False


def _folders(file: Input) -> Iterator[str]:
    yield f"in {PurePath(file.name).parent}"
    if (named := _named_folder(file)) is not None:
        yield f"below {named}"


def _by_named_folder(parts: Sequence[Part], groups: Sequence[list[Part]]) -> list[list[Part]]:
    """A group for each folder that was named; folders of other hosts are of the same job, as a folder a host is.

    They join a group whose communicators lack ranks.
    """
    folders: dict[str | None, list[Part]] = defaultdict(list)
    for part in parts:
        folders[_named_folder(part.file)].append(part)
    lacking = [group for group in groups if _lacks_ranks(group)]
    made: list[list[Part]] = []
    for found in (together for parts_of in folders.values() for together in _by_launch(parts_of)):
        open_groups = made[-1:] if made else lacking if len(lacking) == 1 else []
        hosts = set().union(*(part.hosts for part in found))
        known = set().union(*(part.hosts for group in open_groups for part in group))
        if hosts and known and not hosts & known:
            open_groups[0] += found
        else:
            made.append(found)
    return made


def _by_launch(parts: Sequence[Part]) -> list[list[Part]]:
    """Parts of one folder that name no communicator's id: apart where the same rank and GPU are another process's.

    Releases before 2.16 print no id. What names no rank goes with the first of several.
    """
    launches: list[list[Part]] = []
    for part in parts:
        fitting = [launch for launch in launches if not any(_replaces(part, one) for one in launch)]
        if fitting:
            fitting[0].append(part)
        else:
            launches.append([part])
    return launches


def _replaces(part: Part, other: Part) -> bool:
    """Whether a rank of one is a rank of the other as well, on the same GPU, in another process."""
    return bool(part.ranks & other.ranks) and any(other.gpus.get(gpu, pid) != pid for gpu, pid in part.gpus.items())


def _lacks_ranks(group: Sequence[Part]) -> bool:
    seen: dict[str, set[int]] = defaultdict(set)
    sizes: dict[str, int] = {}
    for part in group:
        for name, (nranks, ranks) in part.communicators.items():
            sizes[name] = nranks
            seen[name] |= ranks
    return any(len(seen[name]) < nranks for name, nranks in sizes.items())


def _named_folder(file: Input) -> str | None:
    """The folder that was named; what ``raybench collect`` brought home of several hosts counts as one."""
    if file.folder is None:
        return None
    parts = PurePath(file.folder).parts
    if len(parts) >= 3 and parts[-1] == "files" and parts[-3] == "hosts":
        return str(PurePath(*parts[:-2]))
    return file.folder


def _run_folder(file: Input) -> str | None:
    """The folder of a raybench run that the file lies in."""
    folder = Path(file.name).parent
    if folder.name != "logs" or not _RAYBENCH_LOG.search(file.name):
        return None
    return str(folder.parent)
