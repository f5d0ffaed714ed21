"""NCCL found no RDMA NIC.

Symptom: ``NET/IB : No device found.``, from 2.24.3 on followed by ``NET/IB : Using ; OOB ...`` with an empty list,
which looks like success and is none.

Why: no NIC, no driver, no port in state ACTIVE, or a container that was not given /dev/infiniband.

Not when: another rank-independent cause is printed (the device cannot be opened, the verbs library is missing,
NCCL_IB_HCA filters everything): those rules report it. On one node it matters little and is info. Where a plugin that
does not load is all that speaks of RDMA it is a warning: the plugin's network (EFA, TCPX) may need no verbs device.

Source: NCCL's net_ib.cc; user guide, troubleshooting.
"""

from diagnostics import transport
from diagnostics.facts import JobFacts
from diagnostics.rules.base import CLEAR, Outcome, Rule, by_nodes, conclude, found, plural

_COSTS_NOTHING = "no data crosses the network, so it costs nothing"


def check(facts: JobFacts) -> Outcome:
    """Found where a rank lists no device and no better reason is printed."""
    empty = [
        event
        for event in facts.of("ib-devices")
        if not transport.read_any(event) and "[" not in event.fields["devices"]
    ]
    events = facts.of("ib-no-device") or [event for event in empty if "OOB" in event.text]
    plugin = transport.job_network(facts).startswith("plugin:")
    if not events or plugin or facts.of("ib-open-failed", "libibverbs-missing") or facts.value_of("NCCL_IB_HCA"):
        return CLEAR
    hosts = {event.origin.host for event in events if event.origin.host}
    wanted = len(transport.rdma_evidence(facts)) > len(transport.broken_plugins(facts))
    named = facts.first("network-not-found")
    refused = (named is None or named.fields["name"].upper() == "IB") and transport.network_refused(facts)
    matters = facts.multi_node is True and not transport.tcp_by_choice(facts)
    return found(
        conclude(
            facts,
            events,
            severity="critical" if refused else "info" if not matters else ("critical" if wanted else "warning"),
            summary="No RDMA NIC found" + (f" on {plural(len(hosts), 'host')}" if hosts else ""),
            explanation="NCCL saw no verbs device with an active port: no NIC, no driver, port down, or a "
            "container without "
            "/dev/infiniband."
            + (" NCCL stops, as no network is left." if refused else by_nodes(facts, on_one=_COSTS_NOTHING)),
            occurrences=facts.count("ib-no-device") or len(events),
            blocks=refused,
        )
    )


RULE = Rule(
    id="rdma-device-missing",
    title="No RDMA NIC found",
    severity="warning, critical together with tcp-fallback, info on one node",
    actions=("list-rdma-devices", "give-devices"),
    check=check,
    slow=True,
)
