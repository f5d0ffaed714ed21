"""A point-to-point matrix: bandwidth by pair, the pairs that stand out, the same by node for many ranks. Pure.

What is slow is what the run's findings name, for the verdict and every table alike: a pair below the others that no
finding names is within the noise, and is shown without a mark.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from diagnostics.findings import Finding
from raybench.documents.run.benchmark import BenchmarkResult
from raybench.documents.run.cluster import ClusterInfo
from raybench.documents.run.point import Point
from raybench.reports.rows import is_measured
from raybench.reports.text import bandwidth, printable
from raybench.stats import median

_RULES = ("slow-node", "slow-rank", "slow-way", "slow-pairs")
MOST_ENDS = 20  # slow nodes and ranks that are named


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowPair:
    """A pair and how its bandwidth compares with the median of its kind: pairs within nodes, or between nodes.

    ``is_slow``: a finding names the pair, or an end of it.
    """

    point: Point
    source_node: str
    destination_node: str
    ratio: float
    is_slow: bool = False

    @property
    def between_nodes(self) -> bool:
        """Whether its traffic crosses the network."""
        return self.source_node != self.destination_node


@dataclass(frozen=True, kw_only=True)
class PairMatrix:
    """One message size. ``gb_per_second[(source, destination)]`` by rank; ``groups`` are (node, its ranks) in order.

    ``findings``: what the run's verdict names of its nodes, ranks and ways.
    """

    message_bytes: int
    points: Mapping[tuple[int, int], Point]
    groups: tuple[tuple[str, tuple[int, ...]], ...]
    findings: tuple[Finding, ...] = ()

    @property
    def ranks(self) -> tuple[int, ...]:
        """Ranks in the order of their nodes."""
        return tuple(rank for _, ranks in self.groups for rank in ranks)

    @cached_property
    def gb_per_second(self) -> dict[tuple[int, int], float]:
        """Bandwidth of each measured pair."""
        return {pair: point.algbw_gb_per_s for pair, point in self.points.items()}

    @cached_property
    def node_of(self) -> dict[int, str]:
        """Node name of each rank."""
        return {rank: node for node, ranks in self.groups for rank in ranks}

    @cached_property
    def ranked(self) -> tuple[SlowPair, ...]:
        """Every pair, the slowest against the median of its kind first."""
        return _ranked(self)

    @cached_property
    def slow_ends(self) -> tuple["SlowEnd", ...]:
        """Slow nodes, then slow ranks of other nodes."""
        return _slow_ends(self)

    @property
    def possible(self) -> int:
        """Ordered pairs that these ranks make, measured or not."""
        return len(self.ranks) * (len(self.ranks) - 1)


def pair_matrices(
    benchmark: BenchmarkResult, cluster: ClusterInfo, findings: Sequence[Finding] = ()
) -> tuple[PairMatrix, ...]:
    """One matrix a message size, smallest first; ``findings`` are the run's."""
    by_size: dict[int, dict[tuple[int, int], Point]] = {}
    for point in benchmark.points:
        if is_measured(point) and point.source_rank is not None and point.destination_rank is not None:
            pairs = by_size.setdefault(point.message_bytes, {})
            pairs[point.source_rank, point.destination_rank] = point
    return tuple(
        PairMatrix(
            message_bytes=size,
            points=pairs,
            groups=_groups(pairs, cluster),
            findings=tuple(one for one in findings if _is_about(one, benchmark.name, size)),
        )
        for size, pairs in sorted(by_size.items())
    )


def _is_about(finding: Finding, benchmark: str, size: int) -> bool:
    """Whether it names something of this matrix; a rank that is slow by itself is slow in every one."""
    if finding.rule not in _RULES:
        return False
    pairs = finding.pairs
    return pairs is None or (pairs.benchmark, pairs.message_bytes) == (benchmark, size)


def _names(finding: Finding, pair: tuple[int, int], *, between: bool) -> bool:
    """Whether a finding is about this pair: one of its ranks is named, in this direction and kind; of a way both."""
    pairs, ranks = finding.pairs, frozenset(finding.ranks)
    direction = pairs.direction if pairs else ""
    if pairs and pairs.between_nodes != between:
        return False
    if finding.rule == "slow-way":
        return ranks == frozenset(pair) and (not direction or pair == finding.ranks)
    if finding.rule == "slow-pairs":
        return pairs is not None and pair in (pairs.listed or ())
    return not ranks.isdisjoint(pair) if not direction else pair[direction == "receives"] in ranks


