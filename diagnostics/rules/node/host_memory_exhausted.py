"""The host has no memory left for NCCL.

Symptom: ``Failed to malloc 67108864 bytes``; ``Unrecoverable error detected: malloc(size=...) returned null``.

Why: the memory limit of the container or of the job's cgroup is used up, mostly by data loaders or a copy of the model
in each rank; or ``ulimit -v`` bounds the process.

Not when: the GPU's memory is meant (gpu-out-of-memory), /dev/shm (shm-too-small), or memory that a NIC locks
(memlock-limit); the process goes on to work.

Source: NCCL's alloc.h and utils.cc.
"""

from diagnostics.facts import JobFacts
from diagnostics.rules.base import Outcome, Rule, answer, stopped_at


def check(facts: JobFacts) -> Outcome:
    """Found where an allocation of the host's memory failed."""
    events = stopped_at(facts, "host-memory")
    return answer(
        facts,
        events,
        severity="critical",
        summary=f"The host has no memory for NCCL: {events[0].fields['text'][:140] if events else ''}",
        explanation="It is the host's memory and not the GPU's: the limit of the container, of the job, or of the "
        "process. NCCL's own share is small; see who holds the rest.",
    )


RULE = Rule(
    id="host-memory-exhausted",
    title="The host has no memory left",
    severity="critical",
    actions=("free-host-memory", "look-at-rank"),
    check=check,
)
