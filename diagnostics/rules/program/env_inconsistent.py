"""NCCL's variables differ between ranks.

Symptom: one rank echoes ``NCCL_ALGO set by environment to Ring``, another ``Tree``; one rank uses a tuner plugin,
another NCCL's own choice.

Why: the variables were exported on one node only, images differ, or a launcher does not pass them on. Ranks that
choose different algorithms or networks hang or get truncated messages.

Not when: the variable names something local (host identity, files, this node's interfaces and NICs); a rank does
not echo it at all: NCCL prints a variable when it is first used, so absence proves nothing.

Source: NCCL's param.cc.
"""

from diagnostics.events import Event
from diagnostics.facts import JobFacts
from diagnostics.findings import Finding
from diagnostics.rules.base import CLEAR, Outcome, Rule, conclude, found

_LOCAL = frozenset(
    {
        "NCCL_HOSTID",
        "NCCL_TOPO_DUMP_FILE",
        "NCCL_GRAPH_DUMP_FILE",
        "NCCL_DEBUG_FILE",
        "NCCL_COMM_ID",
        "NCCL_SOCKET_IFNAME",
        "NCCL_IB_HCA",
        "NCCL_OOB_NET_IFNAME",
        "NCCL_TOPO_FILE",
        "NCCL_GRAPH_FILE",
        "NCCL_CONF_FILE",
        "NCCL_RAS_ADDR",
        "NCCL_IB_GID_INDEX",
        "NCCL_DEBUG",
        "NCCL_DEBUG_SUBSYS",
        "NCCL_NETDEVS_POLICY",
    }
)


def check(facts: JobFacts) -> Outcome:
    """Found where processes echoed different values of a variable that must agree."""
    findings = []
    for name, values in sorted(facts.variables.items()):
        if name in _LOCAL or len(values) < 2:
            continue
        rare = min(values.items(), key=lambda item: len(item[1]))
        shown = {
            event.fields["value"].strip().removesuffix("."): event
            for event in reversed(facts.of("variable"))
            if event.fields["name"] == name
        }
        findings.append(
            conclude(
                facts,
                list(shown.values()),
                severity="warning",
                summary=f"{name} differs between ranks: {' and '.join(sorted(values))[:120]}",
                explanation=(
                    "Ranks of one job need the same settings. The value of the fewer processes is named by host."
                ),
                hosts={host for host, _ in rare[1] if host},
            )
        )
    findings += _tuners(facts)
    return found(*findings[:8]) if findings else CLEAR


def _tuners(facts: JobFacts) -> list[Finding]:
    """A finding where some processes let a plugin choose the algorithms and others do not, or another one."""
    chosen: dict[str, dict[tuple[str, int], Event]] = {}
    for event in facts.of("tuner"):
        if event.origin.process is not None:
            chosen.setdefault(event.fields.get("name", "NCCL itself"), {})[event.origin.process] = event
    processes = [frozenset(found_) for found_ in chosen.values()]
    if len(chosen) < 2 or frozenset.intersection(*processes):  # one process may tell of an attempt and of the choice
        return []
    few = min(chosen.values(), key=len)
    return [
        conclude(
            facts,
            [next(iter(found_.values())) for found_ in chosen.values()],
            severity="warning",
            confidence="likely",
            summary=f"The algorithms are chosen by different tuners: {' and '.join(sorted(chosen))[:120]}",
            explanation="Ranks that choose another algorithm or protocol for the same collective wait for each other "
            "for ever. Give every rank the same plugin.",
            hosts={host for host, _ in few if host},
        )
    ]


RULE = Rule(
    id="env-inconsistent",
    title="Variables differ between ranks",
    severity="warning",
    actions=("same-environment",),
    check=check,
)
