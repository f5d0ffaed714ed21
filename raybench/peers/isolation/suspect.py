"""Whom the findings of a run accuse, and what has to be measured again to prove it. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from diagnostics.findings import Finding
from raybench.documents.run.result import RunResult
from raybench.peers.judgement import LARGE, MODERATE

Aspect = Literal["bandwidth", "speed"]
_BOTH: tuple[Aspect, ...] = ("bandwidth", "speed")
NODE_LOST = "node-lost"
# Rules that accuse a node or a rank, and in what it would be slow again. One that broke the run may do so again.
ACCUSING: Mapping[str, tuple[Aspect, ...]] = {
    NODE_LOST: _BOTH,
    **dict.fromkeys(("rank-host-lost", "rank-stopped", "rank-died", "rank-failed", "rank-behind"), _BOTH),
    **dict.fromkeys(("slow-node", "slow-way", "slow-pairs", "slow-tcp-paths"), ("bandwidth",)),
    "slow-rank": ("speed",),
    **dict.fromkeys(("straggler", "rank-stalled", "gpu-throttled-while-measured", "gpu-throttled"), _BOTH),
    **dict.fromkeys(("gpu-memory-errors", "gpu-xid", "nvlink-errors", "device-vanished"), _BOTH),
    **dict.fromkeys(("port-errors-while-measured", "port-errors", "link-down", "nic-fault"), ("bandwidth",)),
}
_OF_PATHS = ("slow-way", "slow-pairs")
MOST_OPEN = 3  # of the nodes that stand out where no finding names one: each takes two measurements or more


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """A node that a run accuses, or the path between two.

    ``other``: the far end of a path. ``places``: those of its ranks in the node that are accused, none where it is
    the whole node. ``limit``: the share of its peers' figure below which it counts as slow, that of the finding.
    ``broke``: the run ended because of it. ``is_open``: no finding accuses it; it stands out, as others do.
    """

    node: str
    other: str | None = None
    places: tuple[int, ...] = ()
    ranks: tuple[int, ...] = ()
    aspects: tuple[Aspect, ...]
    rules: tuple[str, ...]
    limit: float = LARGE
    broke: bool = False
    is_open: bool = False

    @property
    def nodes(self) -> tuple[str, ...]:
        """It, or both ends of the path."""
        return (self.node,) if self.other is None else (self.node, self.other)

    @property
    def name(self) -> str:
        """``node3``, ``rank 5 (node3)``, ``the path between node1 and node3``."""
        if self.other is not None:
            return f"the path between {self.node} and {self.other}"
        if not self.places:
            return self.node
        return f"rank{'s' * (len(self.ranks) > 1)} {', '.join(map(str, self.ranks))} ({self.node})"


def suspects_of(result: RunResult) -> tuple[Suspect, ...]:
    """Whom the findings accuse, each node once, in the order of the findings; a path only where its ends are not.

    Then those that stand out where it is not known who is at fault.
    """
    found: dict[tuple[str, ...], Suspect] = {}
    findings = (*result.findings, *result.log_findings)
    for finding in sorted(findings, key=_is_of_path):
        for suspect in _accused(finding, result):
            before = found.get(suspect.nodes)
            if before is not None:
                found[suspect.nodes] = _together(before, suspect)
            elif suspect.other is None or not any((node,) in found for node in suspect.nodes):
                found[suspect.nodes] = suspect
    accused = {node for nodes in found for node in nodes}
    return (*found.values(), *(one for one in _open(result) if one.node not in accused))


def _open(result: RunResult) -> list[Suspect]:
    """The likeliest of each check that leaves open which of several nodes it is."""
    names = {node.name for node in result.cluster.nodes}
    found: dict[str, Suspect] = {}
    for check in result.checks:
        hosts = [host for host in check.hosts if host in names] if check.undecided and check.rule in ACCUSING else []
        for host in hosts[:MOST_OPEN]:
            one = Suspect(node=host, aspects=ACCUSING[check.rule], rules=(check.rule,), is_open=True)
            found[host] = replace(_together(found[host], one), is_open=True) if host in found else one
    return list(found.values())


def lost_nodes(result: RunResult) -> tuple[str, ...]:
    """The nodes that do not answer any more."""
    names = [host for one in result.findings if one.rule == NODE_LOST for host in one.hosts]
    return tuple(dict.fromkeys(names))


def _accused(finding: Finding, result: RunResult) -> list[Suspect]:
    aspects = ACCUSING.get(finding.rule)
    names = [node.name for node in result.cluster.nodes]
    hosts = [host for host in dict.fromkeys(finding.hosts) if host in names]
    if aspects is None or finding.severity == "info" or not hosts:
        return []
    if finding.rule == "slow-rank" and finding.pairs is not None:
        aspects = ("bandwidth",)
    suspect = Suspect(
        node=hosts[0],
        aspects=aspects,
        rules=(finding.rule,),
        limit=LARGE if finding.severity == "critical" else MODERATE,
        broke=finding.ended_the_run,
    )
    if _is_of_path(finding):
        return [replace(suspect, other=hosts[1])] if len(hosts) == 2 else []
    return [_narrowed(replace(suspect, node=host), finding, result) for host in hosts]


def _is_of_path(finding: Finding) -> bool:
    """Whether it accuses the path between two nodes, not a node."""
    return finding.rule in _OF_PATHS or (finding.rule == "slow-tcp-paths" and len(finding.hosts) > 1)


def _narrowed(suspect: Suspect, finding: Finding, result: RunResult) -> Suspect:
    """With the accused ranks of the node; without any where it is all of them, or the node as such."""
    ranks: Sequence[int] = next(node.ranks for node in result.cluster.nodes if node.name == suspect.node)
    accused = tuple(rank for rank in finding.ranks if rank in ranks)
    if finding.ended_the_run or not accused or len(accused) == len(ranks):
        return suspect
    return replace(suspect, ranks=accused, places=tuple(rank - ranks[0] for rank in accused))


def _together(one: Suspect, other: Suspect) -> Suspect:
    """What two findings say of the same node."""
    whole = not (one.places and other.places)
    return Suspect(
        node=one.node,
        other=one.other,
        places=() if whole else tuple(sorted({*one.places, *other.places})),
        ranks=() if whole else tuple(sorted({*one.ranks, *other.ranks})),
        aspects=tuple(dict.fromkeys((*one.aspects, *other.aspects))),
        rules=tuple(dict.fromkeys((*one.rules, *other.rules))),
        limit=min(one.limit, other.limit),
        broke=one.broke or other.broke,
    )


def message_bytes_of(result: RunResult) -> int | None:
    """The message size that its pairs were compared at; None where it measured none."""
    points = (point for one in result.benchmarks for point in one.points if point.source_rank is not None)
    return max((point.message_bytes for point in points), default=None)
