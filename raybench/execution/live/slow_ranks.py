"""Which ranks are slower than the others now, by their own work over the last points.

The rule is that of the whole run (``peers.own_speed``): in a collective all wait for the slowest, so what counts is the
work that each rank does alone before it enters. It is asked of a window of the last points again and again, so a rank
has to be named twice in a row, or to be much slower. What is told here is no finding: the rule over the whole run has
the last word.
"""

from collections import deque
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from raybench.execution.live.warning import LiveWarning
from raybench.execution.placement import PlacementPlan
from raybench.execution.watcher import Watcher
from raybench.peers.own_speed import SlowRank, judge_speed, slow_rank_text

_RULE = "slow-rank"  # whose findings peers/findings.py makes
SAMPLES, LEAST_POINTS = (10, 20, 40), 2  # of a window: few show a steady fault soon, more a fitful one at all
MOST_POINTS = 60  # that are kept of a rank, where another tells none
AT_ONCE = 0.6  # a share that is below this with its whole interval is told by one window
_WINDOWS = 2  # in a row in which a rank is named, or is not any more


@dataclass(frozen=True, slots=True, kw_only=True)
class Slow:
    """A rank that is slow by all windows since a moment; ``over`` where it is not any more."""

    found: SlowRank
    since_seconds: float
    over: bool = False


@dataclass(slots=True)
class _Told:
    found: SlowRank
    since: float
    missed: int = 0  # windows since it was last named


@dataclass(kw_only=True)
class SlowRanks:
    """The ranks of one launch. Times are of one monotonic clock."""

    world_size: int
    emulated: bool
    _points: dict[int, deque[tuple[float, tuple[float, ...]]]] = field(default_factory=dict)  # by rank: when, samples
    _counts: dict[int, int] = field(default_factory=dict)  # points of each rank in all
    _judged: int = 0  # points of all ranks by then
    _named: dict[int, tuple[int, float]] = field(default_factory=dict)  # by rank: windows in a row, and since when
    _told: dict[int, _Told] = field(default_factory=dict)

    def take(self, rank: int, seconds: Sequence[float], now: float) -> list[Slow]:
        """A rank has timed its own work beside a point. Returns what is to be told."""
        if not seconds:
            return []
        self._points.setdefault(rank, deque(maxlen=MOST_POINTS)).append((now, tuple(seconds)))
        self._counts[rank] = self._counts.get(rank, 0) + 1
        complete = min(self._counts.values())
        if len(self._counts) < self.world_size or complete == self._judged:
            return []
        self._judged = complete
        return self._judge(list(self._windows(complete)))

    def _windows(self, complete: int) -> Iterator[tuple[dict[int, list[float]], float]]:
        """The last samples that all ranks have, few and more of them, and since when they come."""
        last = {rank: self._until(rank, complete) for rank in self._points}
        wanted = list(SAMPLES)
        for length in range(LEAST_POINTS, min(map(len, last.values())) + 1):
            rows = {rank: points[-length:] for rank, points in last.items()}
            count = min(sum(len(seconds) for _, seconds in row) for row in rows.values())
            if wanted and count >= wanted[0]:
                wanted = [one for one in wanted if one > count]
                samples = {rank: [one for _, seconds in row for one in seconds] for rank, row in rows.items()}
                yield samples, max(points[max(-length - 1, -len(points))][0] for points in last.values())

    def _until(self, rank: int, complete: int) -> list[tuple[float, tuple[float, ...]]]:
        """The points of a rank but for those that another has not come to; none where it is further than is kept."""
        points = list(self._points[rank])
        return points[: max(len(points) - (self._counts[rank] - complete), 0)]

    def _judge(self, windows: Sequence[tuple[Mapping[int, Sequence[float]], float]]) -> list[Slow]:
        found: dict[int, tuple[SlowRank, float]] = {}
        for samples, began in windows:
            for one in judge_speed(samples, emulated=self.emulated).slow:
                if one.severity == "critical":  # what is moderate is left to the whole run, which is asked once
                    found.setdefault(one.rank, (one, began))
        before = self._named
        self._named = {
            rank: (before[rank][0] + 1, before[rank][1]) if rank in before else (1, began)
            for rank, (_, began) in found.items()
        }
        return [*self._begun({rank: one for rank, (one, _) in found.items()}), *self._ended(found)]

    def _begun(self, found: Mapping[int, SlowRank]) -> list[Slow]:
        new = []
        for rank, one in found.items():
            windows, since = self._named[rank]
            if rank in self._told:
                self._told[rank].missed = 0
            elif windows >= _WINDOWS or one.share.high < AT_ONCE:
                self._told[rank] = _Told(one, since)
                new.append(Slow(found=one, since_seconds=since))
        return new

    def _ended(self, found: Container[int]) -> list[Slow]:
        over = []
        for rank, told in list(self._told.items()):
            told.missed += rank not in found
            if told.missed >= _WINDOWS:
                del self._told[rank]
                over.append(Slow(found=told.found, since_seconds=told.since, over=True))
        return over


@dataclass(kw_only=True)
class SlowRankWatch:
    """Tells of the slow ranks of one launch. ``started``: the run's start, on the clock of what it is given."""

    plan: PlacementPlan
    watcher: Watcher
    started: float
    emulated: bool
    _ranks: SlowRanks = field(init=False)

    def __post_init__(self) -> None:
        self._ranks = SlowRanks(world_size=self.plan.world_size, emulated=self.emulated)

    def take(self, rank: int, seconds: Sequence[float], now: float) -> None:
        """A rank has timed its own work beside a point."""
        for one in self._ranks.take(rank, seconds, now):
            self.watcher.warned(self._warning(one, now))

    def _warning(self, one: Slow, now: float) -> LiveWarning:
        rank, since = one.found.rank, one.since_seconds - self.started
        node = self.plan.node_of(rank).name
        label = " (emulated)" if self.emulated else ""
        text = f"{slow_rank_text(one.found, node)}{label}, since {since:.0f} s after the run's start"
        return LiveWarning(
            at_seconds=now - self.started,
            since_seconds=since,
            rule=_RULE,
            severity="warning",
            text=f"rank {rank} ({node}) is no longer slower than the others" if one.over else text,
            ranks=(rank,),
            hosts=(node,),
            over=one.over,
        )
