"""A communicator was started and never completed.

Symptom: ``Init START`` without ``Init COMPLETE``, and then a time-out, endless attempts to connect, a job that is
cancelled, or nothing more.

Why: a rank never came (crashed, not started, other world size), or cannot be reached over the bootstrap network.

Not when: the log merely ends there: a log that is cut looks the same. Without a sign that time passed, it counts where
at least half of the ranks, and every process that speaks, stand at their start and none went further.

Source: NCCL's init.cc (START lines since 2.18.3).
"""

from diagnostics.events import Event
from diagnostics.facts import Communicator, JobFacts
from diagnostics.rules.base import CLEAR, LEFT_OUT, Outcome, Rule, conclude, found, listed, unsure
from diagnostics.rules.connecting import unanswered
from diagnostics.rules.run_failed import failure_lines

_SIGNS = (
    "watchdog-timeout",
    "watchdog-stuck",
    "store-failed",
    "process-killed",
    "communicator-aborted",
    "cancelled",
)


def check(facts: JobFacts) -> Outcome:
    """Found where ranks started and none completed, and the log shows that time ran out, or that all stand there."""
    hanging = [communicator for communicator in facts.communicators if _hangs(communicator)]
    if not hanging:
        return CLEAR
    if facts.starts_left_out:
        return unsure(LEFT_OUT)
    communicator = max(hanging, key=lambda one: one.nranks)
    signs = facts.of(*_SIGNS) or unanswered(facts)
    if not signs and failure_lines(facts):
        return CLEAR
    if not signs and not _all_stand(communicator, facts):
        return unsure(
            "ranks started a communicator and the log ends before it is complete: a hang, or a log that is cut"
        )
    absent = [rank for rank in range(min(communicator.nranks, 100_000)) if rank not in communicator.members]
    waiting = [member for member in communicator.members.values() if member.started and not member.completed]
    starts = [member.event for member in waiting if member.event is not None]
    return found(
        conclude(
            facts,
            [*starts[:3], *signs[:1]],
            severity="critical",
            confidence="likely" if signs else "possible",
            summary=f"Initialisation hung: {len(waiting)} of {communicator.nranks} ranks started and none completed"
            + (f"; ranks {listed(absent)} never came" if absent else ""),
            explanation=_explain(absent, signs),
        )
    )


def _explain(absent: list[int], signs: list[Event]) -> str:
    return (
        "Initialisation completes on all ranks together. "
        + (
            "Look at the ranks that never came: not started, dead, or with another world size."
            if absent
            else "All ranks came, so one of them cannot connect."
        )
        + ("" if signs else " If the log was cut here, give all of it.")
    )


def _all_stand(communicator: Communicator, facts: JobFacts) -> bool:
    """Whether at least half of the ranks stand at their start, and no process is on its way to it or past it."""
    members = {member.process for member in communicator.members.values()}
    if 2 * len(communicator.members) < communicator.nranks or len(communicator.members) < 2:
        return False
    speaking = {key for key, process in facts.processes.items() if process.networks or process.devices is not None}
    starts = [member.event for member in communicator.members.values() if member.event is not None]
    went_on = any(_went_on(start, facts) for start in starts)
    return speaking <= members and all(host for host, _ in members) and not went_on


def _went_on(start: Event, facts: JobFacts) -> bool:
    """Whether the process told of more than attempts to connect after its start."""
    process = facts.processes.get(start.origin.process) if start.origin.process else None
    return process is not None and process.last_progress > start.origin.sequence


def _hangs(communicator: Communicator) -> bool:
    members = communicator.members.values()
    return any(member.started for member in members) and not any(member.completed for member in members)


RULE = Rule(
    id="init-hang",
    title="Initialisation hung",
    severity="critical",
    actions=("look-at-rank", "check-reachability", "one-launch"),
    check=check,
    consequence="after",
)
