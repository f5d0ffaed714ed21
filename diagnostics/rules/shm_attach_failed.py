"""A shared memory segment is not there for the peer.

Symptom: ``Error while attaching to shared memory segment /dev/shm/nccl-...``, ``unlink shared memory ... failed``.

Why: the two ranks run in containers with separate /dev/shm, or systemd removed the segments when a session of the
user ended.

Not when: shared memory was full when the segment was made (shm-too-small).

Source: NCCL's shmutils.cc; systemd's RemoveIPC.
"""

from diagnostics.facts import JobFacts
from diagnostics.rules.base import Outcome, Rule, answer, warned


def check(facts: JobFacts) -> Outcome:
    """Found where attaching failed and creating did not."""
    events = [event for event in warned(facts, "shm-attach-failed") if "segment" in event.fields]
    return answer(
        facts,
        [] if facts.of("shm-extend-failed") else events,
        severity="critical",
        confidence="likely",
        summary="A rank cannot find the shared memory segment of a rank beside it",
        explanation="NCCL takes both for ranks of one machine, but they do not see the same /dev/shm.",
    )


RULE = Rule(
    id="shm-attach-failed",
    title="A shared memory segment is missing",
    severity="critical",
    actions=("keep-shm", "share-ipc"),
    check=check,
)
