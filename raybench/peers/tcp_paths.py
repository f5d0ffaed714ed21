"""Which node's TCP paths carry less than those between the other nodes, while they have something to carry. Pure.

In a collective all ranks wait for the slowest path, so that each of them ends at the same time. What differs is how
fast a path carries its part: a healthy one is done early, and idle until the slow one is.

Paths are told apart by the widest gap between the fastest of the slow ones and the slowest of the rest: it has to be
``LIMIT``, whatever errors the clock of the kernel makes. That is the control as well: where healthy paths differ among
themselves by that much, there is no such gap. A node of which all paths are slow is named before its paths are.

Only where all nodes have as many paths in use, to and from them: where many send to one at the same time, as in a
gather, its link is shared by design.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import Literal

from raybench.stats import median

LIMIT = 0.5  # of what the slowest healthy path carries
LEAST_SECONDS = 0.5  # in which a slow path had data on its way
_CLOCK_SECONDS = 0.004  # the kernel counts in ticks, 250 or more a second
_SHORT_ROUND_TRIP = 1e-4  # below which a round trip is the work of the two machines
_COMPARABLE = 0.25  # of what a path carries typically: one that carries less is not in the same use
_MOST_NAMED = 3  # one in so many, at most, or it is how the network is built
_LEAST_NODES = 3  # of two, both paths may be slow
_NODES_FOR_PATHS = 4  # one path, and one more for so many nodes

# Of a node that these name, its processes are slow, and its links need not be.
SLOW_PROCESSES = frozenset(
    {"contended-while-measured", "cpu-contention", "cpu-limit", "slow-rank", "straggler", "rank-stalled"}
)

Ends = tuple[str, str]
Direction = Literal["", "sends", "receives"]


@dataclass(frozen=True)
class CarriedPath:
    """What one path carried: bytes, and seconds with data on its way, in each part of a time."""

    ends: Ends  # source, destination
    parts: tuple[tuple[float, float], ...]
    round_trip_seconds: float = 0.0  # the least

    @property
    def carried_bytes(self) -> float:
        """In all parts."""
        return sum(carried for carried, _ in self.parts)

    @property
    def seconds(self) -> float:
        """In all parts."""
        return sum(seconds for _, seconds in self.parts)

    @cached_property
    def most(self) -> float:
        """Bytes per second at most: the upper median over the parts."""
        rates = sorted(carried / max(seconds - _CLOCK_SECONDS, _CLOCK_SECONDS) for carried, seconds in self._used)
        return rates[len(rates) // 2]

    @cached_property
    def least(self) -> float:
        """Bytes per second at least: the lower median over the parts."""
        rates = sorted(carried / (seconds + _CLOCK_SECONDS) for carried, seconds in self._used)
        return rates[(len(rates) - 1) // 2]

    @property
    def distance(self) -> float:
        """By how much a long way explains a low rate: messages that are short for it wait for their round trip."""
        return max(self.round_trip_seconds, _SHORT_ROUND_TRIP)

    @property
    def _used(self) -> Sequence[tuple[float, float]]:
        return [part for part in self.parts if part[0] > 0 or part[1] > 0]


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowPaths:
    """Slow paths of one node, or between two. Bytes per second; of the peers the median, at least that much.

    ``direction``: of a node of which only the paths from it, or to it, are slow.
    """

    nodes: tuple[str, ...]
    paths: tuple[Ends, ...]
    bytes_per_second: float
    peers_bytes_per_second: float
    peers: int
    direction: Direction = ""

    @property
    def share(self) -> float:
        """Of what its peers carry."""
        return self.bytes_per_second / self.peers_bytes_per_second

    @property
    def text(self) -> str:
        """``TCP carries 0.0024 GB/s to and from node3, at least 0.91 between the others``."""
        own, peers = (f"{one / 1e9:.2g}" for one in (self.bytes_per_second, self.peers_bytes_per_second))
        return f"TCP carries {own} GB/s {self._where}, and at least {peers} on the other {self._others} in use"

    @property
    def _where(self) -> str:
        if len(self.nodes) == 1:
            return f"{ {'': 'to and from', 'sends': 'from', 'receives': 'to'}[self.direction] } {self.nodes[0]}"
        if len(self.paths) == 1:
            return f"from {self.nodes[0]} to {self.nodes[1]}"
        return f"between {self.nodes[0]} and {self.nodes[1]}"

    @property
    def _others(self) -> str:
        return "path" if self.peers == 1 else f"{self.peers} paths"


@dataclass(frozen=True, slots=True, kw_only=True)
class PathJudgement:
    """What is slow, and why nothing could be told where that is so. ``undecided``: some are, and nobody is named.

    ``open_nodes``: those that stand out then, the slowest first. ``spread``: what the slowest path carries at most, of
    what the fastest carries at least.
    """

    slow: tuple[SlowPaths, ...] = ()
    why: str = ""
    undecided: bool = False
    open_nodes: tuple[str, ...] = ()
    spread: float = 1.0


def judge_paths(paths: Iterable[CarriedPath], nodes: Sequence[str], limit: float = LIMIT) -> PathJudgement:
    """The paths between the nodes of a run in one stretch of time. ``limit``: how wide the gap has to be."""
    used = _in_use(list(paths))
    if len(used) < 2:
        return PathJudgement(why="no bulk data on two paths or more")
    uneven = _uneven(used, nodes)
    if uneven:
        return PathJudgement(why=uneven)
    slow, healthy = _parted(used, limit)
    if any(one.seconds < LEAST_SECONDS for one in slow):
        return PathJudgement(why="paths differ, and had too little on their way to be compared")
    if not slow and len(nodes) < _LEAST_NODES:
        rate = sum(one.carried_bytes for one in used) / max(sum(one.seconds for one in used), _CLOCK_SECONDS)
        return PathJudgement(
            why=f"two nodes have no others to compare their paths with (TCP carries {rate / 1e9:.2g} GB/s)"
        )
    return _explained(slow, healthy, nodes) if slow else PathJudgement()


def _in_use(paths: Sequence[CarriedPath]) -> list[CarriedPath]:
    """Those that carry about as much as most: others are in another use."""
    known = [one for one in paths if one.carried_bytes > 0]
    if not known:
        return []
    typical = median([one.carried_bytes for one in known])
    return [one for one in known if one.carried_bytes >= _COMPARABLE * typical]


def _uneven(paths: Sequence[CarriedPath], nodes: Sequence[str]) -> str:
    """That nodes have more paths in use than others; empty where all have as many."""
    out, into = (Counter(one.ends[end] for one in paths) for end in (0, 1))
    counts = {(out[node], into[node]) for node in nodes}
    return "" if len(counts) == 1 else "not all nodes have as many paths in use"


def _parted(paths: Sequence[CarriedPath], limit: float) -> tuple[list[CarriedPath], list[CarriedPath]]:
    """Those below the widest gap, and those above it; all of them above where no gap is wide enough.

    A path below it that carries little at a time waits for late acknowledgements, and is not what the others wait for:
    where most had enough on their way, and are as far below it as well, they alone are slow.
    """
    order = sorted(paths, key=lambda one: one.most)
    fastest = list(accumulate((one.most for one in order), max))
    slowest = list(accumulate((one.least for one in reversed(order)), min))[::-1]
    fastest_near = list(accumulate((one.most * one.distance for one in order), max))
    slowest_far = list(accumulate((one.least * one.distance for one in reversed(order)), min))[::-1]
    gaps = (
        (max(fastest[cut - 1] / slowest[cut], fastest_near[cut - 1] / slowest_far[cut]), cut)
        for cut in range(1, len(order))
        if slowest[cut]
    )
    wide = [cut for _, cut in sorted((gap, cut) for gap, cut in gaps if gap < limit)]
    if not wide:
        return [], order
    busy = (cut for cut in wide if 2 * cut > wide[0] and all(one.seconds >= LEAST_SECONDS for one in order[:cut]))
    cut = next(busy, wide[0])
    return order[:cut], order[cut:]


_DIRECTIONS: Mapping[Direction, tuple[int, ...]] = {"": (0, 1), "sends": (0,), "receives": (1,)}


def _explained(slow: Sequence[CarriedPath], healthy: Sequence[CarriedPath], nodes: Sequence[str]) -> PathJudgement:
    """The nodes that explain them, and what is left, by pairs of nodes."""
    found, left = [], list(slow)
    for direction, places in _DIRECTIONS.items():
        named = [node for node in nodes if _is_slow(node, left, healthy, places, least=2 - (direction == ""))]
        for node in named:
            own = [one for one in left if any(one.ends[place] == node for place in places)]
            found.append(_described((node,), own, healthy, direction))
        left = [one for one in left if not any(one.ends[place] in named for place in places)]
    if len(found) > max(1, len(nodes) // _MOST_NAMED):
        why = f"{len(found)} of {len(nodes)} nodes differ from the rest: none is named"
        return _undecided({node for one in found for node in one.nodes}, why, slow, healthy)
    pairs: dict[frozenset[str], list[CarriedPath]] = {}
    for one in left:
        pairs.setdefault(frozenset(one.ends), []).append(one)
    if len(pairs) > max(1, len(nodes) // _NODES_FOR_PATHS):
        why = f"{len(pairs)} pairs of nodes are slow, and no node explains them"
        judgement = _undecided({node for ends in pairs for node in ends}, why, slow, healthy)
        return replace(judgement, slow=tuple(found))
    paths = (_described(own[0].ends, own, healthy, "") for own in pairs.values())
    return PathJudgement(slow=(*found, *paths))


def _undecided(
    nodes: AbstractSet[str], why: str, slow: Sequence[CarriedPath], healthy: Sequence[CarriedPath]
) -> PathJudgement:
    """Nobody is named. Of the nodes those with most of the slow paths come first, and of as many the slowest."""
    rates = {node: [one.most for one in slow if node in one.ends] for node in nodes}
    order = sorted(nodes, key=lambda node: (-len(rates[node]), max(rates[node]), node))
    return PathJudgement(why=why, undecided=True, open_nodes=tuple(order), spread=_spread(slow, healthy))


def _spread(slow: Sequence[CarriedPath], healthy: Sequence[CarriedPath]) -> float:
    return min(one.most for one in slow) / max(one.least for one in healthy)


def _is_slow(
    node: str, slow: Sequence[CarriedPath], healthy: Sequence[CarriedPath], places: Sequence[int], *, least: int
) -> bool:
    """Whether all its paths in these places, so many at least in each of them, are among the slow ones."""
    enough = all(sum(one.ends[place] == node for one in slow) >= least for place in places)
    return enough and not any(one.ends[place] == node for one in healthy for place in places)


def _described(
    nodes: tuple[str, ...], own: Sequence[CarriedPath], fast: Sequence[CarriedPath], direction: Direction
) -> SlowPaths:
    return SlowPaths(
        nodes=nodes,
        paths=tuple(one.ends for one in own),
        bytes_per_second=sum(one.carried_bytes for one in own) / sum(one.seconds for one in own),
        peers_bytes_per_second=median([one.least for one in fast]),
        peers=len(fast),
        direction=direction,
    )
