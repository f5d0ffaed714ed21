"""GPUDirect RDMA is used on a part of the channels only.

Symptom: some ranks or hosts show ``/GDRDMA`` on their receive channels, others do not.

Why: one host lacks the peer-memory module, or some GPUs are too far from every adapter.

Not when: only send channels lack it: GPUs before Ampere without NVLink send through host memory by default (info).
Channels over another GPU's adapter (PXN) follow that GPU.

Source: NCCL's topo.cc, NCCL_NET_GDR_READ.
"""

from collections import Counter

from diagnostics import transport
from diagnostics.facts import Channel, JobFacts
from diagnostics.rules.base import CLEAR, Outcome, Rule, conclude, found, listed


def check(facts: JobFacts) -> Outcome:
    """Found where receive channels disagree, or where all send channels lack what the receive channels have."""
    channels = [channel for channel in transport.data_channels(facts) if channel.direction]
    receive = [channel for channel in channels if channel.direction == "receive"]
    send = [channel for channel in channels if channel.direction == "send"]
    lacking = [channel for channel in receive if not channel.gdr]
    if lacking and len(lacking) < len(receive):
        return _split(facts, receive, lacking)
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
    total: Counter[str] = Counter()
    missing: Counter[str] = Counter()
    for channel in receive:
        total[channel.event.origin.host or ""] += 1
        missing[channel.event.origin.host or ""] += not channel.gdr
    without = sorted(host for host in total if host and missing[host] == total[host])
    where = f"host {listed(without)} lacks it" if without else "some GPUs lack it"
    return found(
        conclude(
            facts,
            [channel.event for channel in lacking],
            severity="warning",
            summary=f"GPUDirect RDMA is used on a part of the channels: {where}",
            explanation=(
                "The slowest path sets the pace of every collective, so the ranks without it slow down all others."
            ),
            occurrences=sum(channel.count for channel in lacking),
        )
    )


RULE = Rule(
    id="gdr-partial",
    title="GPUDirect RDMA is used in part",
    severity="warning; info where only sending lacks it",
    actions=("load-peer-memory", "check-distance"),
    check=check,
)
