"""Which ranks stand still while the run goes on, by the marks of all ranks, one a second. Pure.

A process that somebody stopped is told by its state alone. Any other rank is looked at closely, once, when all ranks
have stood still for longer than the run's own pace explains; `hang.py` then says who of them the others wait for.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from raybench.benchmarks.events import RankMark
from raybench.benchmarks.rank.progress import Position
from raybench.execution.node_actors.messages import RankPosition

STOPPED_SECONDS = 1.5  # two marks: a debugger that attaches stops a process for a moment
_LEAST_STILL_SECONDS = 1.8
_PATIENCE = 1.5  # times as long as a step took before, as for the limit: see hang.py
_SLACK_SECONDS = 0.5
_FRESH_SECONDS = 3.0
_SEEN_SECONDS = 0.5  # between the first mark that shows a rank where it is and the last one: there is a second one
_TIMED = ("timing", "verifying", "measuring overlap", "timing its own work")
_MESSAGES = ("collective", "p2p")  # which do nothing but exchange messages: nobody has a reason to sleep
_OF_MESSAGES = ("preparing buffers", "warming up", "waiting for the others")
_NO_PACE = ("not started", "joining the process group", "finished")
_AGAIN = 2.0  # times as long until the next look, where one has shown nobody


@dataclass(slots=True, kw_only=True)
class _Known:
    """A rank: its last mark, when that came, and since when it has not moved."""

    mark: RankMark
    heard: float
    since: float
    stopped_since: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """A rank that was told to stand still moves again, after so many seconds."""

    rank: int
    seconds: float


@dataclass(kw_only=True)
class Stalls:
    """The ranks of one launch. Times are of one monotonic clock."""

    world_size: int
    _known: dict[int, _Known] = field(default_factory=dict)
    _told: dict[int, tuple[float, int]] = field(default_factory=dict)  # by rank: since when, and at which move
    _looked: float = 0.0  # how long they had stood still at the last look

    def take(self, marks: Iterable[RankMark], now: float) -> list[Moved]:
        """The ranks of a node, as they are now. Returns those that move again."""
        moved = []
        for mark in marks:
            self._keep(mark, now)
            told = self._told.get(mark.rank)
            if told is not None and mark.moves != told[1] and mark.state not in "Tt":
                del self._told[mark.rank]
                moved.append(Moved(rank=mark.rank, seconds=now - told[0]))
        return moved

    def _keep(self, mark: RankMark, now: float) -> None:
        before = self._known.get(mark.rank)
        moves = before is None or before.mark.moves != mark.moves
        if moves:
            self._looked = 0.0
        stopped = mark.state in "Tt"
        known = _Known(mark=mark, heard=now, since=now if before is None or moves else before.since)
        if stopped:
            went_on = before is None or before.stopped_since is None or moves  # it ran in between, if only for a moment
            known.stopped_since = now if went_on or before is None else before.stopped_since
        self._known[mark.rank] = known

    def forgive(self, seconds: float) -> None:
        """It was us who were away for so long: nobody has stood still in that time, as far as is known."""
        for one in self._known.values():
            one.heard += seconds
            one.since += seconds
            one.stopped_since = None if one.stopped_since is None else one.stopped_since + seconds

    def stopped(self, now: float) -> list[tuple[int, float]]:
        """Ranks whose process somebody has stopped, each with since when; each is told once."""
        found = [
            (rank, one.stopped_since)
            for rank, one in sorted(self._known.items())
            if one.stopped_since is not None
            and one.heard > one.stopped_since  # by two marks, however late the second comes on a crowded machine
            and now - one.stopped_since >= STOPPED_SECONDS
            and rank not in self._told
            and one.mark.position.phase != "finished"
        ]
        for rank, since in found:
            self.tell(rank, since)
        return found

    def tell(self, rank: int, since: float) -> None:
        """The rank has been told to stand still."""
        self._told[rank] = since, self._known[rank].mark.moves

    def since(self, rank: int) -> float:
        """When the rank was first seen where it is."""
        return self._known[rank].since

    def marks(self) -> dict[int, RankMark]:
        """The last mark of each rank."""
        return {rank: one.mark for rank, one in self._known.items()}

    def calls_for_a_look(self, now: float) -> bool:
        """Whether all ranks have stood still for longer than their pace explains, and somebody waits in an operation.

        Says so once, and again after twice the time. What is stopped explains the rest.
        """
        known = list(self._known.values())
        if len(known) < self.world_size or self._told or any(one.mark.position.phase in _NO_PACE for one in known):
            return False
        if any(now - one.heard > _FRESH_SECONDS or one.stopped_since is not None for one in known):
            return False
        if any(one.heard - one.since < _SEEN_SECONDS for one in known):
            return False  # a node that has said nothing since may be silent itself: a look would wait for its rank host
        if not any(one.mark.operation is not None and one.mark.operation.inside for one in known):
            return False
        still = min(now - one.since for one in known)
        usual = max(one.mark.usual_seconds for one in known)
        if still < max(_LEAST_STILL_SECONDS, _PATIENCE * usual + _SLACK_SECONDS, _AGAIN * self._looked):
            return False
        self._looked = still
        return True


def has_pace(position: Position | RankPosition, kind: str) -> bool:
    """Whether a rank of a benchmark of that kind has no reason to take longer there than it did before.

    Such as its first batch, what is compiled in the first step, or its storage.
    """
    if position.phase in _TIMED:
        return kind != "checkpoint"
    if kind in _MESSAGES:  # once it has measured a point: before, a device and a communicator are set up
        return position.phase in _OF_MESSAGES and position.benchmark + position.point > 0
    return position.phase == "warming up" and position.iteration > 0
