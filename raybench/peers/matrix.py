"""A point-to-point matrix: the nodes, ranks and ways whose bandwidth is below that of their peers. Pure.

Pairs of a pass send at the same time, so a pair is compared with the others of its pass: what disturbs the machine
disturbs both. Pairs between nodes are compared with pairs between nodes, pairs within a node with such pairs. A node
is named before its ranks, a rank before its pairs; whoever is named is no peer of the rest.

The bandwidth of a block is its bytes over its whole time: a rank that stands still for part of the time has a healthy
median operation, and a third of the throughput.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Literal

from raybench.peers.judgement import LARGE, Severity, Share, control_of, is_blind, severity_of, share_of
from raybench.results import Point
from raybench.rounds import disjoint_rounds
from raybench.stats import median

Pair = tuple[int, int]
Kind = Literal["node", "rank", "way"]
Direction = Literal["", "sends", "receives"]
_DIRECTIONS: tuple[Direction, ...] = ("", "sends", "receives")
_GOOD = 0.9  # a direction above it is fine
_MOST_NAMED = 3  # one in so many, at most, or it is no fault but how the machine is built
_WAY_DEVIATIONS = 4.0
_TO_DEVIATION = 1.4826


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowPart:
    """A node, a rank or a way that is slower than its peers. ``direction``: "" both, or the only slow one."""

    kind: Kind
    ranks: tuple[int, ...]
    nodes: tuple[str, ...]
    between: bool
    share: Share
    severity: Severity
    direction: Direction = ""
    gb_per_s: float = 0.0
    peers_gb_per_s: float = 0.0
    good_within: bool = False  # of a rank slow between nodes: its pairs within the node are as its peers'


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixJudgement:
    """What stands out, and why nothing could be told where that is so."""

    slow: tuple[SlowPart, ...] = ()
    not_judged: str | None = None


class Matrix:
    """Block bandwidths of one message size by pair, and which pairs were measured at the same time."""

    def __init__(self, points: Sequence[Point], node_of: Mapping[int, str], world_size: int) -> None:
        self.node_of = node_of
        self.blocks: dict[Pair, list[float]] = {}
        for point in points:
            if point.source_rank is not None and point.destination_rank is not None:
                self.blocks[point.source_rank, point.destination_rank] = _blocks(point)
        schedule = disjoint_rounds(world_size) if world_size > 1 else ()
        passes = [pairs for one in schedule for pairs in (one, tuple((d, s) for s, d in one))]
        self.passes = [[pair for pair in pairs if self.blocks.get(pair)] for pairs in passes]

        first = {node: min(rank for rank in node_of if node_of[rank] == node) for node in set(node_of.values())}
        self._place = {rank: rank - first[node] for rank, node in node_of.items()}

    def between(self, pair: Pair) -> bool:
        """Whether the pair's traffic crosses the network."""
        return self.node_of[pair[0]] != self.node_of[pair[1]]

    def is_like(self, one: Pair, other: Pair) -> bool:
        """Whether ways are of one kind: within a node, between nodes on one rail, or from one rail to another."""
        rails = [self._place[pair[0]] == self._place[pair[1]] for pair in (one, other)]
        return self.between(one) == self.between(other) and (rails[0] == rails[1] or not self.between(one))

    def speed(self, pairs: Sequence[Pair]) -> float:
        """The median over blocks of these pairs, GB/s."""
        return median([block for pair in pairs for block in self.blocks[pair]])

    def share(self, mine: Callable[[Pair], bool], peers: Callable[[Pair], bool]) -> Share | None:
        """How fast pairs are beside their peers of the same pass; beside all peers where no pass has both."""
        together = [
            self._beside([pair for pair in one if mine(pair)], [pair for pair in one if peers(pair)])
            for one in self.passes
        ]
        found = share_of(together)
        everyone = [pair for one in self.passes for pair in one if peers(pair)]
        if found is not None or not everyone:
            return found
        typical = self.speed(everyone)
        return share_of([[block / typical for block in self.blocks[pair]] for pair in self.blocks if mine(pair)])

    def _beside(self, mine: Sequence[Pair], peers: Sequence[Pair]) -> list[float]:
        if not mine or not peers:
            return []
        rows = [[self.blocks[pair] for pair in pairs] for pairs in (mine, peers)]
        count = min(len(blocks) for row in rows for blocks in row)
        return [median([row[block] for row in rows[0]]) / median([row[block] for row in rows[1]])
                for block in range(count)]  # fmt: skip