def _groups(pairs: Mapping[tuple[int, int], Point], cluster: ClusterInfo) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """(node, its ranks that take part); ranks that no node lists come last, under ``?``."""
    ranks = {rank for pair in pairs for rank in pair}
    groups = [(node.name, tuple(rank for rank in node.ranks if rank in ranks)) for node in cluster.nodes]
    unknown = tuple(sorted(ranks - {rank for _, members in groups for rank in members}))
    groups += [("?", unknown)] if unknown else []
    return tuple((name, members) for name, members in groups if members)


def ranked_pairs(matrix: PairMatrix) -> tuple[SlowPair, ...]:
    """Every pair, the slowest against the median of its kind first."""
    return matrix.ranked


def _ranked(matrix: PairMatrix) -> tuple[SlowPair, ...]:
    node_of, speeds = matrix.node_of, matrix.gb_per_second
    between = {pair: node_of[pair[0]] != node_of[pair[1]] for pair in speeds}
    typical = {
        kind: median(values)
        for kind in (True, False)
        if (values := [speeds[pair] for pair in speeds if between[pair] == kind])
    }
    pairs = (
        SlowPair(
            point=matrix.points[pair],
            source_node=node_of[pair[0]],
            destination_node=node_of[pair[1]],
            ratio=speed / typical[between[pair]],
            is_slow=any(_names(one, pair, between=between[pair]) for one in matrix.findings),
        )
        for pair, speed in speeds.items()
    )
    return tuple(sorted(pairs, key=lambda pair: pair.ratio))


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowEnd:
    """A node (``rank`` None) or a rank that a finding names, and what the finding says of it."""

    node: str
    rank: int | None
    summary: str


def slow_ends(matrix: PairMatrix) -> tuple[SlowEnd, ...]:
    """Slow nodes, then slow ranks: what a hundred slow pairs have in common."""
    return matrix.slow_ends


def _slow_ends(matrix: PairMatrix) -> tuple[SlowEnd, ...]:
    of_nodes = [one for one in matrix.findings if one.rule == "slow-node"]
    of_ranks = [one for one in matrix.findings if one.rule == "slow-rank"]
    return (
        *(SlowEnd(node=str(host), rank=None, summary=one.summary) for one in of_nodes for host in one.hosts),
        *(
            SlowEnd(node=matrix.node_of.get(rank, "?"), rank=rank, summary=one.summary)
            for one in of_ranks
            for rank in one.ranks
        ),
    )


def end_text(end: SlowEnd) -> str:
    """``slow node: node node-b reaches 0.30 of its peers' bandwidth between nodes: 1.2 GB/s, 4 of its peers``."""
    return f"slow {'node' if end.rank is None else 'rank'}: {printable(end.summary)}"


def ends_in_short(matrix: PairMatrix) -> tuple[str, ...]:
    """A sentence a slow node or rank, of many the slowest and the number of the others."""
    shown, rest = matrix.slow_ends[:MOST_ENDS], matrix.slow_ends[MOST_ENDS:]
    texts = tuple(map(end_text, shown))
    if not rest:
        return texts
    return (*texts, f"{len(rest):,} more slow nodes or ranks: see the findings")


def unexplained(matrix: PairMatrix) -> tuple[SlowPair, ...]:
    """Pairs that are named themselves, without those of slow nodes or ranks, slowest first."""
    ways = {frozenset(one.ranks) for one in matrix.findings if one.rule == "slow-way"}
    return tuple(
        pair
        for pair in ranked_pairs(matrix)
        if pair.is_slow and frozenset((pair.point.source_rank, pair.point.destination_rank)) in ways
    )


def by_node(matrix: PairMatrix) -> dict[tuple[int, int], float]:
    """The slowest pair of ranks between each two nodes, GB/s, by index into ``groups``; (i, i) is within node i."""
    index = {rank: number for number, (_, ranks) in enumerate(matrix.groups) for rank in ranks}
    slowest: dict[tuple[int, int], float] = {}
    for (source, destination), speed in matrix.gb_per_second.items():
        key = (index[source], index[destination])
        slowest[key] = min(speed, slowest.get(key, speed))
    return slowest


def pair_text(pair: SlowPair) -> str:
    """``rank 3 (node-a) -> rank 9 (node-b), 1.21 GB/s, 0.12 x the median between nodes``."""
    source = f"rank {pair.point.source_rank} ({printable(pair.source_node)})"
    destination = f"rank {pair.point.destination_rank} ({printable(pair.destination_node)})"
    kind = "between nodes" if pair.between_nodes else "within nodes"
    speed = f"{bandwidth(pair.point.algbw_gb_per_s)} GB/s, {pair.ratio:.2f} x the median {kind}"
    return f"{source} -> {destination}, {speed}"
