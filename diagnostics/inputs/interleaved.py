"""Launches that speak by turns in one file, told apart by the processes that share a communicator.

What joins processes is the id of a communicator of several ranks (NCCL 2.16 and newer). What tells two sets of them
apart, which share none, is a GPU that both have, with another network or another release of NCCL. What differs in
neither may be of one launch, such as a trainer and its inference engine, and harms no verdict.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from diagnostics.events import ProcessKey
from diagnostics.inputs.files import Input
from diagnostics.inputs.part import Part, read_part
from diagnostics.inputs.reader import read_batches
from diagnostics.inputs.speakers import Start, prefixes_of
from diagnostics.parsers.last_errors import is_error

_TRAIT = re.compile(rb"NCCL INFO (Using network [^\r\n]+|[NR]CCL version [\d.]+)")
_FAILS = re.compile(r"Traceback \(most|NCCL WARN |\w(?:Error|Exception): ")
MAX_APART = 16  # launches of one file, which is read once for each


@dataclass(slots=True, kw_only=True, eq=False)
class _Group:
    """Processes that share communicators."""

    processes: set[ProcessKey] = field(default_factory=set)
    gpus: set[tuple[str, str]] = field(default_factory=set)
    traits: set[bytes] = field(default_factory=set)  # networks and releases
    communicators: dict[str, tuple[int, set[int]]] = field(default_factory=dict)

    @property
    def hosts(self) -> set[str]:
        """Hosts of its processes."""
        return {host for host, _ in self.processes}


def told_apart(file: Input, starts: Sequence[Start]) -> list[Part]:
    """A part for each launch of a file that is interleaved with others, and one of what none of them says.

    Empty where it holds one, or where its lines do not tell. Raises UnreadableInputError.
    """
    sets = _sharing(_named([start for start in starts if start.nranks > 1]))
    if len(sets) < 2:
        return []
    _add_traits(file, sets)
    groups = _launches(sets)
    if not 1 < len(groups) <= MAX_APART:
        return []
    owner = {process: number for number, group in enumerate(groups) for process in group.processes}
    others = _without_communicator(file, owner, groups)
    parts = [
        Part(
            file=file,
            speakers=frozenset(process for process, one in owner.items() if one == number),
            communicators={name: told for name, told in group.communicators.items() if name.startswith("0x")},
            ranks={(nranks, rank) for nranks, ranks in group.communicators.values() for rank in ranks},
            processes=set(group.processes),
        )
        for number, group in enumerate(groups)
    ]
    return [*parts, *others]


def _named(starts: Sequence[Start]) -> list[Start]:
    """The starts, each with a communicator's id; none where some have none and two processes are the same rank.

    Older releases print none. Ranks of as many ranks are of one communicator then, as long as each is one process.
    """
    process_of: dict[tuple[int, int], ProcessKey] = {}
    nameless = (start for start in starts if start.comm_id is None)
    if any(process_of.setdefault((one.nranks, one.rank), one.process) != one.process for one in nameless):
        return []
    return [start if start.comm_id else start._replace(comm_id=f"of {start.nranks} ranks") for start in starts]


def _sharing(starts: Iterable[Start]) -> list[_Group]:
    """The processes of starts, those that share communicators, directly or through others, together."""
    groups: list[_Group] = []
    for start in starts:
        mine = [one for one in groups if start.comm_id in one.communicators or start.process in one.processes]
        into = mine[0] if mine else _Group()
        for other in mine[1:]:
            _take(into, other)
            groups.remove(other)
        if not mine:
            groups.append(into)
        into.processes.add(start.process)
        into.gpus.add((start.process[0], start.bus))
        into.communicators.setdefault(str(start.comm_id), (start.nranks, set()))[1].add(start.rank)
    return groups


def _launches(groups: Sequence[_Group]) -> list[_Group]:
    """The groups, those that may be of one launch together."""
    launches: list[_Group] = []
    for group in groups:
        fitting = next((one for one in launches if not _differ(one, group)), None)
        if fitting is None:
            launches.append(group)
        else:
            _take(fitting, group)
    return launches


def _differ(one: _Group, other: _Group) -> bool:
    return bool(one.traits and other.traits) and one.traits != other.traits and bool(one.gpus & other.gpus)


def _add_traits(file: Input, groups: Sequence[_Group]) -> None:
    """Give each group the networks and releases that its processes name."""
    home = {process: group for group in groups for process in group.processes}
    for batch in read_batches(file):
        for begin, match in prefixes_of(batch.block):
            if (group := home.get((match[1].decode(), int(match[2])))) is None:
                continue
            end = batch.block.find(b"\n", begin)
            if trait := _TRAIT.search(batch.block, match.end(), end if end >= 0 else len(batch.block)):
                group.traits.add(trait[1])


def _take(into: _Group, other: _Group) -> None:
    into.processes |= other.processes
    into.gpus |= other.gpus
    into.traits |= other.traits
    for name, (nranks, ranks) in other.communicators.items():
        into.communicators.setdefault(name, (nranks, set()))[1].update(ranks)


def _without_communicator(file: Input, owner: dict[ProcessKey, int], groups: Sequence[_Group]) -> list[Part]:
    """A part of what no launch says, where it tells of an error: lines of no process, or of one of no known launch.

    A process that named no communicator is of the only launch on its host, and added to ``owner``.
    """
    at_home: dict[str, set[int]] = defaultdict(set)
    for number, group in enumerate(groups):
        for host in group.hosts:
            at_home[host].add(number)
    for batch in read_batches(file):
        for _, match in prefixes_of(batch.block):
            host, process = match[1].decode(), (match[1].decode(), int(match[2]))
            if process not in owner and len(at_home[host]) == 1:
                owner[process] = next(iter(at_home[host]))
    rest = Part(file=file, not_of=frozenset(owner))
    told = (line for batch in read_part(rest) for line in batch.block.decode("utf-8", "replace").split("\n"))
    return [rest] if any(is_error(line) or _FAILS.search(line) for line in told) else []
