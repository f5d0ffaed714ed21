"""The user switched RDMA off.

Symptom: the network is Socket on a machine with RDMA NICs.

Why: ``NCCL_IB_DISABLE=1``, ``NCCL_NET=Socket`` or a network name in the program's configuration takes the verbs
network out of the choice. Often a leftover of a debugging session, sometimes in /etc/nccl.conf or ~/.nccl.conf.
``NCCL_NET_PLUGIN=none`` does the same where the network is reached through a plugin only, as EFA and Slingshot are.
NCCL does not always echo the variable; but without it NCCL names its NICs, or says that it has none, so the start
of a rank without either line shows the choice too (confidence "possible").

Not when: the variable is only mentioned with another value.

Severity: warning where RDMA hardware is in sight, else info: on plain Ethernet the variable only saves a search.

Source: NCCL user guide, environment variables.
"""

from diagnostics import transport
from diagnostics.events import Event
from diagnostics.facts import JobFacts
from diagnostics.findings import Finding
from diagnostics.rules.base import CLEAR, Outcome, Rule, conclude, found


def check(facts: JobFacts) -> Outcome:
    """Found where a line shows the choice of TCP."""
    event = transport.tcp_by_choice(facts)
    if event is None:
        untried = transport.never_tried(facts) if facts.multi_node else None
        return found(_untried(facts, untried)) if untried else CLEAR
    hardware = [
        line for line in transport.rdma_evidence(facts) if line.kind in ("ib-devices", "ib-open-failed", "ib-speed")
    ] or [line for line in transport.platform_signs(facts) if line is not event]
    typed = event.kind == "shell-variable"
    name = event.fields["name"]
    setting = f"{name}={event.fields['value']}" if "value" in event.fields else _of_configuration(event)
    return found(
        conclude(
            facts,
            [event, *hardware[:2]],
            severity="warning" if hardware and facts.multi_node else "info",
            confidence="likely" if typed else "certain",
            summary=f"RDMA is switched off on purpose: {setting.rstrip('.')}",
            explanation=(
                "NCCL leaves out InfiniBand, RoCE and EFA NICs where it is told to, and uses TCP between nodes."
            ),
        )
    )


def _of_configuration(event: Event) -> str:
    if event.kind != "network-requested":  # with either of them; no line of NCCL's says which
        return "NCCL_NET or the program asks for Socket by name, past the NICs that are there"
    return f"network {event.fields['name']} in the program's configuration"


def _untried(facts: JobFacts, event: Event) -> Finding:
    return conclude(
        facts,
        [event],
        severity="info",
        confidence="possible",
        summary="TCP between nodes, and no sign that RDMA was looked for",
        explanation="NCCL names its RDMA NICs, or says that it has none, before it takes sockets. The log shows "
        "the start of a rank without either, so RDMA was probably switched off (NCCL_IB_DISABLE, NCCL_NET), or "
        "lines are missing. If the machines have RDMA NICs, this costs most of their bandwidth.",
        hosts=facts.hosts,
    )


RULE = Rule(
    id="rdma-disabled-by-env",
    title="RDMA is switched off by a setting",
    severity="warning or info",
    actions=("unset-tcp-choice",),
    check=check,
    slow=True,
)
