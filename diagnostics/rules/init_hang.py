"""A communicator was started and never completed.

Symptom: ``Init START`` without ``Init COMPLETE``, and then a time-out or the end of the job.

Why: a rank never came (crashed, not started, other world size), or cannot be reached over the bootstrap network.

Not when: the log merely ends there: a log that is cut looks the same, so without a sign of a time-out the answer is
"cannot tell".

Source: NCCL's init.cc (START lines since 2.18.3).
"""

from diagnostics.facts import Communicator, JobFacts
from diagnostics.rules.base import CLEAR, LEFT_OUT, Outcome, Rule, conclude, found, listed, unsure

_SIGNS = (
    "watchdog-timeout",
    "watchdog-stuck",
    "store-failed",
    "process-killed",
    "communicator-aborted",
    "init-timeout",
)


def check(facts: JobFacts) -> Outcome:
    """Found where ranks started, none completed, and the log shows that time ran out."""
    hanging = [communicator for communicator in facts.communicators if _hangs(communicator)]
    if not hanging:
        return CLEAR
    if facts.starts_left_out:
        return unsure(LEFT_OUT)
    signs = facts.of(*_SIGNS)
    if not signs:
        return unsure(
            "ranks started a communicator and the log ends before it is complete: a hang, or a log that is cut"
        )
    communicator = max(hanging, key=lambda one: one.nranks)
    absent = [rank for rank in range(min(communicator.nranks, 100_000)) if rank not in communicator.members]
    waiting = [member for member in communicator.members.values() if member.started and not member.completed]
    starts = [member.event for member in waiting if member.event is not None]
    return found(
        conclude(
            facts,
            [*starts[:3], signs[0]],
            severity="critical",
            confidence="likely",
            summary=f"Initialisation hung: {len(waiting)} of {communicator.nranks} ranks started and none completed"
            + (f"; ranks {listed(absent)} never came" if absent else ""),
            explanation="Initialisation completes on all ranks together. "
            + (
                "Look at the ranks that never came: not started, dead, or with another world size."
                if absent
                else "All ranks came, so one of them cannot connect."
            ),
        )
    )


def _hangs(communicator: Communicator) -> bool:
    members = communicator.members.values()
    return any(member.started for member in members) and not any(member.completed for member in members)


RULE = Rule(
    id="init-hang",
    title="Initialisation hung",
    severity="critical",
    actions=("look-at-rank", "check-reachability", "one-launch"),
    check=check,
    consequence="lower",
)
