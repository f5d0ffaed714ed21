"""Ranks that stand where the others of their communicator went on: starts left open, connections that are not made."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import partial

from diagnostics.events import ProcessKey
from diagnostics.facts import Communicator, JobFacts, Member, Process

LAZY_CONNECTION = (2, 22, 0)  # from here on, ranks connect for their first collective, behind Init COMPLETE
_AT_WORK = ("collective", "destroy", "abort")
_DONE = ("destroy", "abort", "tests-ended", "work-done")


def open_starts(facts: JobFacts) -> int:
    """Ranks that started a communicator, did not complete it, and show nothing behind, as far as all is in the log."""
    if facts.starts_omitted:
        return 0
    world = facts.world.members.values() if facts.world else ()
    of_world = sum(member.started and not member.completed for member in world)
    return of_world or len({member.process for member in standing(facts)})


def standing(facts: JobFacts) -> Iterator[Member]:
    """Ranks of groups, of which no line behind their start shows that they are past it."""
    behind = _last_work(facts)
    for communicator in facts.communicators:
        for member in communicator.members.values():
            if member.started and not (member.completed or member.destroyed) and member.start is not None:
                origin = member.start.origin
                counted = origin.sequence <= facts.progress_omitted or origin.file in facts.steps
                if not counted and behind.get(member.process, -1) < origin.sequence:
                    yield member


def _last_work(facts: JobFacts) -> Mapping[ProcessKey, int]:
    """Where each process last began a communicator that it completed, or worked with one."""
    places: dict[ProcessKey, int] = defaultdict(partial(int, -1))
    lazy = facts.version is not None and facts.version >= LAZY_CONNECTION
    for event in facts.of(*_AT_WORK, *(("connected",) if lazy else ())):
        if event.origin.process is not None:
            places[event.origin.process] = max(places[event.origin.process], event.origin.sequence)
    for communicator in facts.communicators:
        for member in communicator.members.values():
            if member.completed and member.start is not None:
                places[member.process] = max(places[member.process], member.start.origin.sequence)
    return places


def unconnected(facts: JobFacts) -> tuple[int, int]:
    """Processes whose ranks did not connect as often as others of the same communicators, and how many these are.

    (0, 0) where all did, where work is shown to be done, or where lines that repeat were only counted.
    """
    if facts.version is None or facts.version < LAZY_CONNECTION or facts.progress_omitted >= 0:
        return 0, 0
    if facts.steps or facts.count(*_DONE) or facts.starts_omitted:
        return 0, 0
    for group in _of_same_communicators(facts):
        most = max(process.connected for process in group)
        if lag := sum(process.connected < most for process in group):
            return lag, len(group)
    return 0, 0


def _of_same_communicators(facts: JobFacts) -> list[list[Process]]:
    """Processes that are of the same communicators, all of whose ranks completed them."""
    of_process: dict[ProcessKey, set[str]] = defaultdict(set)
    for communicator in filter(_is_whole, facts.communicators):
        for member in communicator.members.values():
            of_process[member.process].add(communicator.key)
    groups: dict[frozenset[str], list[Process]] = defaultdict(list)
    for key, names in of_process.items():
        if key in facts.processes:
            groups[frozenset(names)].append(facts.processes[key])
    return list(groups.values())


def _is_whole(communicator: Communicator) -> bool:
    members = communicator.members.values()
    return len(members) == communicator.nranks > 1 and all(member.completed for member in members)
