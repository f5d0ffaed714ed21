"""Which files, and which parts of them, are of one job: several runs given in one call are never judged as one.

What proves that two parts belong together is an id of a communicator of several ranks (commId, NCCL 2.16 and newer)
or a run folder of raybench; what proves that they do not is that each has such communicators and they share none, or,
within a file, that a GPU which one process had is another process's from some line on: the job was started again.
Parts without a communicator go with the job beside them, or with the folder that was named.
"""

import os
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, takewhile
from pathlib import Path, PurePath
from typing import NamedTuple

from diagnostics.errors import UnreadableInputError
from diagnostics.flight_recorder import is_dump
from diagnostics.forked import map_ahead
from diagnostics.inputs import Input
from diagnostics.reader import Batch, plain_size, read_batches, read_lines_begun, read_range
from diagnostics.search import places

_INIT_MARK = b"- Init "
_INIT = re.compile(
    rb"([A-Za-z0-9_][\w.\-]{0,200}):(\d{1,9}):\d{1,9} \[\d{1,4}\] NCCL INFO .{0,80}?comm 0x[0-9a-f]+ rank (\d{1,9}) "
    rb"nranks (\d{1,9}) [^\n]{0,80}?busId ([0-9a-f]{1,12})(?:[^\n]{0,200}?commId (0x[0-9a-f]{1,32}))?"
)
_PREFIX = re.compile(rb"(?<![\w.\-])([A-Za-z0-9_][\w.\-]{0,200}):(\d{1,9}):\d{1,9} \[\d{1,4}\] ")
_RAYBENCH_LOG = re.compile(r"(?:nccl|output)-rank-\d+\.log(?:\.\d+)?$")
MAX_INIT_LINES = 50_000  # of one file
MAX_PREFIXES = 2000
SPEAKERS_BYTES = 2**20  # who speaks in a file is known by its first lines
MAX_HEAD_BYTES = 2**23

SAMPLED_FROM_BYTES = 2**23  # where the launches of a larger file begin is found by one line of SAMPLED_BYTES first
MIN_SHARED_BYTES = 2**25
SAMPLED_BYTES = 2**15
_Process = tuple[str, int]


class _Start(NamedTuple):
    """What a line on the start or completion of a communicator says."""

    place: int
    process: tuple[str, int]
    rank: int
    nranks: int
    bus: str
    comm_id: str | None


MAX_LATE_LINES = 5  # of processes that end, behind the first line of those that take their place


@dataclass(slots=True, kw_only=True, eq=False)
class Part:
    """Lines of one file, from the line ``first_line`` at byte ``start`` up to byte ``end``, and who speaks in them."""

    file: Input
    start: int = 0
    end: int | None = None
    first_line: int = 1
    communicators: dict[str, tuple[int, set[int]]] = field(default_factory=dict)  # id -> ranks, those that are named
    processes: set[_Process] = field(default_factory=set)
    gpus: dict[tuple[str, str], int] = field(default_factory=dict)  # (host, bus) -> pid
    ranks: set[tuple[int, int]] = field(default_factory=set)  # (nranks, rank)

    @property
    def hosts(self) -> set[str]:
        """Hosts that speak."""
        return {host for host, _ in self.processes}


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
    return tuple(Job(name=name, parts=tuple(group)) for name, group in zip(_names(groups), groups, strict=True))


def read_part(part: Part) -> Iterator[Batch]:
    """The lines of a part. Raises UnreadableInputError."""
    if part.start == 0 and part.end is None:
        yield from read_batches(part.file)
        return
    size = plain_size(part.file)
    batches = _skipped_to(part) if size is None else read_range(part.file, part.start, part.end or size)
    for batch in batches:
        yield replace(batch, line=part.first_line) if batch.first else batch


def _skipped_to(part: Part) -> Iterator[Batch]:
    """The lines of a part of a file that can only be read from its start."""
    first = True
    for batch in read_batches(part.file):
        stop = batch.place + len(batch.block) + 1
        if stop <= part.start:
            continue
        if part.end is not None and batch.place >= part.end:
            return
        end = None if part.end is None else max(part.end - batch.place - 1, 0)
        yield replace(batch, block=batch.block[max(part.start - batch.place, 0) : end], first=first)
        first = False


def survey_head(file: Input) -> Part:
    """A growing file as one part, by what its first MAX_HEAD_BYTES say."""
    whole = Part(file=file)
    try:
        look = _look(takewhile(lambda batch: batch.place <= MAX_HEAD_BYTES, read_batches(file)), sampled=False)
    except UnreadableInputError:
        return whole
    whole.processes = look.speakers
    return _merged([*_launches(file, look.starts), whole])


