"""A point-to-point matrix: bandwidth by pair, the pairs that stand out, the same by node for many ranks. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from raybench.reports.rows import is_measured
from raybench.reports.text import bandwidth, inert
from raybench.results import BenchmarkResult, ClusterInfo, Point
from raybench.stats import median

SLOW_RATIO = 0.8  # of the median of pairs of the same kind
_LEAST_PARTNERS = 3  # other nodes that an end is slow with before it is blamed
MOST_ENDS = 20  # slow nodes and ranks that are named


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowPair:
    """A pair and how its bandwidth compares with the median of its kind: pairs within nodes, or between nodes."""

    point: Point
    source_node: str
    destination_node: str
    ratio: float

    @property
    def between_nodes(self) -> bool:
        """Whether its traffic crosses the network."""
        return self.source_node != self.destination_node

    @property
    def is_slow(self) -> bool:
        """Whether it is well below its kind."""
        return self.ratio < SLOW_RATIO


@dataclass(frozen=True, kw_only=True)
class PairMatrix:
    """One message size. ``gb_per_second[(source, destination)]`` by rank; ``groups`` are (node, its ranks) in order."""

    message_bytes: int
    points: Mapping[tuple[int, int], Point]
    groups: tuple[tuple[str, tuple[int, ...]], ...]

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


def pair_matrices(benchmark: BenchmarkResult, cluster: ClusterInfo) -> tuple[PairMatrix, ...]:
    """One matrix a message size, smallest first."""
    by_size: dict[int, dict[tuple[int, int], Point]] = {}
    for point in benchmark.points:
        if is_measured(point) and point.source_rank is not None and point.destination_rank is not None:
            pairs = by_size.setdefault(point.message_bytes, {})
            pairs[point.source_rank, point.destination_rank] = point
    return tuple(
        PairMatrix(message_bytes=size, points=pairs, groups=_groups(pairs, cluster))
        for size, pairs in sorted(by_size.items())
    )


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
        )
        for pair, speed in speeds.items()
    )
    return tuple(sorted(pairs, key=lambda pair: pair.ratio))


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowEnd:
    """A node (``rank`` None) or a rank whose pairs with other nodes are slow as a whole; ``ratio`` is their median."""

    node: str
    rank: int | None
    ratio: float


def slow_ends(matrix: PairMatrix) -> tuple[SlowEnd, ...]:
    """Slow nodes, then slow ranks of other nodes: what a hundred slow pairs have in common. None below three nodes."""
    return matrix.slow_ends


def _slow_ends(matrix: PairMatrix) -> tuple[SlowEnd, ...]:
    if len(matrix.groups) < 3:
        return ()
    between = [pair for pair in ranked_pairs(matrix) if pair.between_nodes]
    partners = min(_LEAST_PARTNERS, len(matrix.groups) - 1)
    nodes = _slow_medians(between, lambda pair: (pair.source_node, pair.destination_node), partners)
    ranks = _slow_medians(between, lambda pair: (pair.point.source_rank, pair.point.destination_rank), partners)
    slow, node_of = dict(nodes), matrix.node_of
    others = [(rank, ratio) for rank, ratio in ranks if node_of[rank] not in slow]
    return (
        *(SlowEnd(node=node, rank=None, ratio=ratio) for node, ratio in nodes),
        *(SlowEnd(node=node_of[rank], rank=rank, ratio=ratio) for rank, ratio in others),
    )


def _slow_medians(
    pairs: Sequence[SlowPair], ends_of: Callable[[SlowPair], tuple[Any, Any]], partners: int
) -> list[tuple[Any, float]]:
    """(end, median ratio of its pairs) of the ends that are slow with as many other nodes as needed, slowest first.

    An end that was measured with one or two others only, as the first rounds of a matrix leave it, is not blamed: its
    partner may be what is slow.
    """
    ratios: dict[Any, list[float]] = {}
    others: dict[Any, set[str]] = {}
    for pair in pairs:
        nodes = (pair.destination_node, pair.source_node)
        for end, other in zip(ends_of(pair), nodes, strict=True):
            ratios.setdefault(end, []).append(pair.ratio)
            if pair.is_slow:
                others.setdefault(end, set()).add(other)
    medians = ((end, median(values)) for end, values in ratios.items() if len(others.get(end, ())) >= partners)
    return sorted((item for item in medians if item[1] < SLOW_RATIO), key=lambda item: item[1])


def end_text(end: SlowEnd) -> str:
    """``slow node: pairs of node-b with other nodes reach 0.30 x the median``."""
    kind, name = ("node", inert(end.node)) if end.rank is None else ("rank", f"rank {end.rank} ({inert(end.node)})")
    return f"slow {kind}: pairs of {name} with other nodes reach {end.ratio:.2f} x the median"


def ends_in_short(matrix: PairMatrix) -> tuple[str, ...]:
    """A sentence a slow node or rank, of many the slowest and the number of the others."""
    shown, rest = matrix.slow_ends[:MOST_ENDS], matrix.slow_ends[MOST_ENDS:]
    texts = tuple(map(end_text, shown))
    if not rest:
        return texts
    least = min(end.ratio for end in rest)
    return (*texts, f"{len(rest):,} more slow nodes or ranks, each at {least:.2f} x the median or more")


def unexplained(matrix: PairMatrix) -> tuple[SlowPair, ...]:
    """Slow pairs that no slow node or rank explains, slowest first."""
    ends = slow_ends(matrix)
    nodes, ranks = {end.node for end in ends if end.rank is None}, {end.rank for end in ends}
    return tuple(
        pair
        for pair in ranked_pairs(matrix)
        if pair.is_slow
        and nodes.isdisjoint((pair.source_node, pair.destination_node))
        and ranks.isdisjoint((pair.point.source_rank, pair.point.destination_rank))
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
    source = f"rank {pair.point.source_rank} ({inert(pair.source_node)})"
    destination = f"rank {pair.point.destination_rank} ({inert(pair.destination_node)})"
    kind = "between nodes" if pair.between_nodes else "within nodes"
    speed = f"{bandwidth(pair.point.algbw_gb_per_s)} GB/s, {pair.ratio:.2f} x the median {kind}"
    return f"{source} -> {destination}, {speed}"
