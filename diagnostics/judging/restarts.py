"""Runs that failed, were started again by their agent, and work: only what was printed since then is judged.

An agent says so (``will restart worker group`` of PyTorch's). What comes before it is another attempt, as long as one
that works comes behind it in the same file.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from diagnostics.events import Event, quote
from diagnostics.facts import Communicator, JobFacts
from diagnostics.parsers.programs.restarts import RESTART

_WORKING = ("init-complete", "connected", "collective")
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
    """File -> where its last restart stands that led to a communicator, or to steps that the file ends with."""
    begun = [restart.origin for restart in facts.of(RESTART) if led_on(restart, facts, ("init-complete",))]
    return {origin.file: origin.sequence for origin in begun}


def led_on(restart: Event, facts: JobFacts, working: Sequence[str] = _WORKING) -> bool:
    """Whether ranks work since an agent started them again, or their file ends with steps."""
    file, place = restart.origin.file, restart.origin.sequence
    if any(done.origin.file == file and done.origin.sequence > place for done in facts.of(*working)):
        return True
    return file in facts.steps and facts.steps_are_done_behind(restart)


def told_restart(facts: JobFacts) -> str:
    """What is said of a run that works since its agent started its ranks again; empty where none was."""
    restart = next(iter(facts.of(RESTART)[-1:]), None)
    if restart is None:
        return ""
    where = f"line {restart.origin.line} of {restart.origin.file}"
    return f" Its ranks were started again ({where}: {quote(restart.text)[:160]}), and what came before is not judged."


def _is_before(communicator: Communicator, begun: Mapping[str, int]) -> bool:
    """Whether all starts of a communicator that never was complete belong to an attempt before."""
    starts = [member.event for member in communicator.members.values() if member.event is not None]
    incomplete = not any(member.completed for member in communicator.members.values())
    before = all(start.origin.sequence < begun.get(start.origin.file, -1) for start in starts)
    return incomplete and bool(starts) and before
