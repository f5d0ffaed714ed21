"""The NICs are listed but cannot be opened.

Symptom: ``Call to ibv_open_device failed``, ``NET/IB : Unable to open device mlx5_0``; the job then uses TCP.

Why: /sys shows the NICs to everybody, but using one needs access to /dev/infiniband/uverbs*. A container without
the device files, a device cgroup of the scheduler or plain permissions forbid it.

Not when: the message concerns the query of one port only, of a device that is used in the end.

Source: NCCL's ibvwrap.cc and net_ib.cc.
"""

from diagnostics import transport
from diagnostics.events import Event
from diagnostics.facts import JobFacts
from diagnostics.rules.base import CLEAR, Outcome, Rule, by_nodes, conclude, found, listed

_ASKING = ("ibv_open_device", "ibv_query_device", "ibv_query_port")


def check(facts: JobFacts) -> Outcome:
    """Found where opening a device failed."""
    opened = {device.name for device in facts.devices}
    on_tcp = [event for event in _refusals(facts) if transport.took_tcp(facts, event)] if opened else []
    events = [one for one in facts.of("ib-open-failed") if one.fields["device"] not in opened or one in on_tcp]
    calls = [event for event in facts.of("verbs-failed") if event.fields["call"] in _ASKING]
    if not events and not calls:
        return CLEAR
    names = sorted({event.fields["device"] for event in events if event.fields["device"]})
    named = facts.first("network-not-found")
    refused = not opened and transport.network_refused(facts) and (named is None or named.fields["name"] == "IB")
    severity = "critical" if refused else "info"
    if facts.multi_node is None and not opened and transport.job_network(facts) in transport.TCP_NETWORKS:
        severity = "warning"
    if facts.multi_node and not opened and not refused:
        severity = "critical" if transport.job_network(facts) in transport.TCP_NETWORKS else "warning"
    if facts.multi_node and on_tcp:
        severity = "critical"
    return found(
        conclude(
            facts,
            sorted(events + calls, key=lambda event: event.origin.sequence),
            severity="critical" if severity == "critical" else "warning" if severity == "warning" else "info",
            summary=f"RDMA NICs are there but cannot be opened{': ' + listed(names) if names else ''}",
            explanation=(
                "The NICs are visible in /sys but their device files cannot be used, so NCCL "
                + ("has not the network that it was told to take." if refused else "goes on without them.")
            )
            + by_nodes(facts, on_one="that costs nothing"),
            occurrences=facts.count("ib-open-failed") or len(calls),
            blocks=refused or bool(facts.multi_node and on_tcp),
        )
    )


def _refusals(facts: JobFacts) -> list[Event]:
    return [
        *facts.of("ib-open-failed"),
        *(event for event in facts.of("verbs-failed") if event.fields["call"] in _ASKING),
    ]


RULE = Rule(
    id="rdma-device-not-openable",
    title="RDMA NICs cannot be opened",
    severity="warning, critical together with tcp-fallback, info on one node",
    actions=("open-device-permission", "give-devices"),
    done_without=("ib-open-failed",),
    check=check,
    victim_of=("gpu-out-of-memory", "host-memory-exhausted", "duplicate-gpu"),
    slow=True,
)