def _blocks(point: Point) -> list[float]:
    return [
        len(block) * point.message_bytes / sum(block) / 1e9 for one in point.launches for block in one if sum(block)
    ]


def judge_matrix(
    points: Sequence[Point], node_of: Mapping[int, str], world_size: int, *, emulated: bool
) -> MatrixJudgement:
    """What stands out in a matrix of one message size."""
    matrix = Matrix(points, node_of, world_size)
    ranks = sorted({rank for pair in matrix.blocks for rank in pair})
    nodes = sorted({node_of[rank] for rank in ranks}, key=lambda node: min(r for r in ranks if node_of[r] == node))
    if len(ranks) < 3:
        return MatrixJudgement(not_judged=f"{len(ranks)} ranks have no others to be compared with")
    by_node = {node: {rank for rank in ranks if node_of[rank] == node} for node in nodes}
    search = _Search(matrix, emulated=emulated)
    if len(nodes) > 2:
        search.look("node", list(by_node.values()), between=True)
    if len(nodes) > 1 and any(len(members) > 1 for members in by_node.values()):
        search.look("rank", [{rank} for rank in ranks], between=True)
    if any(len(members) > 2 for members in by_node.values()):
        search.look("rank", [{rank} for rank in ranks], between=False)
    search.look_at_ways()
    return MatrixJudgement(slow=tuple(search.found), not_judged=None if search.found else search.blind)


