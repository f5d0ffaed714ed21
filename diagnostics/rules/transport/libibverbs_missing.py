"""The library that talks to RDMA NICs is missing.

Symptom: ``Failed to open libibverbs.so[.1]`` (spelt ``Count not open libibverbs`` from 2.30.3 on), then TCP.

Why: the image or node lacks rdma-core's user-space library, so NCCL cannot see any NIC.

Not when: all ranks share one node, where it is only worth knowing.

Source: NCCL's ibvsymbols.cc.
"""

from diagnostics import transport
from diagnostics.facts import JobFacts
from diagnostics.rules.base import CLEAR, Outcome, Rule, by_nodes, conclude, found


def check(facts: JobFacts) -> Outcome:
    """Found where the library could not be opened and no external plugin took over."""
    events = facts.of("libibverbs-missing")
    network = transport.job_network(facts)
    if (
        not events
        or network in ("ib", "roce")
        or (network.startswith("plugin:") and network not in transport.TCP_NETWORKS)
    ):
        return CLEAR
    named = facts.first("network-not-found")
    refused = transport.network_refused(facts) and (named is None or named.fields["name"].upper() == "IB")
    fell = network in transport.TCP_NETWORKS and bool(transport.rdma_evidence(facts))
    on_tcp = network == "mixed" and any(transport.took_tcp(facts, event) for event in events)
    critical = refused or (facts.multi_node and (fell or on_tcp))
    return found(
        conclude(
            facts,
            events,
            severity="critical" if critical else "warning" if facts.multi_node else "info",
            summary="The verbs library libibverbs cannot be opened, so no RDMA NIC can be used",
            explanation=("NCCL loads libibverbs at run time. Without it, InfiniBand and RoCE NICs stay unseen.")
            + by_nodes(facts, on_one="no data crosses the network, so it costs nothing"),
            occurrences=facts.count("libibverbs-missing"),
            blocks=refused or bool(facts.multi_node and on_tcp),
        )
    )


RULE = Rule(
    id="libibverbs-missing",
    title="libibverbs is missing",
    severity="warning, critical together with tcp-fallback, info on one node",
    actions=("install-verbs", "list-rdma-devices"),
    done_without=("libibverbs-missing",),
    check=check,
    victim_of=("gpu-out-of-memory", "host-memory-exhausted", "duplicate-gpu"),
    slow=True,
)
