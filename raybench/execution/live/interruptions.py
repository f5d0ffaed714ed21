"""Which ranks are stopped again and again and go on in between, by the looks that the marks of all ranks count. Pure.

Most of a step of a small model is a collective, so most stops of a rank fall into one, where all ranks wait alike: its
own work shows a stop in one step of twenty, and it takes many seconds until that is no noise (``slow_ranks``,
``training.live.stragglers``). The state of its process shows each. A healthy rank is never stopped, however crowded
its machine.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from raybench.benchmarks.events import RankMark

LEAST_STOPS = 3  # a debugger that attaches stops a process once, whoever reads its stack now and then does so seldom
LEAST_SHARE = 0.05  # of the looks
_MOSTLY, _LEAST_LONG_STOPS = 0.5, 2  # of the looks, where one look in between is all that shows two stops apart
_WINDOW_SECONDS = 5.0
_CALM_SECONDS = 4.0  # without a stop, until it is told that it is over
_RECENT_MARKS = 3  # over which it has moved, or it stands still: see stalls.py
_NOT_JUDGED = ("not started", "joining the process group", "finished")


@dataclass(frozen=True, slots=True, kw_only=True)
class Interrupted:
    """A rank that was stopped in ``stopped`` of ``looks`` since a moment; ``over`` where it is not any more."""

    rank: int
    since: float
    looks: int
    stopped: int
    over: bool = False


@dataclass(slots=True)
class _Told:
    since: float
    looks: int  # by then
    stopped: int
    last: float  # when a stop was last seen
    stops: int


@dataclass(kw_only=True)
class Interruptions:
    """The ranks of one launch. Times are of one monotonic clock."""

    _marks: dict[int, deque[tuple[float, RankMark]]] = field(default_factory=dict)  # by rank: when heard
    _told: dict[int, _Told] = field(default_factory=dict)

    def take(self, marks: Iterable[RankMark], now: float) -> Iterator[Interrupted]:
        """The ranks of a node, as they are now. Gives what is to be told."""
        for mark in marks:
            known = self._marks.setdefault(mark.rank, deque())
            if known and mark.looks < known[-1][1].looks:  # another process
                known.clear()
            known.append((now, mark))
            while now - known[0][0] > _WINDOW_SECONDS:
                known.popleft()
            told = self._told.get(mark.rank)
            yield from self._begun(known, now) if told is None else self._ended(told, mark, now)

    def _begun(self, known: deque[tuple[float, RankMark]], now: float) -> Iterator[Interrupted]:
        (_, first), (_, last) = known[0], known[-1]
        stops, looks = last.stops - first.stops, last.looks - first.looks
        stopped = last.stopped_looks - first.stopped_looks
        goes_on = last.moves != known[-min(len(known), _RECENT_MARKS)][1].moves
        goes_on = goes_on and last.position.phase not in _NOT_JUDGED
        least = _LEAST_LONG_STOPS if stopped >= _MOSTLY * looks else LEAST_STOPS
        if stops < least or stopped < LEAST_SHARE * looks or not goes_on:
            return
        since, before = next(
            (at, one)
            for (at, one), (_, after) in zip(known, list(known)[1:], strict=False)
            if after.stops > first.stops
        )
        self._told[last.rank] = _Told(since, before.looks, before.stopped_looks, now, last.stops)
        yield Interrupted(
            rank=last.rank,
            since=since,
            looks=last.looks - before.looks,
            stopped=last.stopped_looks - before.stopped_looks,
        )

    def _ended(self, told: _Told, mark: RankMark, now: float) -> Iterator[Interrupted]:
        if mark.stops != told.stops:
            told.last, told.stops = now, mark.stops
        if now - told.last >= _CALM_SECONDS and mark.state not in "Tt":
            yield self._over(mark, told)
            del self._told[mark.rank]
            self._marks[mark.rank].clear()

    def left(self) -> list[Interrupted]:
        """Those that are not over, as they are at the end."""
        return [self._over(self._marks[rank][-1][1], told) for rank, told in self._told.items()]

    @staticmethod
    def _over(mark: RankMark, told: _Told) -> Interrupted:
        looks, stopped = mark.looks - told.looks, mark.stopped_looks - told.stopped
        return Interrupted(rank=mark.rank, since=told.since, looks=looks, stopped=stopped, over=True)
