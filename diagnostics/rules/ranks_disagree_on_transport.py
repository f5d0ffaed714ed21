"""Ranks of one job chose different networks.

Symptom: some ranks print ``Using network IB``, others ``Using network Socket``; or a handshake fails with ``wrong
type 4 != 3``; or a transport is found on no side.

Why: one node lacks its adapters or the plugin, or the variables did not reach every node (mpirun passes only those
named with -x).

Not when: every process names the same network.

Source: NCCL's socket.cc and net.cc.
"""

from diagnostics import transport
from diagnostics.facts import JobFacts
from diagnostics.rules.base import CLEAR, Outcome, Rule, conclude, found


def check(facts: JobFacts) -> Outcome:
    """Found where processes chose different networks, or where a handshake shows it."""
    layer = transport.link_layer(facts)
    chosen: dict[str, list[str]] = {}
    events = []
    for process in facts.processes.values():
        if process.networks and process.host:
            name, event = list(process.networks.items())[-1]
            if network_hosts := chosen.setdefault(transport.network_class(name, layer), []):
                network_hosts.append(process.host)
            else:
                network_hosts.append(process.host)
                events.append(event)
    if len(chosen) > 1:
        parts = "; ".join(f"{name} on {', '.join(sorted(set(hosts))[:4])}" for name, hosts in sorted(chosen.items()))
        few = min(chosen.values(), key=len)
        return found(
            conclude(
                facts,
                events,
                severity="critical",
                summary=f"Ranks chose different networks: {parts}",
                explanation="Ranks that use different networks cannot exchange data: initialisation hangs or fails.",
                hosts=set(few),
            )
        )
    return _from_handshake(facts)


def _from_handshake(facts: JobFacts) -> Outcome:
    events = [event for event in facts.of("foreign-connection") if event.fields.get("what") == "type"]
    if not events:
        return CLEAR
    return found(
        conclude(
            facts,
            events,
            severity="critical",
            confidence="likely",
            summary="A peer connected for another purpose than expected: ranks run with different settings or versions",
            explanation="The handshake carries the kind of connection, and the peer meant another one. This "
            "happens when the "
            "variables or the NCCL version of the nodes differ, for instance when mpirun did not forward them (-x).",
            occurrences=facts.count("foreign-connection"),
        )
    )


RULE = Rule(
    id="ranks-disagree-on-transport",
    title="Ranks chose different networks",
    severity="critical",
    actions=("same-environment", "same-version", "list-rdma-devices"),
    check=check,
)
