"""The NICs cannot register GPU memory: neither peer-memory module nor DMA-BUF.

Symptom: ``NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'``.

Why: for GPUDirect RDMA the kernel must let the NIC map GPU memory, either by the module nvidia-peermem (amdkfd on
AMD) or by DMA-BUF (open kernel modules, Linux 5.12, CUDA 11.7). Containers use the host's module.

Not when: the line concerns NET/Socket, which never supports it; another line for the same NIC says Enabled
(either way is enough); on one node it does no harm and is info.

Source: NCCL's net_ib.cc (ncclIbGdrSupport, ncclIbDmaBufSupport).
"""

from diagnostics import transport
from diagnostics.facts import JobFacts
from diagnostics.rules.base import CLEAR, Outcome, Rule, by_nodes, conclude, found, listed, unsure


def check(facts: JobFacts) -> Outcome:
    """Found where NICs of a verbs network are reported without GPU memory support."""
    states = transport.nic_states(facts)
    if not states:
        network = transport.job_network(facts)
        if network in ("ib", "roce") and facts.multi_node and not transport.gpu_direct(facts):
            return unsure("per-NIC lines belong to the NET subsystem; NCCL_DEBUG_SUBSYS=INIT,NET would print them")
        return CLEAR
    disabled = sorted(key for key, enabled in states.items() if not enabled)
    if not disabled or transport.gpu_direct(facts):
        return CLEAR
    lost = set(disabled)
    events = [e for e in facts.of("gdr-nic") if (e.origin.host or "", e.fields["device"]) in lost]
    devices = sorted({device for _, device in disabled})
    return found(
        conclude(
            facts,
            events,
            severity="warning" if facts.multi_node else "info",
            summary=f"NICs cannot register GPU memory ({listed(devices)}): neither peer-memory module nor DMA-BUF",
            explanation="Without one of the two, GPUDirect RDMA is off and data is copied through host memory."
            + by_nodes(facts, on_one="it matters only once a second one joins"),
        )
    )


RULE = Rule(
    id="gdr-module-missing",
    title="No peer-memory module and no DMA-BUF",
    severity="warning; info on one node",
    actions=("load-peer-memory", "use-dmabuf"),
    check=check,
    slow=True,
)
