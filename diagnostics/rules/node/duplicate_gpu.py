"""Two ranks use one GPU.

Symptom: ``Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 1000`` (2.5 to 2.29); from 2.30 on
``Multiple ranks detected using the same GPU``.

Why: each rank must have its own device; cudaSetDevice or LOCAL_RANK was not used, CUDA_VISIBLE_DEVICES gives all the
same, or more ranks than GPUs were started.

Not when: NCCL_MULTI_RANK_GPU_ENABLE=1 allows it (2.30+, experimental).

Source: NCCL's init.cc.
"""

from diagnostics.facts import JobFacts
from diagnostics.rules.base import CLEAR, Outcome, Rule, conclude, found, warned


def check(facts: JobFacts) -> Outcome:
    """Found where NCCL refused a device that is taken."""
    events = warned(facts, "duplicate-gpu")
    if not events:
        return CLEAR
    fields = events[0].fields
    who = f": ranks {fields['rank']} and {fields['other_rank']} on bus {fields['bus']}" if "rank" in fields else ""
    return found(
        conclude(
            facts,
            events,
            severity="critical",
            summary=f"Two ranks use the same GPU{who}",
            explanation="A communicator needs one device for each rank. Usually the program did not select "
            "the device of its local "
            "rank, or more ranks than GPUs were started.",
            occurrences=facts.count("duplicate-gpu"),
        )
    )


RULE = Rule(
    id="duplicate-gpu",
    title="Two ranks use one GPU",
    severity="critical",
    actions=("one-device-per-rank",),
    check=check,
)