def survey(file: Input, processes: int = 1) -> list[Part]:
    """The parts of one file: more than one where a job ends in it and another begins."""
    whole = Part(file=file)
    if is_dump(file.name) or not os.path.isfile(file.name):  # noqa: PTH113 - a pipe can be read but once
        return [whole]
    size = plain_size(file) or 0
    try:
        if processes > 1 and size >= MIN_SHARED_BYTES:
            looks = _shared_looks(file, size, processes)
        else:
            looks = [_look(read_batches(file), sampled=size > SAMPLED_FROM_BYTES)]
    except UnreadableInputError:
        return [whole]
    whole.processes = looks[0].speakers
    launches = _launches(file, [start for look in looks for start in look.starts][:MAX_INIT_LINES])
    if len(launches) > 1:
        return _cut_by_samples(file, launches, looks) if size > SAMPLED_FROM_BYTES else _cut(file, launches)
    for launch in launches:
        launch.processes |= whole.processes
    return launches or [whole]


@dataclass(slots=True, kw_only=True)
class _Look:
    """What is seen in a file or a piece of it. ``samples`` and ``lines`` of large files only."""

    speakers: set[_Process] = field(default_factory=set)
    starts: list[_Start] = field(default_factory=list)
    samples: list[tuple[int, _Process]] = field(default_factory=list)  # a place, and who speaks there
    lines: list[tuple[int, int]] = field(default_factory=list)  # where a block begins, and how many lines it has


def _look(batches: Iterable[Batch], *, sampled: bool) -> _Look:
    look, prefixes = _Look(), 0
    for batch in batches:
        if batch.place < SPEAKERS_BYTES and prefixes <= MAX_PREFIXES:
            found = [(match[1].decode(), int(match[2])) for _, match in _prefixes(batch.block)]
            look.speakers.update(found[: MAX_PREFIXES + 1 - prefixes])
            prefixes += len(found)
        begun = len(look.starts)
        if begun < MAX_INIT_LINES:
            look.starts += _init_lines(batch)
        if sampled:
            look.lines.append((batch.place, batch.block.count(b"\n") + 1))
            look.samples += _samples(batch)
    return look


