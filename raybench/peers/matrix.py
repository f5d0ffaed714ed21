"""A point-to-point matrix: the nodes, ranks and paths whose bandwidth is below that of their peers. Pure.

Pairs of a pass send at the same time, so a pair is compared with the others of its pass: what disturbs the machine
disturbs both. Pairs between nodes are compared with pairs between nodes, pairs within a node with such pairs. A node
is named before its ranks, a rank before its pairs; whoever is named is no peer of the rest.

The bandwidth of a block is its bytes over its whole time: a rank that stands still for part of the time has a healthy
median operation, and a third of the throughput.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from diagnostics.findings import Severity
from raybench.documents.run.point import Point
from raybench.peers.judgement import LARGE, NOT_JUDGED, Share, control_of, is_blind, severity_of, share_of
from raybench.peers.patterns import SlowPairs, slow_patterns
from raybench.rounds import disjoint_rounds
from raybench.stats import MAD_TO_DEVIATION, median

Pair = tuple[int, int]
Kind = Literal["node", "rank", "way"]
Direction = Literal["", "sends", "receives"]
_DIRECTIONS: tuple[Direction, ...] = ("", "sends", "receives")
_MANY_PAIRS = 12  # of a pass: whether a subject's own pair is among them moves their median no more
_LEAST_PATHS, _LEAST_BLOCKS = 6, 5
_BY_FAR = 0.3  # of what is typical: so slow in all blocks of one direction is no trouble for a while
_GOOD = 0.9  # a direction above it is fine
_MOST_NAMED = 3  # one in so many, at most, or it is no fault but how the machine is built
_PATH_DEVIATIONS = 4.0
_BLIND = "healthy pairs differ among themselves too much"
_UNDECIDED = f"{_BLIND}, and some reach less than {NOT_JUDGED} of what others do"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowPart:
    """A node, a rank or a path that is slower than its peers. ``direction``: "" both, or the only slow one."""

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
    """What stands out, and why nothing could be determined where that is so.

    ``undecided``: some pairs between nodes are slow all the same, and nobody can say because of whom. ``open_nodes``:
    the nodes of these pairs, those of most of them first.
    """

    slow: tuple[SlowPart, ...] = ()
    patterns: tuple[SlowPairs, ...] = ()  # slow pairs that no part explains
    not_judged: str | None = None
    undecided: bool = False
    open_nodes: tuple[str, ...] = ()


class Matrix:
    """Block bandwidths of one message size by pair, and which pairs were measured at the same time."""

    def __init__(self, points: Sequence[Point], node_of: Mapping[int, str], world_size: int) -> None:
        self.node_of = node_of
        self.blocks: dict[Pair, list[float]] = {}
        for point in points:
            if point.source_rank is not None and point.destination_rank is not None:
                self.blocks[point.source_rank, point.destination_rank] = block_bandwidths(point)
        schedule = disjoint_rounds(world_size) if world_size > 1 else ()
        passes = [pairs for one in schedule for pairs in (one, tuple((d, s) for s, d in one))]
        self.passes = [[pair for pair in pairs if self.blocks.get(pair)] for pairs in passes]

        first: dict[str, int] = {}
        for rank, node in sorted(node_of.items()):
            first.setdefault(node, rank)
        self._place = {rank: rank - first[node] for rank, node in node_of.items()}

    def between(self, pair: Pair) -> bool:
        """Whether the pair's traffic crosses the network."""
        return self.node_of[pair[0]] != self.node_of[pair[1]]

    def is_on_rail(self, pair: Pair) -> bool:
        """Whether both ranks have the same place in their nodes, and so the same rail."""
        return self._place[pair[0]] == self._place[pair[1]]

    def place(self, rank: int) -> int:
        """The rank's place in its node, from 0."""
        return self._place[rank]

    @cached_property
    def rails(self) -> int:
        """How many places the largest node has."""
        return 1 + max(self._place[rank] for pair in self.blocks for rank in pair)

    def pairs_on_rail(self, place: int) -> int:
        """Pairs between nodes whose ranks both have this place."""
        return sum(
            self.between(pair) and self.is_on_rail(pair) and self._place[pair[0]] == place for pair in self.blocks
        )

    def speed(self, pairs: Sequence[Pair]) -> float:
        """The median over blocks of these pairs, GB/s."""
        return median([block for pair in pairs for block in self.blocks[pair]])

    def shares(
        self, subjects: Sequence[frozenset[int]], usable: AbstractSet[Pair], direction: Direction = ""
    ) -> list[Share | None]:
        """How fast the pairs of each subject's ranks are beside those of the others, among the usable pairs.

        Beside pairs of the same pass; beside all pairs of others where no pass has both, as with three ranks.
        """
        rounds: list[list[list[float]]] = [[] for _ in subjects]
        subject_of = {rank: index for index, ranks in enumerate(subjects) for rank in ranks}
        for one in self.passes:
            pairs = [pair for pair in one if pair in usable]
            if len(pairs) < 2:
                continue
            everyone = self._medians(pairs) if len(pairs) >= _MANY_PAIRS else None
            for index, mine in _touched(pairs, subject_of, direction).items():
                ranks = subjects[index]
                others = everyone or self._medians([pair for pair in pairs if ranks.isdisjoint(pair)])
                if others:
                    rounds[index].append([a / b for a, b in zip(self._medians(mine), others, strict=False)])
        return [
            share_of(found) or self._beside_all(subjects[index], usable, direction)
            for index, found in enumerate(rounds)
        ]

    def _beside_all(self, ranks: frozenset[int], usable: AbstractSet[Pair], direction: Direction) -> Share | None:
        peers = [pair for pair in usable if ranks.isdisjoint(pair)]
        if not peers:
            return None
        typical = self.speed(peers)
        mine = [pair for pair in usable if is_of(pair, ranks, direction)]
        return share_of([[block / typical for block in self.blocks[pair]] for pair in sorted(mine)])

    def _medians(self, pairs: Sequence[Pair]) -> list[float]:
        """The median bandwidth of these pairs, block by block."""
        return [median(column) for column in zip(*(self.blocks[pair] for pair in pairs), strict=False)]


