"""A shared memory segment is not there for the peer.

Symptom: ``Error while attaching to shared memory segment /dev/shm/nccl-...``, ``unlink shared memory ... failed``.

Why: the two ranks run in containers with separate /dev/shm, or systemd removed the segments when a session of the
user ended.

Not when: shared memory was full when the segment was made (shm-too-small).

Source: NCCL's shmutils.cc; systemd's RemoveIPC.
"""

from diagnostics.facts import JobFacts
from diagnostics.rules.base import CLEAR, Outcome, Rule, conclude, found


def check(facts: JobFacts) -> Outcome:
    """Found where attaching failed and creating did not."""
    events = [
        event for event in facts.of("shm-attach-failed") if event.origin.level != "INFO" and "segment" in event.fields
    ]
    if not events or facts.of("shm-extend-failed"):
        return CLEAR
    return found(
        conclude(
            facts,
            events,
            severity="critical",
            confidence="likely",
            summary="A rank cannot find the shared memory segment of a rank beside it",
            explanation="NCCL takes both for ranks of one machine, but they do not see the same /dev/shm.",
            occurrences=facts.count("shm-attach-failed"),
        )
    )


RULE = Rule(
    id="shm-attach-failed",
    title="A shared memory segment is missing",
    severity="critical",
    actions=("keep-shm", "share-ipc"),
    check=check,
)
