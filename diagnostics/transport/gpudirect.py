"""Whether data goes from the NIC into GPU memory (GPUDirect RDMA)."""

from diagnostics.facts import Channel, JobFacts
from diagnostics.parsers.base import compiled
from diagnostics.transport.network import TCP_NETWORKS, job_network, network_class


def data_channels(facts: JobFacts) -> list[Channel]:
    """Network channels that could use GPUDirect RDMA: all but those over sockets."""
    return [channel for channel in facts.net_channels if network_class(channel.network or "", None) not in TCP_NETWORKS]


def gpu_direct(facts: JobFacts) -> bool | None:
    """True where a channel shows GDRDMA, False where it is shown to be absent, None where the log cannot tell."""
    channels = data_channels(facts)
    if any(channel.gdr for channel in channels):
        return True
    if facts.net_channels:
        used = facts.count("init-complete") if channels else not facts.failed
        return False if used or not facts.failed else None
    if facts.of("gdr-disabled-by-plugin") or _is_ruled_out(facts) or _ring_without(facts):
        return False
    claims = facts.of("gdr-claimed")
    return claims[0].fields["state"] == "enabled" if claims else None


def _is_ruled_out(facts: JobFacts) -> bool:
    """Whether no NIC can register GPU memory, or data goes between nodes over TCP."""
    states = nic_states(facts)
    if states and not any(states.values()):
        return True
    return bool(job_network(facts) in TCP_NETWORKS and facts.multi_node and facts.works and not facts.failed)


def _ring_without(facts: JobFacts) -> bool:
    """Whether NCCL says that its ring does without; ``GDR 1`` is what it begins with, and says nothing."""
    return facts.multi_node is not False and any(
        "use ring PXN" in one.text and "GDR 0" in one.text for one in facts.of("connected")
    )


def nic_states(facts: JobFacts) -> dict[tuple[str, str], bool]:
    """(host, NIC) -> whether it can register GPU memory, by either way. Socket interfaces are left out."""
    states: dict[tuple[str, str], bool] = {}
    for event in facts.of("gdr-nic"):
        if network_class(event.fields["network"], None) in TCP_NETWORKS:
            continue
        key = (event.origin.host or "", event.fields["device"])
        enabled = event.fields["state"].lower() == "enabled"
        states[key] = states.get(key, False) or enabled
    return states


def gpus_without_gdr(facts: JobFacts) -> bool:
    """Whether all GPUs that nccl-tests lists are of kinds without GPUDirect RDMA; host names prove nothing.

    GB10: NVIDIA on DGX Spark (forums.developer.nvidia.com/t/348787). GeForce: the attribute "GPUDirect RDMA supported"
    that NCCL asks the driver for is 0.
    """
    listed = facts.of("tests-rank")
    return bool(listed) and all(compiled(r"\bNVIDIA GB10\b|\bGeForce\b").search(event.text) for event in listed)
