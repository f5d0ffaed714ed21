"""InfiniBand and RoCE NICs are mixed.

Symptom: one ``NET/IB : Using`` list holds ``/IB`` and ``/RoCE``, or one rank's holds InfiniBand alone and another's
RoCE alone; from 2.26.2 on NCCL refuses incompatible peers.

Why: without a filter NCCL takes every active verbs port, so a management or storage NIC joins the data NICs.
Two ranks that pick different kinds cannot connect.

Not when: all ports have one link layer.

Severity: critical where NCCL says that devices are incompatible, else warning: a mixed list may still work.

Source: NCCL's net_ib.cc.
"""

from collections import defaultdict

from diagnostics import transport
from diagnostics.facts import JobFacts, Process
from diagnostics.findings import Finding
from diagnostics.rules.base import CLEAR, Outcome, Rule, conclude, found


def check(facts: JobFacts) -> Outcome:
    """Found where NCCL refused, or where one process lists both kinds."""
    refused = facts.of("link-layer-mismatch")
    if refused:
        return found(
            conclude(
                facts,
                refused,
                severity="critical",
                summary="InfiniBand and RoCE NICs cannot be connected with each other",
                explanation=(
                    "NCCL found devices of both kinds on one path and stopped. Restrict the job to one of them."
                ),
                occurrences=facts.count("link-layer-mismatch"),
            )
        )
    if apart := _apart(facts):
        return found(apart)
    mixed = [p for p in facts.processes.values() if len({device.layer for device in p.devices or ()}) > 1]
    events = [process.devices_event for process in mixed if process.devices_event]
    if not events or facts.multi_node is False:
        return CLEAR
    works = bool(transport.data_channels(facts)) and not facts.of("verbs-failed", "completion-error")
    return found(
        conclude(
            facts,
            events,
            severity="info" if works else "warning",
            confidence="possible",
            summary="InfiniBand and RoCE NICs are in one list" + ("; data channels were set up" if works else ""),
            explanation=(
                "It may work, but ranks may pick NICs that cannot reach each other, or a slow management port."
            ),
        )
    )


def _apart(facts: JobFacts) -> Finding | None:
    """Ranks that have NICs of one kind only, and not of the same kind."""
    layers: dict[str, list[Process]] = defaultdict(list)
    for process in facts.processes.values():
        kinds = {device.layer for device in process.devices or ()}
        if len(kinds) == 1 and process.devices_event is not None:
            layers[kinds.pop()].append(process)
        elif kinds:
            return None
    if len(layers) < 2 or facts.multi_node is False:
        return None
    hosts = {layer: sorted({process.host for process in found}) for layer, found in layers.items()}
    works = facts.works and not facts.failed and not facts.of("verbs-failed", "completion-error")
    return conclude(
        facts,
        [found[0].devices_event for found in layers.values() if found[0].devices_event],
        severity="warning" if works else "critical",
        confidence="likely",
        summary="Ranks have NICs of different kinds: "
        + "; ".join(f"{layer} on {', '.join(names[:4])}" for layer, names in sorted(hosts.items())),
        explanation="InfiniBand and RoCE cannot talk to each other. Choose NICs of one kind on every node, or TCP.",
    )


RULE = Rule(
    id="hca-mixed-link-layers",
    title="InfiniBand and RoCE are mixed",
    severity="critical where NCCL stops, warning until data channels are set up, else info",
    actions=("select-adapters",),
    check=check,
)
