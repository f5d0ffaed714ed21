"""Whether data crosses nodes over TCP although RDMA was there or wanted."""

from diagnostics.events import Event
from diagnostics.facts import JobFacts
from diagnostics.parsers.base import compiled
from diagnostics.transport.declined import declined, successors
from diagnostics.transport.evidence import never_tried, rdma_evidence, tcp_by_choice
from diagnostics.transport.network import TCP_NETWORKS, job_network, network_class


def tcp_provider(facts: JobFacts) -> Event | None:
    """The line in which aws-ofi-nccl says that it runs over TCP."""
    return next(
        (
            event
            for event in facts.of("ofi-provider")
            if compiled(r"^(?:tcp|sockets|net)\b").match(event.fields["provider"])
        ),
        None,
    )


def handshake_refused(facts: JobFacts) -> bool:
    """Whether a peer of another kind called while sockets were set up, so that no data path came to be."""
    wrong_type = any(event.fields.get("what") == "type" for event in facts.of("foreign-connection"))
    return wrong_type and not facts.net_channels


def tcp_fallback(facts: JobFacts, *, split_machine: bool) -> bool | None:
    """True where data crosses nodes over TCP although RDMA was there or wanted; None where the log cannot tell.

    ``split_machine``: the "nodes" are containers of one machine, whose data could have gone over NVLink or PCIe.
    """
    network = job_network(facts)
    if network in ("unknown", "none"):
        return None
    split_machine = split_machine or facts.split_machine is not None
    over_tcp = (
        network in TCP_NETWORKS or tcp_provider(facts) is not None or (network == "mixed" and _socket_data(facts))
    )
    if not over_tcp or (facts.multi_node is False and facts.split_machine is None):
        return None if network == "mixed" and not over_tcp and _takes_sockets(facts) else False
    if facts.multi_node is None:
        return False if handshake_refused(facts) or tcp_by_choice(facts) else None
    if network == "mixed" and tcp_by_choice(facts):
        return None
    if tcp_by_choice(facts) or (not split_machine and never_tried(facts)):
        return False
    return True if split_machine or network == "mixed" or rdma_evidence(facts) or declined(facts) else None


def _takes_sockets(facts: JobFacts) -> bool:
    """Whether a process chose sockets, or was left with them by its plugin."""
    names = {name for process in facts.processes.values() for name in process.networks}
    names |= set(successors(facts).values()) - {""}
    return any(network_class(name, None) in TCP_NETWORKS for name in names)


def _socket_data(facts: JobFacts) -> bool:
    return any(network_class(channel.network or "", None) in TCP_NETWORKS for channel in facts.net_channels)
