"""Gradient synchronisation takes a large share of the step.

Symptom: a training log prints a share of communication above 40 %.

Why: the network is slower than it should be (TCP, no GPUDirect), buckets are too small, communication does not
overlap with the backward pass, or the batch is too small for the number of GPUs.

Not when: the share is that of an unlimited micro-benchmark.

Source: this project's seed documents, which set the limit of 40 %.
"""

from diagnostics.facts import JobFacts
from diagnostics.limits import HIGH_SYNC_SHARE
from diagnostics.rules.base import CLEAR, Outcome, Rule, conclude, found

LIMIT_PERCENT = 100 * HIGH_SYNC_SHARE


def check(facts: JobFacts) -> Outcome:
    """Found where a line prints a share above the limit."""
    high = [event for event in facts.of("sync-share") if float(event.fields["percent"]) > LIMIT_PERCENT]
    if not high:
        return CLEAR
    return found(
        conclude(
            facts,
            high,
            severity="warning",
            confidence="possible",
            summary=(
                f"Gradient synchronisation takes {high[0].fields['percent']} % of the step (limit {LIMIT_PERCENT:g} %)"
            ),
            explanation="Causes in the order to check: TCP or missing GPUDirect, no overlap with the backward "
            "pass, small "
            "buckets, a batch that is too small.",
        )
    )


RULE = Rule(
    id="sync-overhead",
    title="Gradient synchronisation takes too long",
    severity="warning",
    actions=("show-network", "measure-link"),
    check=check,
    in_runs="`raybench train` measures how much of a step waits for communication that no computation hides.",
    run_actions=("reduce-sync-overhead",),
    slow=True,
)
