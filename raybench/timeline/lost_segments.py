"""TCP segments that nodes lost on the way to or from a slow node: evidence of its finding, and no finding of theirs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from diagnostics.findings import Evidence, Finding
from raybench.documents.run.node_samples import FILE, SampledNode
from raybench.documents.run.result import RunResult

LEAST_SHARE = 0.9  # of what a node lost, that was on the way to the slow node
_OF_LOSSES = frozenset({"tcp-retransmissions", "tcp-losses-while-measured"})
_SLOW_NODE = frozenset({"slow-node", "slow-tcp-paths"})
_METRIC = "lost_segments"


def with_losses_explained(result: RunResult, sampled: Sequence[SampledNode]) -> tuple[Finding, ...]:
    """The findings, without those of lost segments on the way to or from a slow node; they are its evidence."""
    slow = [one.hosts[0] for one in result.findings if _is_slow_node(one)]
    if not slow or result.cluster.emulated:  # on one machine all nodes have one address
        return result.findings
    to_node = {name: _lost_to(result, node) for node in sampled for name in (node.name, *node.nodes)}
    kept: list[Finding] = []
    of_node: dict[str, list[Evidence]] = {}
    for one in result.findings:
        cause = _cause(one, slow, to_node) if one.rule in _OF_LOSSES else None
        if cause is None:
            kept.append(one)
        else:
            of_node.setdefault(cause, []).append(Evidence(file=FILE, line=1, text=one.summary))
    return tuple(
        replace(one, evidence=(*one.evidence, *of_node.get(one.hosts[0], ()))) if _is_slow_node(one) else one
        for one in kept
    )


def _is_slow_node(finding: Finding) -> bool:
    return finding.rule in _SLOW_NODE and len(finding.hosts) == 1


def _cause(lost: Finding, slow: Sequence[str], to_node: Mapping[str, Mapping[str, float]]) -> str | None:
    """The slow node that the segments were lost on the way to or from; None where they need not be."""
    host = next(iter(lost.hosts), "")
    accused = next((one for one in lost.hosts if one in slow), None)
    if accused is not None:
        return accused  # of a path both ends are named
    lost_to = to_node.get(host, {})
    return next((node for node in slow if lost_to.get(node, 0) >= LEAST_SHARE * sum(lost_to.values()) > 0), None)


def _lost_to(result: RunResult, node: SampledNode) -> Mapping[str, float]:
    """What a node lost, by the node it was for, or by the address that is no node's."""
    names = {address: one.name for one in result.cluster.nodes for address in one.addresses}
    lost: dict[str, float] = {}
    for name in node.names("tcp", _METRIC):
        address = name.split("/")[1]
        peer = names.get(address, address)
        count = max((value for value in node.values(name) if value is not None), default=0.0)
        lost[peer] = lost.get(peer, 0.0) + count
    return lost
