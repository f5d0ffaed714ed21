"""Shared memory is full.

Symptom: ``Error: failed to extend /dev/shm/nccl-XXXXXX to 9637892 bytes``, ``No space left on device`` from
posix_fallocate.

Why: containers get 64 MiB of /dev/shm by default; NCCL needs some MiB for each pair of local ranks.

Not when: NCCL retries at INFO and goes on.

Source: NCCL user guide, troubleshooting, shared memory.
"""

from diagnostics.facts import JobFacts
from diagnostics.rules.base import CLEAR, Outcome, Rule, conclude, found, warned


def check(facts: JobFacts) -> Outcome:
    """Found where a segment could not be created or extended."""
    events = warned(facts, "shm-extend-failed")
    if not events:
        return CLEAR
    size = next((event.fields.get("size") or event.fields.get("bytes") for event in events), None)
    return found(
        conclude(
            facts,
            events,
            severity="critical",
            summary="Shared memory (/dev/shm) is too small"
            + (f": a segment of {int(size):,} bytes did not fit" if size else ""),
            explanation="Local ranks exchange data and control blocks through /dev/shm. A container's default "
            "of 64 MiB is used up "
            "quickly. This is not GPU memory.",
            occurrences=facts.count("shm-extend-failed"),
        )
    )


RULE = Rule(
    id="shm-too-small",
    title="Shared memory is too small",
    severity="critical",
    actions=("more-shm",),
    check=check,
)
