"""GPUDirect RDMA is used on a part of the channels only.

Symptom: some ranks or hosts show ``/GDRDMA`` on their receive channels, others do not.

Why: one host lacks the peer-memory module, or some GPUs are too far from every NIC.

Not when: only send channels lack it: GPUs before Ampere without NVLink send through host memory by default (info).
Channels over another GPU's NIC (PXN) follow that GPU. Where every GPU and every NIC has it on some channels,
only far pairs lack it, as in groups that hold a part of a machine's GPUs (info). Where one GPU has it and lacks it by
the same NIC, no distance explains that.

Source: NCCL's topo.cc, NCCL_NET_GDR_READ.
"""

from collections import defaultdict
from collections.abc import Hashable
from typing import TypeVar

from diagnostics import transport
from diagnostics.facts import Channel, JobFacts
from diagnostics.findings import Finding
from diagnostics.rules.base import CLEAR, Outcome, Rule, conclude, found, listed, plural

_Key = TypeVar("_Key", bound=Hashable)


def check(facts: JobFacts) -> Outcome:
    """Found where receive channels disagree, or where all send channels lack what the receive channels have."""
    channels = [channel for channel in transport.data_channels(facts) if channel.direction]
    receive = [channel for channel in channels if channel.direction == "receive"]
    send = [channel for channel in channels if channel.direction == "send"]
    lacking = [channel for channel in receive if not channel.gdr]
    if lacking and len(lacking) < len(receive):
        return _split(facts, receive, lacking)
    without = _hosts_without(channels) if lacking else []
    if without and any(channel.gdr for channel in send):  # excerpts show one direction of each host
        return found(_in_part(facts, lacking, f"host {listed(sorted(without))} lacks it"))
    if receive and not lacking and send and not any(channel.gdr for channel in send):
        return found(
            conclude(
                facts,
                [channel.event for channel in send],
                severity="info",
                summary="GPUDirect RDMA is used for receiving, not for sending",
                explanation=(
                    "Normal for PCIe GPUs older than Ampere. NCCL_NET_GDR_READ=1 forces it for sending; measure both."
                ),
                occurrences=sum(channel.count for channel in send),
                actions=("check-distance",),
            )
        )
    return CLEAR


def _split(facts: JobFacts, receive: list[Channel], lacking: list[Channel]) -> Outcome:
    """One finding: which hosts, GPUs or NICs never have it, or that only some far pairs lack it."""
    hosts = _never([(channel.event.origin.host or "", channel) for channel in receive])
    gpus = _never([((channel.event.origin.host or "", channel.target_device or ""), channel) for channel in receive])
    nics = _never([((channel.event.origin.host or "", _nic(channel)), channel) for channel in receive])
    if hosts and all(hosts):
        where = f"host {listed(sorted(hosts))} lacks it"
    elif gpus:
        where = f"{plural(len(gpus), 'GPU')} never {'has' if len(gpus) == 1 else 'have'} it"
    elif nics:
        where = f"{plural(len(nics), 'NIC')} never {'has' if len(nics) == 1 else 'have'} it"
    elif gpus_lost := _with_and_without(receive):
        told = "has and lacks" if gpus_lost == 1 else "have and lack"
        where = f"{plural(gpus_lost, 'GPU')} {told} it by the same NIC"
    else:
        return found(_far_pairs(facts, lacking))
    return found(_in_part(facts, lacking, where))


def _hosts_without(channels: list[Channel]) -> list[str]:
    """Hosts that receive, none of whose channels has it in either direction; empty where a host is not named."""
    hosts = _never([(channel.event.origin.host or "", channel) for channel in channels])
    receiving = {channel.event.origin.host for channel in channels if channel.direction == "receive"}
    return [host for host in hosts if host in receiving] if all(hosts) else []


def _in_part(facts: JobFacts, lacking: list[Channel], where: str) -> Finding:
    return conclude(
        facts,
        [channel.event for channel in lacking],
        severity="warning",
        summary=f"GPUDirect RDMA is used on a part of the channels: {where}",
        explanation="The slowest path sets the pace of every collective, so the ranks without it slow down all others.",
        occurrences=sum(channel.count for channel in lacking),
    )


def _far_pairs(facts: JobFacts, lacking: list[Channel]) -> Finding:
    return conclude(
        facts,
        [channel.event for channel in lacking],
        severity="info",
        summary="GPUDirect RDMA is used, but not between every GPU and every NIC",
        explanation="Each GPU and each NIC has it on some of its channels. Groups with a part of the GPUs also use "
        "NICs that are far from them, which is normal.",
        occurrences=sum(channel.count for channel in lacking),
        actions=("check-distance",),
    )


def _never(channels: list[tuple[_Key, Channel]]) -> list[_Key]:
    """Keys none of whose channels has GPUDirect RDMA."""
    direct = {key for key, channel in channels if channel.gdr}
    return [key for key in dict.fromkeys(key for key, _ in channels) if key not in direct]


def _with_and_without(channels: list[Channel]) -> int:
    """GPUs whose channels over one NIC have it and lack it, which no distance explains: it was lost on the way.

    The GPU of a channel over that of another one (PXN), and one whose device the line does not name, are not known.
    """
    kinds: dict[tuple[Hashable, str, str], set[bool]] = defaultdict(set)
    for channel in channels:
        if channel.target_device and _nic(channel) and channel.network and "(" not in channel.kind:
            who = channel.event.origin.process or channel.event.origin.host
            kinds[who, channel.target_device, f"{channel.network}/{_nic(channel)}"].add(channel.gdr)
    return len({(who, gpu) for (who, gpu, _), used in kinds.items() if len(used) > 1})


def _nic(channel: Channel) -> str:
    """The NIC's number in ``IB/3/GDRDMA``."""
    return channel.kind.split("/")[1].split("(")[0] if "/" in channel.kind else ""


RULE = Rule(
    id="gdr-partial",
    title="GPUDirect RDMA is used in part",
    severity="warning; info where only sending or far pairs lack it",
    actions=("load-peer-memory", "check-distance"),
    check=check,
    slow=True,
)
