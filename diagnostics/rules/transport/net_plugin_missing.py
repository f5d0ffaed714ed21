"""A platform that needs a network plugin has none.

Symptom: an AWS EFA, HPE Slingshot or Google Cloud machine runs over Socket, and ``NET/Plugin: Could not find``; or
``Error: network <name> not found.`` for a name given in NCCL_NET; or ``Could not find: libnccl-net-ofi.so`` for a
plugin named in NCCL_NET_PLUGIN.

Why: these fabrics are not reachable through verbs. Without aws-ofi-nccl or the vendor's plugin, TCP remains.

Not when: the machine has verbs NICs; there ``No plugin found, using internal implementation`` is normal and means
nothing; the name is ``none``, which is how users ask for no plugin; a plugin is there and does not load
(net-plugin-broken).

Source: aws-ofi-nccl documentation; NCCL's plugin loader.
"""

from diagnostics import transport
from diagnostics.events import Event
from diagnostics.facts import JobFacts
from diagnostics.findings import Finding
from diagnostics.rules.base import CLEAR, Outcome, Rule, conclude, found


def check(facts: JobFacts) -> Outcome:
    """Found where a named network is absent, or a platform's own network is in sight and unused."""
    named = facts.of("network-not-found")
    if named and not transport.unloadable_plugins(facts):
        return found(_not_found(facts, named))
    if none := facts.of("plugin-none"):
        return found(_none(facts, none))
    if absent_plugin := transport.absent_named_plugin(facts):
        return found(_absent(facts, *absent_plugin))
    absent = facts.of("plugin-absent")
    signs = transport.platform_signs(facts)
    if not absent or not signs or not facts.multi_node or transport.job_network(facts) not in transport.TCP_NETWORKS:
        return CLEAR
    return found(
        conclude(
            facts,
            [signs[0], absent[0]],
            severity="warning",
            confidence="likely",
            summary="This platform needs a network plugin for NCCL, and none was found",
            explanation="The log shows signs of EFA or Slingshot. Such a fabric is used only through a plugin "
            "(aws-ofi-nccl); "
            "without it NCCL falls to TCP.",
        )
    )


def _not_found(facts: JobFacts, events: list[Event]) -> Finding:
    return conclude(
        facts,
        events,
        severity="critical",
        summary=f"The requested network '{events[0].fields['name']}' does not exist here",
        explanation="NCCL_NET names a network, not a library. No plugin that is loaded offers this one, so "
        "initialisation fails.",
        blocks=True,
    )


def _absent(facts: JobFacts, name: str, event: Event) -> Finding:
    network = transport.job_network(facts)
    over_tcp = network in transport.TCP_NETWORKS and facts.multi_node is not False
    went_on = f" NCCL went on with {network}." if network not in ("unknown", "none") else ""
    alone = facts.world_size == 1  # which does not show how many nodes the job is meant for
    direct = not alone and (transport.gpu_direct(facts) is not False or facts.multi_node is False)
    return conclude(
        facts,
        [event],
        severity="info" if went_on and direct and not over_tcp else "warning",
        summary=f"The network plugin that NCCL was told to load ('{name}') is not there",
        explanation="NCCL_NET_PLUGIN names it, and no such file is on the library path of this process." + went_on,
    )


def _none(facts: JobFacts, events: list[Event]) -> Finding:
    """No network at all: sockets work where there is an interface, so mostly one was asked for that is not there."""
    asked = facts.value_of("NCCL_NET")
    return conclude(
        facts,
        events,
        severity="critical",
        confidence="likely",
        summary="No network could be initialised"
        + (f": the one that is asked for (NCCL_NET={asked}) does not exist or work here" if asked else ""),
        explanation="NCCL takes sockets where nothing else works, unless NCCL_NET or the program names a network"
        + (". The run stops here." if asked else ", which the log does not show. The run stops here."),
        blocks=True,
    )


RULE = Rule(
    id="net-plugin-missing",
    title="A required network plugin is missing",
    severity="warning, critical where NCCL_NET names it",
    actions=("install-plugin",),
    check=check,
    slow=True,
    explained_by=("file-limit", "no-socket-interface"),
)
