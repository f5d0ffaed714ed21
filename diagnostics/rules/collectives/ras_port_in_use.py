"""The port of NCCL's status service is taken.

Symptom: ``RAS failed to bind client listening socket ...: Address already in use``.

Why: another NCCL job on the machine has the service. It is for monitoring only.

Not when: the address in use belongs to the bootstrap network.

Source: NCCL's ras.cc (2.24+).
"""

from diagnostics.facts import JobFacts
from diagnostics.rules.base import Outcome, Rule, answer


def check(facts: JobFacts) -> Outcome:
    """Found where the service could not listen."""
    return answer(
        facts,
        facts.of("ras-port") + [event for event in facts.of("bind-failed") if "ras/" in event.text],
        severity="info",
        summary="The port of NCCL's status service (RAS) is taken by another job",
        explanation="The job itself is not affected; ncclras shows the other one.",
    )


RULE = Rule(
    id="ras-port-in-use",
    title="The status service's port is taken",
    severity="info",
    actions=("other-ras-port",),
    done_without=("ras-port",),
    check=check,
)
