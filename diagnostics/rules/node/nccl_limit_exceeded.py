"""The job or the machine is larger than this NCCL has room for.

Symptom: ``Error : too many XML nodes (max 256)``; ``Too many aggregated operations on channel 3 (16 max)``;
``nvmlDeviceGetCount() reported more devices (40) than the internal maximum``.

Why: NCCL has tables of fixed size. New machines (many GPUs, NICs or partitions) outgrow old releases, and a group call
may hold only so many operations.

Not when: the value of a variable is out of bounds (env-misuse).

Source: NCCL's xml.h, topo.h, enqueue.cc, nvmlwrap.h.
"""

from diagnostics.facts import JobFacts
from diagnostics.rules.base import Outcome, Rule, answer, stopped_at


def check(facts: JobFacts) -> Outcome:
    """Found where NCCL stops at a maximum of its own."""
    events = stopped_at(facts, "limit-exceeded")
    return answer(
        facts,
        events,
        severity="critical",
        summary=f"A maximum of this NCCL is exceeded: {events[0].fields['text'][:140] if events else ''}",
        explanation="The number in the line is fixed when NCCL is built. A newer release has more room; else fewer "
        "visible devices, or fewer operations in one group, fit.",
    )


RULE = Rule(
    id="nccl-limit-exceeded",
    title="A fixed maximum of NCCL is exceeded",
    severity="critical",
    actions=("newer-library", "show-network"),
    check=check,
)
