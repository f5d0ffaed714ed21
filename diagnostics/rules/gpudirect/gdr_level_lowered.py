"""GPUDirect RDMA is kept short by NCCL_NET_GDR_LEVEL.

Symptom: ``NCCL_NET_GDR_LEVEL set by environment to LOC`` (or NVL, PIX, 0, 1) and channels without GDRDMA.

Why: the variable lowers the distance up to which GPU and NIC talk directly. LOC switches GPUDirect RDMA off.

Not when: channels show GDRDMA all the same; the level is PXB or above.

Source: NCCL user guide, NCCL_NET_GDR_LEVEL.
"""

from diagnostics import transport
from diagnostics.facts import JobFacts
from diagnostics.rules.base import CLEAR, Outcome, Rule, conclude, found

_LOW = ("LOC", "NVL", "PIX", "0", "1")


def check(facts: JobFacts) -> Outcome:
    """Found where a low level is set and data channels lack GPUDirect RDMA."""
    level = facts.value_of("NCCL_NET_GDR_LEVEL")
    event = facts.variable_event("NCCL_NET_GDR_LEVEL")
    channels = transport.data_channels(facts)
    if level not in _LOW or event is None or not channels or all(channel.gdr for channel in channels):
        return CLEAR
    if any(channel.gdr for channel in channels) and level == "PIX":
        return CLEAR
    without = next(channel.event for channel in channels if not channel.gdr)
    return found(
        conclude(
            facts,
            [event, without],
            severity="warning",
            confidence="certain" if level in ("LOC", "0") else "likely",
            summary=f"NCCL_NET_GDR_LEVEL={level} keeps GPUDirect RDMA off",
            explanation=("The default allows GPUs and NICs behind common PCIe switches (PXB); this value allows less."),
        )
    )


RULE = Rule(
    id="gdr-level-lowered",
    title="NCCL_NET_GDR_LEVEL keeps GPUDirect RDMA off",
    severity="warning",
    actions=("unset-gdr-level", "check-distance"),
    check=check,
    slow=True,
)