def is_of(pair: Pair, ranks: AbstractSet[int], direction: Direction) -> bool:
    """Whether a pair is one of these ranks', and in that direction."""
    if not direction:
        return not ranks.isdisjoint(pair)
    return pair[direction == "receives"] in ranks


def _touched(pairs: Sequence[Pair], subject_of: Mapping[int, int], direction: Direction) -> dict[int, list[Pair]]:
    """The pairs of each subject among them, by its index."""
    found: dict[int, list[Pair]] = {}
    for pair in pairs:
        ends = pair if not direction else (pair[direction == "receives"],)
        for index in {subject_of[rank] for rank in ends if rank in subject_of}:
            found.setdefault(index, []).append(pair)
    return found


def block_bandwidths(point: Point) -> list[float]:
    """The bandwidth of each block of a pair, GB/s."""
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
    patterns = tuple(slow_patterns(matrix, search.left()))
    if emulated:  # their ranks share processors: such a pattern comes and goes with what else runs
        blind = search.blind or next((one.text for one in patterns), None)
        return MatrixJudgement(slow=tuple(search.found), not_judged=None if search.found else blind)
    if search.found or patterns:
        return MatrixJudgement(slow=tuple(search.found), patterns=patterns)
    slow = search.slow_pairs()
    if slow:
        ends = Counter(matrix.node_of[rank] for pair in sorted(slow) for rank in pair)
        open_nodes = tuple(node for node, _ in ends.most_common())
        return MatrixJudgement(not_judged=_UNDECIDED, undecided=True, open_nodes=open_nodes)
    return MatrixJudgement(not_judged=search.blind)


