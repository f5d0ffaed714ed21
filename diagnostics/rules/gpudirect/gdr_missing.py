"""The network is RDMA, but GPUDirect RDMA is not used.

Symptom: channels between nodes show ``via NET/IB/0`` without ``/GDRDMA``; bandwidth is below the link's and the
processor is busy.

Why: GPUDirect RDMA lets the NIC read and write GPU memory. It needs (1) the nvidia-peermem module or DMA-BUF, (2)
a GPU that supports it, (3) GPU and NIC near enough on PCIe. The rules gdr-module-missing, gdr-distance,
gdr-level-lowered and gdr-disabled-by-plugin report the cause where the log proves it; this finding is then info.

Not when: one node; TCP; only the send side lacks it (normal on PCIe GPUs before Ampere). Omni-Path through verbs and
small EFA instances do not offer it, nor do GB10 (DGX Spark) and GeForce GPUs where nccl-tests lists them: info. A line
``GDR 1`` after ``Connected all rings`` proves nothing.

Source: NCCL's net.cc and topo.cc; user guide, NCCL_NET_GDR_LEVEL.
"""

from diagnostics import transport
from diagnostics.facts import JobFacts
from diagnostics.findings import Severity
from diagnostics.parsers.base import compiled
from diagnostics.rules.base import CLEAR, Outcome, Rule, conclude, found, unsure


def check(facts: JobFacts) -> Outcome:
    """Found where no data channel has GPUDirect RDMA."""
    channels = transport.data_channels(facts)
    if not channels:
        return _without_channels(facts)
    if any(channel.gdr for channel in channels):
        return CLEAR
    severity, reason = _severity(facts)
    cause = _cause(facts)
    return found(
        conclude(
            facts,
            [channel.event for channel in channels],
            severity=severity,
            confidence="certain",
            summary="RDMA without GPUDirect: no channel over "
            f"{channels[0].event.fields['transport']}/{channels[0].network} "
            "shows GDRDMA",
            explanation=f"{reason} {cause}".strip(),
            occurrences=sum(channel.count for channel in channels),
            hosts=facts.hosts,
            actions=("show-gdr",) if severity == "info" else (),
        )
    )


def _without_channels(facts: JobFacts) -> Outcome:
    network = transport.job_network(facts)
    if network in transport.TCP_NETWORKS or facts.multi_node is False:
        return CLEAR
    return unsure(
        "no channel line shows a data path between nodes; NCCL prints them at NCCL_DEBUG=INFO with the first "
        "collective "
        "(NCCL_DEBUG_SUBSYS=INIT,NET,GRAPH,ENV also shows why)"
    )


def _severity(facts: JobFacts) -> tuple[Severity, str]:
    names = [device.name for device in facts.devices]
    if any(name.startswith(("hfi", "opa")) for name in names):
        return (
            "info",
            "Omni-Path NICs used through verbs offer no GPUDirect RDMA to NCCL, so this is expected here.",
        )
    if transport.gpus_without_gdr(facts):
        return "info", "GB10 (DGX Spark) and GeForce GPUs offer no GPUDirect RDMA, so this is expected here."
    network = transport.job_network(facts)
    if any("cxi" in event.fields["provider"] for event in facts.of("ofi-provider")):
        return "info", "On Slingshot the plugin and libfabric's cxi provider decide whether the NIC reads GPU memory."
    large_efa = network == "plugin:aws-ofi-nccl" and _large_efa(facts)
    if network == "plugin:aws-ofi-nccl" and not large_efa:
        return (
            "info",
            "Many EFA instance types offer no GPUDirect RDMA; on p4d, p4de, p5 and larger it should be there.",
        )
    if network.startswith("plugin:") and not large_efa:
        return "info", "Whether this network offers GPUDirect RDMA is its plugin's affair."
    return "warning", "Every byte is copied through host memory, which costs bandwidth and processor time."


def _large_efa(facts: JobFacts) -> bool:
    return any(compiled(r"(?i)\bp[456]\w{0,3}(?:[.\-]|\b)").search(event.text) for event in facts.of("ofi-platform"))


def _cause(facts: JobFacts) -> str:
    if transport.nic_states(facts) or facts.of("gdr-pair", "gdr-disabled-by-plugin"):
        return "The cause that the log proves is a finding of its own."
    if facts.of("ib-devices", "ofi", "ofi-provider"):  # of the NET subsystem, which is then shown
        return "Cause: cannot tell: of the lines of the NET subsystem that are there, none says what the NICs can do."
    return (
        "Cause: cannot tell, because the log has no lines of the NET subsystem. "
        "NCCL_DEBUG_SUBSYS=INIT,NET,GRAPH,ENV would show "
        "whether the NICs can register GPU memory and how far they are from the GPUs."
    )


RULE = Rule(
    id="gdr-missing",
    title="GPUDirect RDMA is not used",
    severity="warning; info on hardware without it",
    actions=("load-peer-memory", "use-dmabuf", "check-distance", "show-gdr"),
    check=check,
    slow=True,
    explained_by=("gdr-module-missing", "gdr-level-lowered", "gdr-distance", "gdr-disabled-by-plugin"),
)
