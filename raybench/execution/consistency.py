"""Whether the nodes of a run are alike: nodes that differ cannot be one measurement, and often cannot talk at all."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from diagnostics.findings import Finding
from raybench.documents.run.facts import NodeFacts, RankFacts, typed
from raybench.finding_rules.nodes import DEVICES_MASKED, VERSIONS_DIFFER
from raybench.metadata import COMPARED

_LOADED = ("torch", "nccl", "mlx")


def differences(facts: Sequence[tuple[str, Mapping[str, Any]]]) -> list[Finding]:
    """A finding for each software whose version is not the same on all nodes; ``facts`` are (node name, its facts).

    The odd ones out are those that differ from the most common version.
    """
    return [finding for software in COMPARED for finding in _difference(software, facts)]


def rank_differences(facts: Sequence[tuple[str, Mapping[str, str]]]) -> list[Finding]:
    """The same for what the ranks loaded, which can differ from what is installed; ``facts`` are (node name, a rank's).

    A container may bring an NCCL of its own, which no package's version tells of.
    """
    loaded = [(name, {key: one[key] for key in _LOADED if key in one}) for name, one in facts]
    return [finding for software in _LOADED for finding in _difference(software, loaded)]


def _difference(software: str, facts: Sequence[tuple[str, Mapping[str, Any]]]) -> list[Finding]:
    versions = {name: str(one.get(software) or "not installed") for name, one in facts}
    if not versions:
        return []
    common, _ = Counter(versions.values()).most_common(1)[0]
    odd = {name: version for name, version in versions.items() if version != common}
    return [_finding(software, common, odd)] if odd else []


def masked_devices(
    facts: Sequence[tuple[str, Mapping[str, Any]]], rank_facts: Sequence[tuple[str, Mapping[str, str]]]
) -> list[Finding]:
    """A finding for each node whose ranks see fewer GPUs than the node has.

    NCCL then cannot see the peers of its own node, and all_reduce was up to 2400 times slower (ray#61073).
    """
    gpus = {name: len(typed(NodeFacts, one).gpus or ()) for name, one in facts}
    seen: dict[str, int] = {}
    for name, one in rank_facts:
        visible = typed(RankFacts, one).visible_gpus
        if visible is not None:
            seen[name] = min(visible, seen.get(name, visible))
    masked = {name: count for name, count in seen.items() if count < gpus.get(name, 0)}
    if not masked:
        return []
    text = ", ".join(f"{name} ({count} of {gpus[name]})" for name, count in sorted(masked.items()))
    return [
        DEVICES_MASKED.finding(
            confidence="certain",
            summary=f"ranks do not see all GPUs of their node: {text}",
            explanation="NCCL needs to see its peers' GPUs for NVLink and shared memory; with masked devices it is "
            "reported to be far slower or to hang (ray#61073). The figures of this run are those of a masked node.",
            hosts=tuple(sorted(masked)),
            recommendations=DEVICES_MASKED.advise(),
        )
    ]


def _finding(software: str, common: str, odd: Mapping[str, str]) -> Finding:
    named = ", ".join(f"{name} has {version}" for name, version in sorted(odd.items()))
    return VERSIONS_DIFFER.finding(
        confidence="certain",
        summary=f"{software} differs between nodes: most have {common}; {named}",
        explanation="Nodes with different software are not one machine to measure, and NCCL of different versions "
        "may hang or fail to connect.",
        hosts=tuple(sorted(odd)),
        recommendations=VERSIONS_DIFFER.advise(software=software),
    )
