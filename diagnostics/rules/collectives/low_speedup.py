"""The measured gain of RDMA over TCP is small.

Symptom: a benchmark prints a speedup below 2x for RDMA against TCP.

Why: RDMA was not used at all, GPUDirect was missing, the model is bound by computation, or messages are small. The
transport rules say which of these the log shows.

Not when: the speedup concerns something else than the network.

Source: this project's seed documents, which set the limit of 2x; the limit is a rule of thumb.
"""

from diagnostics.facts import JobFacts
from diagnostics.rules.base import CLEAR, Outcome, Rule, conclude, found

LIMIT = 2.0


def check(facts: JobFacts) -> Outcome:
    """Found where a line prints a speedup of RDMA below the limit."""
    low = [event for event in facts.of("speedup") if float(event.fields["factor"]) < LIMIT]
    if not low:
        return CLEAR
    named = any("rdma" in event.text.lower() or "tcp" in event.text.lower() for event in low)
    return found(
        conclude(
            facts,
            low,
            severity="warning" if named else "info",
            confidence="possible",
            summary=(
                f"Low speedup: {low[0].fields['factor']}x (expected at least {LIMIT:g}x where the network is the limit)"
            ),
            explanation="Causes in the order to check: both runs used TCP, GPUDirect RDMA is off, the job is bound by "
            "computation, or messages are too small to fill the link.",
        )
    )


RULE = Rule(
    id="low-speedup",
    title="Low speedup of RDMA over TCP",
    severity="warning; info where the line does not name the network",
    actions=("show-network", "list-rdma-devices", "measure-link"),
    check=check,
    slow=True,
)
