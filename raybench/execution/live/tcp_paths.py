"""Which TCP paths of a run carry less than the others now, by the last looks of all its agents.

The rule is that of the whole run (``peers.tcp_paths``), asked of a few seconds again and again, each time that all
agents have looked: a node or path has to be named twice in a row, and to be slow in the last second by itself, so for
three seconds in a row. What is told here is no finding: the rule over the whole run has the last word.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import pairwise

from diagnostics.agent.messages import Reading
from raybench.execution.live.warning import LiveWarning
from raybench.peers.tcp_paths import CarriedPath, SlowPaths, judge_paths

SOURCE = "tcp paths"
_RULE = "slow-tcp-paths"  # whose findings timeline/rules/tcp_paths.py makes
PARTS = 3  # of a window: the times between two readings
_LEAST_PARTS = 2
_FRESH_SECONDS = 5.0
_LEAST_APART_SECONDS = 0.5  # of two looks at the window
_LONGEST_ROUND_SECONDS = 2.0  # for which an agent that is late is waited for
_LIMIT = 0.25  # of what the slowest healthy path carries: of a few seconds half of it is no fault
_WINDOWS, _MISSED = 2, 4  # in a row in which it is named, and in which it is not any more

_Values = Mapping[str, tuple[float, float, float]]  # by node: bytes, seconds, the least round trip in microseconds


@dataclass(slots=True)
class _Named:
    slow: SlowPaths
    since: float
    windows: int = 1
    missed: int = 0
    is_told: bool = False


@dataclass(kw_only=True)
class TcpPathWatch:
    """The paths between the nodes of one run. ``nodes``: by machine; ``addresses``: the node that has each.

    ``started``: the run's start, on the clock of what it is given.
    """

    nodes: Mapping[str, str]
    addresses: Mapping[str, str]
    ranks: Mapping[str, tuple[int, ...]]
    started: float
    _readings: dict[str, deque[tuple[float, _Values]]] = field(default_factory=dict)  # by node: when heard
    _judged: float = float("-inf")
    _looked: set[str] = field(default_factory=set)  # whose agents have, since then
    _named: dict[tuple[str, ...], _Named] = field(default_factory=dict)

    def take(
        self, machine: str, reading: Reading, now: float, busy: AbstractSet[str] = frozenset()
    ) -> list[LiveWarning]:
        """An agent has looked. ``busy``: nodes whose processes are slow. Returns what is to be told."""
        node = self.nodes.get(machine)
        if node is None or reading.source != SOURCE:
            return []
        values = self._of_nodes(node, reading.values)
        self._readings.setdefault(node, deque(maxlen=PARTS + 1)).append((now, values))
        self._looked.add(node)
        if not self._is_due(now) or not self._is_whole(now):
            return []
        self._judged = now
        self._looked.clear()
        judgement = judge_paths(self._paths(), list(self.nodes.values()), _LIMIT)
        if judgement.why and not judgement.slow:
            return []
        accusable = busy if len(busy) < len(self.nodes) else frozenset()
        slow = [one for one in judgement.slow if accusable.isdisjoint(one.nodes) and self._is_slow_now(one)]
        return list(self._told(slow, now))

    def _is_due(self, now: float) -> bool:
        """Whether all agents have looked since the last time, or one is late: else some paths are a look behind."""
        apart = now - self._judged
        return apart >= _LONGEST_ROUND_SECONDS or (
            apart >= _LEAST_APART_SECONDS and self._looked >= set(self.nodes.values())
        )

    def _is_slow_now(self, one: SlowPaths) -> bool:
        """Whether its paths are slow in the time between the last two looks, too."""
        last = (self._carried(*ends, list(self._readings[ends[0]])[-2:]) for ends in one.paths)
        return all(path is not None and path.most < _LIMIT * one.peers_bytes_per_second for path in last)

    def _of_nodes(self, node: str, values: Mapping[str, float]) -> _Values:
        found: dict[str, tuple[float, float, float]] = {}
        for address, peer in self.addresses.items():
            carried = values.get(f"tcp/{address}/carried_bytes")
            seconds = values.get(f"tcp/{address}/carrying_seconds")
            if peer == node or carried is None or seconds is None:
                continue
            trip = values.get(f"tcp/{address}/least_round_trip_microseconds", 0.0)
            before = found.get(peer, (0.0, 0.0, trip))
            found[peer] = before[0] + carried, before[1] + seconds, min(before[2], trip)
        return found

    def _is_whole(self, now: float) -> bool:
        """Whether the agents of all nodes have looked often enough, and lately."""
        looks = [self._readings.get(node) for node in self.nodes.values()]
        return all(one is not None and len(one) > _LEAST_PARTS and now - one[-1][0] <= _FRESH_SECONDS for one in looks)

    def _paths(self) -> Iterator[CarriedPath]:
        for node, looks in self._readings.items():
            for peer in looks[-1][1]:
                path = self._carried(node, peer, list(looks))
                if path is not None and len(path.parts) >= _LEAST_PARTS:
                    yield path

    @staticmethod
    def _carried(node: str, peer: str, looks: Sequence[tuple[float, _Values]]) -> CarriedPath | None:
        """What was carried in each part; None where nothing was in any."""
        known = [values[peer] for _, values in looks if peer in values]
        parts = tuple(
            (max(after[0] - before[0], 0.0), max(after[1] - before[1], 0.0)) for before, after in pairwise(known)
        )
        if not any(carried or seconds for carried, seconds in parts):
            return None
        return CarriedPath(ends=(node, peer), parts=parts, round_trip_seconds=known[-1][2] / 1e6)

    def _told(self, slow: Iterable[SlowPaths], now: float) -> Iterator[LiveWarning]:
        found = {one.nodes: one for one in slow}
        for nodes, one in found.items():
            named = self._named.get(nodes)
            if named is None:
                self._named[nodes] = named = self._first_named(one)
            else:
                named.windows, named.missed = named.windows + 1, 0
            if named.windows >= _WINDOWS and not named.is_told:
                named.is_told = True
                yield self._warning(one, named.since, now)
        for nodes, named in list(self._named.items()):
            if nodes in found:
                continue
            named.missed += 1
            if not named.is_told or named.missed >= _MISSED:
                del self._named[nodes]
                if named.is_told:
                    yield self._warning(named.slow, named.since, now, over=True)

    def _first_named(self, one: SlowPaths) -> _Named:
        """A node of which one path alone was named before has been slow since then: all its paths became so at once."""
        if len(one.nodes) == 1:
            for nodes, named in self._named.items():
                if one.nodes[0] in nodes and not named.is_told:
                    return _Named(slow=one, since=named.since, windows=named.windows + 1)
        return _Named(slow=one, since=min(looks[0][0] for looks in self._readings.values()))

    def _warning(self, one: SlowPaths, since: float, now: float, *, over: bool = False) -> LiveWarning:
        who = one.nodes[0] if len(one.nodes) == 1 else f"the path between {' and '.join(one.nodes)}"
        at = since - self.started
        text = f"{who}: {one.text}, since {at:.0f} s after the run's start"
        return LiveWarning(
            at_seconds=now - self.started,
            since_seconds=at,
            rule=_RULE,
            severity="warning",
            text=f"{who} carries as much by TCP as the others again" if over else text,
            ranks=tuple(rank for node in one.nodes for rank in self.ranks.get(node, ())),
            hosts=one.nodes,
            over=over,
            of="agent",
        )
