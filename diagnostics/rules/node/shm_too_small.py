"""Shared memory is full.

Symptom: ``Error: failed to extend /dev/shm/nccl-XXXXXX to 9637892 bytes``, ``No space left on device`` from
posix_fallocate; ``Bus error`` or exit status 135 without a line of NCCL's own.

Why: containers get 64 MiB of /dev/shm by default; NCCL needs some MiB for each pair of local ranks, and from 2.32.3 on
68,420,268 bytes a rank at its first collective, even over sockets.

Not when: NCCL retries at INFO and goes on; another error than "No space left on device" (28) is printed, such as
"Permission denied" (shm-attach-failed).

Source: NCCL user guide, troubleshooting, shared memory.
"""

from diagnostics.events import Event
from diagnostics.facts import JobFacts
from diagnostics.judging.error_number import named_error
from diagnostics.limits import NCCL_WITH_LARGE_SHM, SHM_BYTES_PER_RANK
from diagnostics.rules.base import CLEAR, Outcome, Rule, conclude, found, warned
from diagnostics.rules.program.job_cancelled import before_any_cut
from diagnostics.rules.program.killing import is_bus_error


def check(facts: JobFacts) -> Outcome:
    """Found where a segment could not be created or extended."""
    events = [event for event in warned(facts, "shm-extend-failed") if is_full(event)]
    if not events:
        return _bus_error(facts)
    size = next((event.number("size") or event.number("bytes") for event in events), None)
    return found(
        conclude(
            facts,
            events,
            severity="critical",
            summary="Shared memory (/dev/shm) is too small"
            + (f": a segment of {size:,} bytes did not fit" if size else ""),
            explanation="Local ranks exchange data and control blocks through /dev/shm. A container's default "
            "of 64 MiB is used up "
            "quickly. This is not GPU memory." + need_of(facts),
            occurrences=facts.count("shm-extend-failed"),
        )
    )


def _bus_error(facts: JobFacts) -> Outcome:
    """A process ended by a bus error, which is what a full /dev/shm gives to the process that writes there."""
    events = before_any_cut(facts, [event for event in facts.of("process-killed") if is_bus_error(event)])
    if not events:
        return CLEAR
    return found(
        conclude(
            facts,
            events,
            severity="critical",
            confidence="likely",
            summary="A process was ended by a bus error: shared memory (/dev/shm) is full, most likely",
            explanation="The process wrote to a mapped file without space left: NCCL's segments, and the batches of "
            "PyTorch's data loader, are files in /dev/shm, of which a container gets 64 MiB by default. Less often it "
            f"is a file on a disk that is full or gone.{need_of(facts)}",
        )
    )


def need_of(facts: JobFacts) -> str:
    """What this release takes of /dev/shm, where that is known; empty otherwise."""
    if facts.version is None or facts.version < NCCL_WITH_LARGE_SHM:
        return ""
    return (
        f" NCCL 2.32.3 takes {SHM_BYTES_PER_RANK:,} bytes a rank at its first collective, over sockets too: "
        "two ranks do not fit into a container's default, eight take half a GiB."
    )


def is_full(event: Event) -> bool:
    """Whether a segment did not fit: the line says ENOSPC, or no error, as older releases do."""
    error = named_error(event.fields.get("reason", ""))
    return error is None or error.name == "ENOSPC"


RULE = Rule(
    id="shm-too-small",
    title="Shared memory is too small",
    severity="critical",
    actions=("more-shm",),
    check=check,
)
