"""Runs that failed, were started again by their agent, and work: only what was printed since then is judged.

An agent says so (``will restart worker group`` of PyTorch's). What comes before it is another attempt, as long as one
that works comes behind it in the same file.
"""

from collections.abc import Mapping
from dataclasses import replace

from diagnostics.facts import Communicator, JobFacts
from diagnostics.parsers.programs.restarts import RESTART

_OF_THE_HOST = frozenset(
    {"version", "variable", "shell-variable", "ib-devices", "socket-devices", "bootstrap-interface"}
)


def last_attempt(facts: JobFacts) -> JobFacts:
    """The facts without the attempts that failed before one that works."""
    begun = _begun(facts)
    if not begun:
        return facts
    events = {
        kind: kept
        if kind in _OF_THE_HOST or kind == RESTART
        else tuple(event for event in kept if event.origin.sequence > begun.get(event.origin.file, -1))
        for kind, kept in facts.events.items()
    }
    totals = {
        kind: total - len(facts.events.get(kind, ())) + len(events.get(kind, ()))
        for kind, total in facts.totals.items()
    }
    communicators = tuple(one for one in facts.communicators if not _is_before(one, begun))
    return replace(facts, events=events, totals=totals, communicators=communicators)


def _begun(facts: JobFacts) -> Mapping[str, int]:
    """File -> where its last restart stands behind which a communicator came to be."""
    begun: dict[str, int] = {}
    for restart in facts.of(RESTART):
        file, place = restart.origin.file, restart.origin.sequence
        if any(done.origin.file == file and done.origin.sequence > place for done in facts.of("init-complete")):
            begun[file] = place
    return begun


def _is_before(communicator: Communicator, begun: Mapping[str, int]) -> bool:
    """Whether all starts of a communicator that never was complete belong to an attempt before."""
    starts = [member.event for member in communicator.members.values() if member.event is not None]
    incomplete = not any(member.completed for member in communicator.members.values())
    before = all(start.origin.sequence < begun.get(start.origin.file, -1) for start in starts)
    return incomplete and bool(starts) and before
