"""When each point was measured, from the moments at which its ranks said what they had done. Pure bookkeeping."""

from dataclasses import dataclass, field

from raybench.documents.run.point_time import PointTime

_Key = tuple[int, int | None, int | None] | str  # message bytes, source and destination rank, or a label


@dataclass(kw_only=True)
class PointTimes:
    """Of all benchmarks and launches of a run. Seconds are since the run's start."""

    _since: dict[tuple[int, int], float] = field(default_factory=dict)  # a rank's last word, by launch and rank
    _spans: dict[int, dict[tuple[int, _Key], tuple[float, float]]] = field(default_factory=dict)
    _steps: dict[tuple[int, int, _Key], float] = field(default_factory=dict)

    def moved_on(self, launch: int, rank: int, seconds: float) -> None:
        """A rank turns to what comes next."""
        self._since[launch, rank] = seconds

    def measured(self, launch: int, benchmark: int, rank: int, key: _Key, seconds: float) -> None:
        """A rank has measured a point: it did so since what it said last."""
        spans = self._spans.setdefault(benchmark, {})
        since = self._since.get((launch, rank), seconds)
        begin, end = spans.get((launch, key), (since, seconds))
        spans[launch, key] = min(begin, since), max(end, seconds)
        self._since[launch, rank] = seconds

    def steps_began(self, launch: int, benchmark: int, key: _Key, seconds: float) -> None:
        """The timed steps of a point began then or before: it is told late, never early."""
        place = launch, benchmark, key
        self._steps[place] = min(self._steps.get(place, seconds), seconds)

    def of(self, benchmark: int) -> tuple[PointTime, ...]:
        """Those of one benchmark, in the order in which they began."""
        spans = self._spans.get(benchmark, {})
        ordered = sorted(spans.items(), key=lambda item: (item[1], item[0][0]))
        return tuple(self._time(benchmark, launch, key, *span) for (launch, key), span in ordered)

    def _time(self, benchmark: int, launch: int, key: _Key, begin: float, end: float) -> PointTime:
        size, source, destination = (None, None, None) if isinstance(key, str) else key
        steps = self._steps.get((launch, benchmark, key))
        return PointTime(
            launch=launch,
            begin_seconds=round(max(begin, 0.0), 3),
            end_seconds=round(max(end, 0.0), 3),
            message_bytes=size,
            source_rank=source,
            destination_rank=destination,
            label=key if isinstance(key, str) else None,
            steps_begin_seconds=None if steps is None else round(max(steps, 0.0), 3),
        )
