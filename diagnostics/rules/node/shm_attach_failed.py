"""A shared memory segment is not there for the peer.

Symptom: ``Error while attaching to shared memory segment /dev/shm/nccl-...``, ``unlink shared memory ... failed``, or a
segment that cannot be made for another reason than space: ``error: Permission denied (13)``. UCX's ``Shared memory
error``.

Why: the two ranks run in containers with separate /dev/shm, or systemd removed the segments when a session of the
user ended; or /dev/shm is not writable for this user.

Not when: shared memory was full when the segment was made (shm-too-small).

Source: NCCL's shmutils.cc; systemd's RemoveIPC.
"""

from diagnostics.facts import JobFacts
from diagnostics.judging.error_number import named_error
from diagnostics.rules.base import Outcome, Rule, answer, conclude, found, warned
from diagnostics.rules.node.shm_too_small import is_full

_OF_NCCL = "NCCL takes both for ranks of one machine, but they do not see the same /dev/shm."
_OF_UCX = (
    "UCX takes both for processes of one machine, and opens the segment under /proc/<pid>/fd or in /dev/shm. "
    "Containers with PID namespaces or a /dev/shm of their own do not have it there. "
    "UCX_POSIX_USE_PROC_LINK=n takes /dev/shm."
)


def check(facts: JobFacts) -> Outcome:
    """Found where attaching failed and creating did not, or creating failed for another reason than space."""
    refused = [event for event in warned(facts, "shm-extend-failed") if not is_full(event)]
    if refused:
        error = named_error(refused[0].fields["reason"])
        return found(
            conclude(
                facts,
                refused,
                severity="critical",
                summary=f"A rank cannot make its shared memory segment ({error})",
                explanation="Space is free in /dev/shm, but the system refuses the segment to this process: look at "
                "the owner and mode of /dev/shm, and at what the container or a security module allows.",
            )
        )
    events = [event for event in warned(facts, "shm-attach-failed") if "segment" in event.fields]
    events = [event for event in events if "library" not in event.fields or not facts.went_on(event)]
    of_ucx = bool(events) and "library" in events[0].fields
    return answer(
        facts,
        [] if facts.of("shm-extend-failed") else events,
        severity="critical",
        confidence="likely",
        summary="A rank cannot find the shared memory segment of a rank beside it",
        explanation=_OF_UCX if of_ucx else _OF_NCCL,
    )


RULE = Rule(
    id="shm-attach-failed",
    title="A shared memory segment is missing",
    severity="critical",
    actions=("keep-shm", "share-ipc"),
    check=check,
)