class _Search:
    """What was found so far; who is named is no peer any more."""

    def __init__(self, matrix: Matrix, *, emulated: bool) -> None:
        self._matrix, self._emulated = matrix, emulated
        self._named: dict[bool, set[int]] = {True: set(), False: set()}  # by whether pairs cross the network
        self.found: list[SlowPart] = []
        self.blind: str | None = None

    def look(self, kind: Kind, members: Sequence[set[int]], *, between: bool) -> None:
        """Name the slowest, then the slowest of the rest, while they stand out: in both directions, then in one."""
        subjects = [frozenset(one) for one in members]
        most = max(len(members) // _MOST_NAMED, 1)
        for direction in _DIRECTIONS[:1] if self._emulated else _DIRECTIONS:
            for _ in range(most):
                rest = [one for one in subjects if one.isdisjoint(self._named[between])]
                worst = self._worst(kind, rest, between, direction)
                if worst is None:
                    break
                self._named[between] |= set(worst.ranks)
                if not any(one.kind == kind and one.ranks == worst.ranks for one in self.found):  # said once
                    self.found.append(worst)

    def _worst(
        self, kind: Kind, rest: Sequence[frozenset[int]], between: bool, direction: Direction
    ) -> SlowPart | None:
        usable = self._usable(between)
        shares = {
            ranks: share
            for ranks, share in zip(rest, self._matrix.shares(rest, usable, direction), strict=True)
            if share is not None
        }
        if len(shares) < 2:
            return None
        ranks = min(shares, key=lambda one: shares[one].value)
        others = self._matrix.shares(
            [one for one in shares if one != ranks], {pair for pair in usable if ranks.isdisjoint(pair)}, direction
        )
        control = control_of(shares[ranks], [one for one in others if one is not None], may_be_slow=between)
        severity = severity_of(shares[ranks], control, emulated=self._emulated)
        if severity is None:
            if is_blind(control):
                self.blind = _BLIND
            return None
        if len(ranks) > 1 and not all(self._is_slow(frozenset({rank}), between, direction) for rank in ranks):
            return None  # one rank of the node, not the node
        return self._part(kind, ranks, shares[ranks], severity, between, direction)

    def _is_slow(self, ranks: frozenset[int], between: bool, direction: Direction) -> bool:
        (share,) = self._matrix.shares([ranks], self._usable(between), direction)
        return share is not None and share.value < _GOOD

    def _usable(self, between: bool, without: AbstractSet[int] = frozenset()) -> set[Pair]:
        """Pairs of the kind that touch nobody who is named or left out."""
        absent = self._named[between] | without
        return {
            pair for pair in self._matrix.blocks if self._matrix.between(pair) == between and absent.isdisjoint(pair)
        }

    def _part(
        self,
        kind: Kind,
        ranks: frozenset[int],
        share: Share,
        severity: Severity,
        between: bool,
        direction: Direction,
    ) -> SlowPart:
        usable = self._usable(between)
        slow = sorted(pair for pair in usable if is_of(pair, ranks, direction))
        peers = sorted(pair for pair in usable if ranks.isdisjoint(pair))
        (within,) = self._matrix.shares([ranks], self._usable(between=False)) if between else (None,)
        back: Direction = "receives" if direction == "sends" else "sends"
        return SlowPart(
            kind=kind,
            ranks=tuple(sorted(ranks)),
            nodes=tuple(sorted({self._matrix.node_of[rank] for rank in ranks})),
            between=between,
            share=share,
            severity=severity,
            direction="" if direction and self._is_slow(ranks, between, back) else direction,
            gb_per_s=self._matrix.speed(slow),
            peers_gb_per_s=self._matrix.speed(peers),
            good_within=within is not None and within.value > _GOOD,
        )

    def left(self) -> dict[bool, set[Pair]]:
        """Pairs between nodes and within nodes that nothing of what was found explains."""
        paths = {frozenset(part.ranks) for part in self.found if part.kind == "way"}
        named = self._named[True] | self._named[False]
        return {
            between: {pair for pair in self._usable(between, named) if frozenset(pair) not in paths}
            for between in (True, False)
        }

    def slow_pairs(self) -> set[Pair]:
        """Pairs of nodes that are slow all the time, beside pairs on a rail or off it as they are.

        In both directions; or in one, of several pairs from one rank or to it; or in one by far. Pairs and directions
        are measured at different times, so that trouble for a while shows in one of them.
        """
        kinds: dict[bool, list[Pair]] = {}
        for pair in self._usable(between=True):
            kinds.setdefault(self._matrix.is_on_rail(pair), []).append(pair)
        return {slow for pairs in kinds.values() for slow in self._slow_of(pairs)}

    def _slow_of(self, pairs: Sequence[Pair]) -> set[Pair]:
        typical = median([self._matrix.speed([pair]) for pair in pairs])
        fastest = {pair: max(self._matrix.blocks[pair]) for pair in pairs}
        slow = {pair for pair, block in fastest.items() if block < NOT_JUDGED * typical}
        ends = Counter((place, pair[place]) for pair in slow for place in (0, 1))
        by_far = (
            fastest[pair] < _BY_FAR * typical and len(self._matrix.blocks[pair]) >= _LEAST_BLOCKS for pair in slow
        )
        lasts = any(pair[::-1] in slow for pair in slow) or any(count > 1 for count in ends.values()) or any(by_far)
        return slow if lasts else set()

    def look_at_ways(self) -> None:
        """Single paths between ranks that are both good with others; many of them are how the machine is built."""
        found = [part for between in (True, False) for part in self._ways(between=between)]
        ranks = {rank for pair in self._matrix.blocks for rank in pair}
        if len(found) <= max(1, len(ranks) // 4):
            self.found += found

    def _ways(self, *, between: bool) -> Iterator[SlowPart]:
        usable = self._usable(between, self._named[not between])
        kinds: dict[bool, list[Pair]] = {}
        for pair in sorted(usable):
            kinds.setdefault(self._matrix.is_on_rail(pair), []).append(pair)
        apart = between and all(len(pairs) >= _LEAST_PATHS for pairs in kinds.values())
        for pairs in kinds.values() if apart else [sorted(usable)]:
            speeds = {pair: self._matrix.speed([pair]) for pair in pairs}
            typical, spread = _typical(list(speeds.values()))
            if len(pairs) < _LEAST_PATHS:
                if min(speeds.values(), default=typical) < LARGE * typical:
                    self.blind = f"{len(pairs)} pairs of a kind are too few to tell a slow one"
                continue
            for one, other in pairs:
                paths = [path for path in ((one, other), (other, one)) if path in speeds]
                if one > other and len(paths) > 1:
                    continue  # both directions were looked at from the other end
                both = self._path(paths, typical, spread)
                single = [self._path([path], typical, spread) for path in paths] if not (both or self._emulated) else []
                yield from (part for part in (both, *single) if part is not None)

    def _path(self, paths: Sequence[Pair], typical: float, spread: float) -> SlowPart | None:
        """A path that is slow in all of its blocks, and farther from its peers than pairs are from each other."""
        blocks = [[block / typical for block in self._matrix.blocks[path]] for path in paths]
        shares = [share for one in blocks for share in one]
        if len(shares) < _LEAST_BLOCKS or not max(shares) < min(LARGE, 1 - _PATH_DEVIATIONS * spread):
            return None
        pair = paths[0]
        return SlowPart(
            kind="way",
            ranks=pair,
            nodes=tuple(dict.fromkeys(self._matrix.node_of[rank] for rank in pair)),
            between=self._matrix.between(pair),
            share=Share(value=median(shares), low=min(shares), high=max(shares), rounds=tuple(map(median, blocks))),
            severity="critical",
            direction="sends" if len(paths) == 1 else "",
            gb_per_s=self._matrix.speed(paths),
            peers_gb_per_s=typical,
        )


def _typical(speeds: Sequence[float]) -> tuple[float, float]:
    """The median of the pairs' speeds, and their spread as a share of it (scaled median absolute deviation)."""
    typical = median(speeds) if speeds else 0.0
    return typical, MAD_TO_DEVIATION * median([abs(speed - typical) for speed in speeds]) / typical if speeds else 0.0
