"""Data between nodes goes over TCP, not RDMA.

Symptom: multi-node training is several times slower than it should be, with no error. NCCL prints no message about
falling back; the only traces are ``Using network Socket`` and channels ``via NET/Socket/0``.

Why: NCCL takes the first network that initialises with at least one device: a plugin, then InfiniBand or RoCE, then
TCP sockets. Whatever hides the NICs (a missing device file, a driver, a filter, a variable) leaves sockets, and
the job runs.

Not when: all ranks share one node (then no data crosses a network and the line is harmless); the user asked for TCP
(a variable says so, or a rank starts without looking for a NIC at all);
the network is EFA, GPUDirect-TCPX, FasTrak, gIB or UCX. FastSocket is TCP by design and reported only with a sign of
RDMA.

Severity: critical where the log shows RDMA hardware or the wish for it, warning where it shows neither, or only a
plugin that found no network of its own (aws-ofi-nccl of an image, on an instance without EFA).

Source: NCCL user guide, troubleshooting; selection order read in NCCL's net.cc.
"""

from collections.abc import Sequence
from dataclasses import replace

from diagnostics import transport
from diagnostics.events import Event, quote
from diagnostics.facts import JobFacts
from diagnostics.rules.base import CLEAR, Outcome, Rule, conclude, found, unsure


def check(facts: JobFacts) -> Outcome:
    """Found where a multi-node data path is TCP and nobody asked for it."""
    network = transport.job_network(facts)
    if network not in transport.TCP_NETWORKS and network != "mixed":
        return (
            CLEAR if network != "unknown" else unsure("no line names the network; NCCL_DEBUG=INFO on every rank would")
        )
    channels = [
        c for c in facts.net_channels if transport.network_class(c.network or "", None) in transport.TCP_NETWORKS
    ]
    if (
        facts.multi_node is False
        or transport.tcp_by_choice(facts)
        or transport.never_tried(facts)
        or transport.handshake_refused(facts)
    ):
        return CLEAR
    if facts.multi_node is None or (network == "mixed" and not channels):
        return unsure(
            "the log does not show whether the job spans nodes; NCCL 2.20 or newer prints nNodes at NCCL_DEBUG=INFO"
        )
    wanted = transport.rdma_evidence(facts)
    declined = transport.declined(facts)  # a plugin that an image brings along shows no NIC
    if network == "plugin:FastSocket" and not wanted:
        return CLEAR
    taken = [event for event in facts.of("network", "socket-devices") if _is_tcp(event)]
    lines = (
        [channel.event for channel in channels[:2]]
        + [event for event in facts.of("network", "socket-devices", "ib-no-device") if _is_tcp(event)][:2]
        + (wanted or declined)[:3]
    )
    interfaces = sorted(
        {name for event in facts.of("socket-devices") for name in transport.interface_names(event) if name}
    )
    over = f" on {', '.join(interfaces[:4])}" if interfaces else ""
    shown = taken or [channel.event for channel in channels] or lines
    finding = conclude(
        facts,
        sorted(lines, key=lambda event: event.origin.sequence),
        severity="critical" if wanted else "warning",
        summary=(
            f"Data between nodes goes over TCP (NET/{'FastSocket' if 'Fast' in network else 'Socket'}){over}, not RDMA"
        ),
        explanation=_explain(wanted=bool(wanted), declined=declined),
        confidence="certain" if wanted else "likely",
        occurrences=sum(channel.count for channel in channels) or None,
        hosts=facts.hosts,
    )
    # where RDMA was there or wanted, what kept it away stands before the choice of TCP, and above it
    return found(replace(finding, sequence=shown[0].origin.sequence) if wanted else finding)


def _is_tcp(event: Event) -> bool:
    """Whether a line names TCP, not the network of a rank that has another."""
    return event.kind != "network" or transport.network_class(event.fields["name"], None) in transport.TCP_NETWORKS


def _explain(*, wanted: bool, declined: Sequence[Event]) -> str:
    cost = (
        "TCP copies every byte through host memory and the kernel; expect a fraction of an RDMA network's bandwidth. "
    )
    if declined and not wanted and any(event.kind == "vendor-network" for event in declined):
        return cost + (
            f"The plugin {quote(declined[0].fields['name'])} is there and did not start here: its NICs, their driver "
            "or the service that it needs beside it are missing, or this machine has none."
        )
    if declined and not wanted:
        return cost + (
            "aws-ofi-nccl is there, the plugin for EFA, and finds no EFA here. On an instance without EFA TCP is all "
            "there is; on one with it, the interfaces or their driver are missing."
        )
    if wanted:
        return cost + (
            "The log shows RDMA hardware or settings, so this is a fallback and not the plan. NCCL does not "
            "announce it."
        )
    return (
        cost + "Nothing in the log shows that RDMA NICs exist or were wanted; on plain Ethernet this is all there is."
    )


RULE = Rule(
    id="tcp-fallback",
    title="Data between nodes goes over TCP",
    severity="critical or warning",
    actions=("list-rdma-devices", "give-devices", "unset-tcp-choice", "show-network"),
    check=check,
    slow=True,
)
