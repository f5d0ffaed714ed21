"""GPU and NIC are too far apart for GPUDirect RDMA.

Symptom: ``GPU Direct RDMA Disabled for GPU 17000 / HCA 0 (distance 8 > 5)``.

Why: across a processor, direct transfers are slow on much hardware, so NCCL uses them only up to a distance. The
numbers mean different paths in different versions; this rule decodes them by the version in the log.

Not when: the level itself was lowered (gdr-level-lowered); the NIC cannot register GPU memory anyway; the same
GPU has a nearer NIC that is enabled; one node.

Source: NCCL's topo.h, ncclTopoCheckGdr; user guide, NCCL_NET_GDR_LEVEL.
"""

from diagnostics import transport
from diagnostics.events import Event
from diagnostics.facts import JobFacts
from diagnostics.judging.distance import MEANING, path_name
from diagnostics.rules.base import CLEAR, Outcome, Rule, conclude, found


def check(facts: JobFacts) -> Outcome:
    """Found where pairs are disabled by distance and their GPU has no enabled pair."""
    pairs = facts.of("gdr-pair")
    enabled = {(event.origin.host, event.fields["gpu"]) for event in pairs if event.fields["state"] == "Enabled"}
    far = [
        event
        for event in pairs
        if event.fields["state"] == "Disabled" and (event.origin.host, event.fields["gpu"]) not in enabled
    ]
    if not far or facts.value_of("NCCL_NET_GDR_LEVEL") in ("LOC", "NVL", "PIX", "0", "1") or facts.multi_node is False:
        return CLEAR
    if transport.job_network(facts) in transport.TCP_NETWORKS:
        return CLEAR
    return found(
        conclude(
            facts,
            far,
            severity="warning" if facts.multi_node else "info",
            summary=f"GPU and NIC are too far apart for GPUDirect RDMA: {_decode(far[0], facts)}",
            explanation="NCCL keeps to direct transfers within common PCIe switches unless told otherwise. On "
            "bare metal this "
            "shows GPUs and NICs on different root ports or sockets; in virtual machines the switches are "
            "often hidden, and "
            "a topology file or a higher level helps.",
            occurrences=len(far),
        )
    )


def _decode(event: Event, facts: JobFacts) -> str:
    limit = path_name(event.fields["limit"], facts.version)
    path = path_name(event.fields["distance"], facts.version)
    if path is None:
        return (
            f"distance {event.fields['distance']} (the log does not show the version, which gives the "
            "number its meaning)"
        )
    allowed = f", allowed up to {limit}" if limit else ""
    return f"the path is {path} ({MEANING[path]}){allowed}"


RULE = Rule(
    id="gdr-distance",
    title="GPU and NIC are too far apart",
    severity="warning",
    actions=("check-distance", "raise-gdr-level"),
    check=check,
    slow=True,
)
