"""A storage or management NIC is among the data NICs.

Symptom: one of the listed devices is much slower than the others.

Why: without NCCL_IB_HCA every active verbs port is taken. Channels over the slow one hold up all.

Not when: all speeds are alike; merged ports add up to the same.

Source: NCCL user guide, NCCL_IB_HCA; speeds as printed by NCCL 2.24 and newer.
"""

from diagnostics.facts import JobFacts
from diagnostics.rules.base import CLEAR, Outcome, Rule, conclude, found, unsure


def check(facts: JobFacts) -> Outcome:
    """Found where a device has at most a quarter of the fastest device's speed."""
    speeds = [(event, event.number("mbps") or 0) for event in facts.of("ib-speed")]
    fastest = max((speed for _, speed in speeds), default=0)
    slow = [(event, speed) for event, speed in speeds if 0 < 4 * speed <= fastest]
    if not speeds:
        many = len({device.name for device in facts.devices}) > 1
        return unsure("NIC speeds are printed from NCCL 2.24 on with NCCL_DEBUG_SUBSYS=INIT,NET") if many else CLEAR
    if not slow:
        return CLEAR
    names = sorted({event.fields.get("name") or event.fields.get("virtual", "") for event, _ in slow})
    return found(
        conclude(
            facts,
            [event for event, _ in slow],
            severity="warning" if facts.multi_node is not False else "info",
            confidence="likely",
            summary=(
                f"Slow NIC among the data NICs: {', '.join(names[:6])} ({slow[0][1] // 1000} of {fastest // 1000} Gb/s)"
            ),
            explanation="It looks like a storage or management port. NCCL_IB_HCA should name the data NICs only.",
        )
    )


RULE = Rule(
    id="hca-wrong-included",
    title="A slow NIC is among the data NICs",
    severity="warning",
    actions=("select-adapters",),
    check=check,
    slow=True,
)
