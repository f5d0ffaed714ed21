"""In-network reduction (SHARP) could not start, and NCCL went on without it.

Symptom: ``SHARP coll init error: Cannot create SHArP job(-11)``, ``Cannot initialize CollNet, using point-to-point
network instead``.

Why: no aggregation manager in the fabric, no free resources in the switches, or the feature is not licensed or
wanted.

Not when: COLLNET is not asked for.

Source: SHARP plugin of NVIDIA; NCCL's transport.cc. Most healthy clusters with HPC-X print it.
"""

from diagnostics.facts import JobFacts
from diagnostics.rules.base import Outcome, Rule, answer


def check(facts: JobFacts) -> Outcome:
    """Found where SHARP or CollNet gave up."""
    return answer(
        facts,
        facts.of("sharp-unavailable"),
        severity="info",
        summary="SHARP (CollNet) could not start; collectives run point to point",
        explanation="Nothing is broken. With SHARP, large all-reduces would take load off the links.",
    )


RULE = Rule(
    id="sharp-unavailable",
    title="SHARP could not start",
    severity="info",
    actions=("check-sharp",),
    done_without=("sharp-unavailable",),
    check=check,
    slow=True,
)
