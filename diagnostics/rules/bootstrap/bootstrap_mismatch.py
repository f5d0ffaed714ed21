"""Processes that do not belong together met.

Symptom: ``Bootstrap Root : mismatch in rank count from procs 16 : 8``, ``rank 0 of 2 ranks has already checked in``,
``Invalid rank requested : 5/2``, ``wrong magic``, ``wrong type 1 != 3`` (kinds other than networks), an unexpected
address family, ``Message truncated : received 1024 bytes instead of 256``; more workers in PyTorch's store than the
world has (``world_size=4, worker_count=16``).

Why: two launches share one address, id or store, the world sizes differ, a port scanner called, or the peers' NCCL
versions differ.

Not when: NCCL discards a connection from outside the job at level INFO and goes on.

Source: NCCL's bootstrap.cc and socket.cc.
"""

from diagnostics.events import Event
from diagnostics.facts import JobFacts
from diagnostics.rules.base import CLEAR, Outcome, Rule, conclude, found
from diagnostics.rules.transport.ranks_disagree_on_transport import is_of_networks

_STRANGERS = frozenset({"magic", "type", "address family", "address"})
_AT_STORE = ("ranks-missing", "ranks-awaited")


def check(facts: JobFacts) -> Outcome:
    """Found where ranks, sizes or handshakes do not fit."""
    unknown_clients = [
        event
        for event in facts.of("foreign-connection")
        if event.fields.get("what") in _STRANGERS and event.origin.level != "INFO" and not is_of_networks(event)
    ]
    truncated = [event for event in facts.of("message-truncated") if event.fields["what"].startswith("Message")]
    counts = facts.of("rank-count-mismatch") + [event for event in facts.of(*_AT_STORE) if _is_too_many(event, facts)]
    events = sorted(unknown_clients + truncated + counts, key=lambda event: event.origin.sequence)
    if not events:
        return _at_allocator(facts)
    if counts:
        summary = "Processes of different launches met: rank counts or ranks do not fit"
    elif truncated:
        summary = "Peers disagree about the size of a bootstrap message: different NCCL versions or settings"
    elif all("address" in event.fields["what"] for event in unknown_clients):
        summary = "A peer sent an address that is none: it found no interface, or runs another NCCL version"
    else:
        summary = "A connection from outside the job, or of another kind, reached NCCL's port"
    return found(
        conclude(
            facts,
            events,
            severity="critical",
            confidence="certain" if counts else "likely",
            summary=summary,
            explanation="Each communicator needs its own address and the same number of ranks everywhere. "
            "Left-over processes of "
            "an earlier run, two launches with one port, or different versions cause this.",
            occurrences=len(events),
        )
    )


def _is_too_many(event: Event, facts: JobFacts) -> bool:
    """Whether more workers have come to PyTorch's store than the world has: those of another launch."""
    came, of = event.number("came"), event.number("of")
    return came is not None and of is not None and came > of and not facts.is_worked_behind(event)


def _at_allocator(facts: JobFacts) -> Outcome:
    """What allocates memory for other ranks, up to 2.13, read bytes from outside the job as a size; NCCL goes on."""
    events = facts.of("allocator-refused")
    if not events:
        return CLEAR
    return found(
        conclude(
            facts,
            events,
            severity="warning",
            confidence="likely",
            summary="A connection from outside the job reached NCCL's memory allocator, which refused it",
            explanation="A port scan, a health check or another job called the port, and what it sent was taken for a "
            "size. NCCL goes on; the memory of the GPU is not used up. Keep port scans and health checks off these "
            "ports.",
        )
    )


RULE = Rule(
    id="bootstrap-mismatch",
    title="Processes that do not belong together met",
    severity="critical",
    actions=("one-launch", "same-version"),
    check=check,
    explained_by=("version-mismatch",),
)