class _Search:
    """What was found so far; who is named is no peer any more."""

    def __init__(self, matrix: Matrix, *, emulated: bool) -> None:
        self._matrix, self._emulated = matrix, emulated
        self._named: dict[bool, set[int]] = {True: set(), False: set()}  # by whether pairs cross the network
        self.found: list[SlowPart] = []
        self.blind: str | None = None

    def look(self, kind: Kind, members: Sequence[set[int]], *, between: bool) -> None:
        """Name the slowest, then the slowest of the rest, while they stand out: in both directions, then in one."""
        most = max(len(members) // _MOST_NAMED, 1)
        for direction in _DIRECTIONS[:1] if self._emulated else _DIRECTIONS:
            for _ in range(most):
                rest = [one for one in members if one.isdisjoint(self._named[between])]
                worst = self._worst(kind, rest, between, direction)
                if worst is None:
                    break
                self._named[between] |= set(worst.ranks)
                if not any(one.kind == kind and one.ranks == worst.ranks for one in self.found):  # said once
                    self.found.append(worst)

    def _worst(self, kind: Kind, rest: Sequence[set[int]], between: bool, direction: Direction) -> SlowPart | None:
        shares = [(one, share) for one in rest if (share := self._share(one, between, direction)) is not None]
        if len(shares) < 2:
            return None
        ranks, share = min(shares, key=lambda item: item[1].value)
        others = [self._share(one, between, direction, without=ranks) for one, _ in shares if one is not ranks]
        control = control_of(share, [one for one in others if one is not None], may_be_slow=between)
        severity = severity_of(share, control, emulated=self._emulated)
        if severity is None:
            if is_blind(control):
                self.blind = "healthy pairs differ among themselves too much"
            return None
        if not all(self._is_slow(rank, between, direction) for rank in ranks if len(ranks) > 1):
            return None  # one rank of the node, not the node
        return self._part(kind, ranks, share, severity, between, direction)

    def _is_slow(self, rank: int, between: bool, direction: Direction) -> bool:
        share = self._share({rank}, between, direction)
        return share is not None and share.value < _GOOD

    def _is_slow_back(self, ranks: set[int], between: bool, direction: Direction) -> bool:
        back = self._share(ranks, between, "receives" if direction == "sends" else "sends")
        return back is not None and back.value < _GOOD

    def _usable(self, between: bool, without: AbstractSet[int] = frozenset()) -> set[Pair]:
        """Pairs of the kind that touch nobody who is named or left out."""
        absent = self._named[between] | without
        return {
            pair for pair in self._matrix.blocks if self._matrix.between(pair) == between and absent.isdisjoint(pair)
        }

    def _share(
        self, ranks: set[int], between: bool, direction: Direction = "", without: AbstractSet[int] = frozenset()
    ) -> Share | None:
        """Pairs of these ranks beside pairs that touch none of them."""
        usable = self._usable(between, without)
        mine = {pair for pair in usable if not ranks.isdisjoint(pair)}
        chosen = {pair for pair in mine if not direction or pair[direction == "receives"] in ranks}
        return self._matrix.share(chosen.__contains__, (usable - mine).__contains__)

    def _part(
        self, kind: Kind, ranks: set[int], share: Share, severity: Severity, between: bool, direction: Direction
    ) -> SlowPart:
        usable = self._usable(between)
        mine = {pair for pair in usable if not ranks.isdisjoint(pair)}
        slow = sorted(pair for pair in mine if not direction or pair[direction == "receives"] in ranks)
        within = self._share(ranks, between=False) if between else None
        if direction and self._is_slow_back(ranks, between, direction):
            direction = ""
        return SlowPart(
            kind=kind,
            ranks=tuple(sorted(ranks)),
            nodes=tuple(sorted({self._matrix.node_of[rank] for rank in ranks})),
            between=between,
            share=share,
            severity=severity,
            direction=direction,
            gb_per_s=self._matrix.speed(slow),
            peers_gb_per_s=self._matrix.speed(sorted(usable - mine)),
            good_within=within is not None and within.value > _GOOD,
        )

    def look_at_ways(self) -> None:
        """Single ways between ranks that are both good with others; many of them are how the machine is built."""
        found = [part for between in (True, False) for part in self._ways(between=between)]
        ranks = {rank for pair in self._matrix.blocks for rank in pair}
        if len(found) <= max(1, len(ranks) // 4):
            self.found += found

    def _ways(self, *, between: bool) -> Iterator[SlowPart]:
        usable = self._usable(between, self._named[not between])
        for one, other in sorted({(min(pair), max(pair)) for pair in usable}):
            ways = {(one, other), (other, one)} & usable
            peers = {pair for pair in usable - ways if self._matrix.is_like(pair, (one, other))}
            slow = self._way(ways, peers)
            if slow is not None:
                yield slow
                continue
            single = [self._way({way}, peers) for way in sorted(ways)] if not self._emulated else []
            yield from (part for part in single if part is not None)

    def _way(self, ways: set[Pair], peers: set[Pair]) -> SlowPart | None:
        """A way that is slow in all of its blocks, and farther from its peers than pairs are from each other."""
        if len(peers) < 4 or not ways:
            return None
        speeds = [self._matrix.speed([pair]) for pair in peers]
        typical = median(speeds)
        spread = _TO_DEVIATION * median([abs(speed - typical) for speed in speeds]) / typical
        blocks = [[block / typical for block in self._matrix.blocks[way]] for way in ways]
        shares = [share for one in blocks for share in one]
        if len(shares) < 5 or not max(shares) < min(LARGE, 1 - _WAY_DEVIATIONS * spread):
            return None
        pair = min(ways)
        return SlowPart(
            kind="way",
            ranks=pair,
            nodes=tuple(dict.fromkeys(self._matrix.node_of[rank] for rank in pair)),
            between=self._matrix.between(pair),
            share=Share(value=median(shares), low=min(shares), high=max(shares), rounds=tuple(map(median, blocks))),
            severity="critical",
            direction="sends" if len(ways) == 1 else "",
            gb_per_s=self._matrix.speed(sorted(ways)),
            peers_gb_per_s=typical,
        )