def _shared_looks(file: Input, size: int, processes: int) -> list[_Look]:
    """Looks at pieces of a large file, by several processes."""
    step = -(-size // (2 * processes))
    ranges = [(place, min(place + step, size)) for place in range(0, size, step)]

    def work(limits: tuple[int, int]) -> _Look:
        return _look(read_lines_begun(file, *limits), sampled=True)

    looks = map_ahead(work, ranges, processes)
    return [look or work(limits) for look, limits in zip(looks, ranges, strict=True)]


def _samples(batch: Batch) -> Iterator[tuple[int, _Process]]:
    for begin in range(0, len(batch.block), SAMPLED_BYTES):
        found = next(_prefixes(batch.block, begin, begin + SAMPLED_BYTES), None)
        if found is not None:
            yield batch.place + found[0], (found[1][1].decode(), int(found[1][2]))


def _prefixes(block: bytes, start: int = 0, stop: int | None = None) -> Iterator[tuple[int, re.Match[bytes]]]:
    """NCCL's prefix on each line that has one, with the place where the line begins."""
    place = block.find(b" NCCL ", start, stop)
    while place >= 0:
        start = block.rfind(b"\n", 0, place) + 1
        if match := _PREFIX.search(block, max(start, place - 400), place + 1):
            yield start, match
        end = block.find(b"\n", place)
        place = block.find(b" NCCL ", end, stop) if end >= 0 else -1


def _init_lines(batch: Batch) -> Iterator[_Start]:
    block = batch.block
    for place in places(block, _INIT_MARK):
        start = block.rfind(b"\n", 0, place) + 1
        if match := _INIT.search(block, max(start, place - 600), place):
            host, pid, rank, nranks, bus, comm_id = match.groups()
            yield _Start(
                place=batch.place + start,
                process=(host.decode(), int(pid)),
                rank=int(rank),
                nranks=int(nranks),
                bus=bus.decode(),
                comm_id=comm_id.decode() if comm_id is not None else None,
            )


def _launches(file: Input, starts: Iterable[_Start]) -> list[Part]:
    """A part for each launch: a new one begins where a GPU has another process, of no communicator known by then."""
    launches: list[Part] = []
    for start in starts:
        if start.nranks < 2:
            continue  # a world of its own tells nothing of the others
        gpu, rank = (start.process[0], start.bus), (start.nranks, start.rank)
        now = launches[-1] if launches else None
        if now is None or _begins_again(now, start.process, gpu, start.comm_id, rank):
            now = Part(file=file, start=start.place)
            launches.append(now)
        now.processes.add(start.process)
        now.gpus[gpu] = start.process[1]
        now.ranks.add(rank)
        if start.comm_id:
            now.communicators.setdefault(start.comm_id, (start.nranks, set()))[1].add(start.rank)
    if launches:
        launches[0].start = 0
    return launches


def _begins_again(now: Part, process: _Process, gpu: tuple[str, str], name: str | None, rank: tuple[int, int]) -> bool:
    taken = now.gpus.get(gpu, process[1]) != process[1] and process not in now.processes
    return taken and (name not in now.communicators if name else rank in now.ranks)


def _cut(file: Input, launches: list[Part]) -> list[Part]:
    """The launches with the places where they begin: the first line of a process that the one before does not know.

    Where processes of an earlier one go on speaking, both run side by side, and the file is one part.
    """
    number, following, late = 1, 1, 0
    for batch in read_batches(file):
        block, counted = batch.block, 0
        for begin, match in _prefixes(block):
            process = (match[1].decode(), int(match[2]))
            before = launches[following - 1]
            if following < len(launches) and process in launches[following].processes - before.processes:
                number, counted = number + block.count(b"\n", counted, begin), begin
                launches[following].start = before.end = batch.place + begin
                launches[following].first_line = number
                following += 1
            elif process not in before.processes and any(process in one.processes for one in launches[: following - 1]):
                late += 1
        number += block.count(b"\n", counted) + 1
    return launches if following == len(launches) and late <= MAX_LATE_LINES * len(launches) else [_merged(launches)]


def _cut_by_samples(file: Input, launches: list[Part], looks: Sequence[_Look]) -> list[Part]:
    """As ``_cut``, of a large file: each line is read only between the samples around a place to cut."""
    samples = {sample for look in looks for sample in look.samples}
    samples.update((start.place, start.process) for look in looks for start in look.starts)
    following, late, before = 1, 0, 0
    now, new, earlier = launches[0], launches[1].processes - launches[0].processes, set[_Process]()
    for place, process in sorted(samples):
        if process in new:
            launches[following].start = now.end = _first_line(file, before, place, new)
            earlier |= now.processes
            now, following = launches[following], following + 1
            new = launches[following].processes - now.processes if following < len(launches) else set()
        elif process in earlier and process not in now.processes:
            late += 1
        before = place
    if following < len(launches) or late > MAX_LATE_LINES * len(launches):
        return [_merged(launches)]
    _number_lines(file, launches, [count for look in looks for count in look.lines])
    return launches


def _first_line(file: Input, begin: int, end: int, processes: set[_Process]) -> int:
    """Where the first line of these processes begins, of the lines from one place to another, which is theirs too."""
    for batch in read_range(file, begin, end):
        for place, match in _prefixes(batch.block):
            if (match[1].decode(), int(match[2])) in processes:
                return batch.place + place
    return end  # the line at ``end`` itself


def _number_lines(file: Input, launches: Sequence[Part], counts: Sequence[tuple[int, int]]) -> None:
    """Give each launch the number of its first line."""
    places = [place for place, _ in counts]
    totals = list(accumulate((lines for _, lines in counts), initial=1))
    for launch in launches:
        block = bisect_right(places, launch.start) - 1
        inside = read_range(file, places[block], launch.start)
        launch.first_line = totals[block] + sum(batch.block.count(b"\n") + 1 for batch in inside)


def _merged(launches: Sequence[Part]) -> Part:
    merged = Part(file=launches[0].file)
    for one in launches:
        merged.processes |= one.processes
        merged.gpus |= one.gpus
        for name, (nranks, ranks) in one.communicators.items():
            merged.communicators.setdefault(name, (nranks, set()))[1].update(ranks)
    return merged


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


def _names(groups: Sequence[Sequence[Part]]) -> list[str]:
    """What tells each group's files from those of the others, and a number where nothing does."""
    folders = [_folder_of(group) for group in groups]
    paths = [
        folder if folders.count(folder) == 1 else PurePath(group[0].file.name).parts
        for folder, group in zip(folders, groups, strict=True)
    ]
    head = _alike([path[:-1] for path in paths])
    tail = _alike([path[:head:-1] for path in paths])
    short = ["/".join(path[head : len(path) - tail]) for path in paths]
    names = [_with_line(name or "job", group) for name, group in zip(short, groups, strict=True)]
    return [name if names.count(name) == 1 else f"{name} ({number})" for number, name in enumerate(names, start=1)]


def _folder_of(group: Sequence[Part]) -> tuple[str, ...]:
    """The folder that all files of a group lie in."""
    paths = [PurePath(part.file.name).parts[:-1] for part in group]
    return paths[0][: _alike(paths)]


def _alike(paths: Sequence[Sequence[str]]) -> int:
    """How many parts the paths begin with that all of them share."""
    return len(list(takewhile(lambda parts: len(set(parts)) == 1, zip(*paths, strict=False))))


def _with_line(name: str, group: Sequence[Part]) -> str:
    first = group[0]
    return f"{name} from line {first.first_line}" if first.start or first.end is not None else name
