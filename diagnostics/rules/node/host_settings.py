"""AMD's library asks for settings of the host that are not there.

Symptom: ``Missing "iommu=pt" from kernel command line``, ``Missing "HSA_FORCE_FINE_GRAIN_PCIE=1" from environment``,
``NUMA auto balancing enabled``.

Why: RCCL looks at the kernel's command line and the environment when it starts. Without IOMMU pass-through, direct
transfers between devices are translated, which costs bandwidth and on some machines hangs; NUMA balancing moves pages
while NICs read them.

Not when: the log is of NVIDIA's library, which has no such messages. The job runs all the same: info.

Source: RCCL's init.cc; AMD's system optimisation guides.
"""

from diagnostics.facts import JobFacts
from diagnostics.rules.base import CLEAR, Outcome, Rule, conclude, found, listed


def check(facts: JobFacts) -> Outcome:
    """Found where RCCL names settings that it misses."""
    events = facts.of("host-setting")
    if not events:
        return CLEAR
    names = sorted({event.fields.get("setting") or event.fields["balancing"] for event in events})
    return found(
        conclude(
            facts,
            events,
            severity="info",
            summary=f"RCCL advises other settings of the host: {listed(names)}",
            explanation="The job runs without them. Where it is slow or hangs inside a machine, set them first.",
            occurrences=facts.count("host-setting"),
        )
    )


RULE = Rule(
    id="host-settings",
    title="Settings of the host that RCCL misses",
    severity="info",
    actions=("set-host-settings",),
    done_without=("host-setting",),
    check=check,
    slow=True,
)
