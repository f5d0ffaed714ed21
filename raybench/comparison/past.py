"""Runs of a folder, each kept as what a history needs of it, and the history of all. Pure.

A run is a page of documents, of which the level of each figure and three tables of text are kept; equal tables, which
most runs have, are kept once. So a thousand runs take some megabytes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from raybench.comparison.differing import differing
from raybench.comparison.judging import direction_of
from raybench.comparison.side import Better, FigureKey, Side
from raybench.comparison.trend import LEAST_RUNS, Step, steps_of
from raybench.documents.comparison.history import ChangePoint, History, HistoryRun, HistorySeries, OmittedRun
from raybench.verdicts import Conclusion

Table = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRun:
    """A run: its place among the runs of its folder, and its tables."""

    run: HistoryRun
    machine: Table
    configuration: Table
    environment: Table

    def as_side(self) -> Side:
        """Its tables alone."""
        return Side(
            name=self.run.path,
            kind="run",
            machine=self.machine,
            configuration=self.configuration,
            environment=self.environment,
        )


@dataclass(slots=True)
class _Series:
    unit: str
    is_better: Better
    values: list[tuple[str, str, float]] = field(default_factory=list)  # began at, path, level


@dataclass(slots=True)
class Past:
    """Runs, in whatever order they are read."""

    runs: list[PastRun] = field(default_factory=list)
    omitted: list[OmittedRun] = field(default_factory=list)
    _series: dict[tuple[str, FigureKey], _Series] = field(default_factory=dict)
    _tables: dict[tuple[tuple[str, str], ...], Table] = field(default_factory=dict)

    def take(self, run: HistoryRun, side: Side) -> None:
        """A run with its figures, each of one run."""
        self.runs.append(
            PastRun(
                run=run,
                machine=self._once(side.machine),
                configuration=self._once(side.configuration),
                environment=self._once(side.environment),
            )
        )
        machine = ", ".join(f"{name} {value}" for name, value in side.machine.items())
        for key, figure in side.figures.items():
            if not figure.problem and figure.run_levels:
                series = self._series.setdefault((machine, key), _Series(figure.unit, figure.is_better))
                series.values.append((run.started_at, run.path, figure.value))

    def _once(self, table: Table) -> Table:
        return self._tables.setdefault(tuple(table.items()), table)

    def history(self, folder: str) -> History:
        """The history of all runs that were taken."""
        runs = sorted(self.runs, key=lambda one: (one.run.started_at, one.run.path))
        place = {one.run.path: number for number, one in enumerate(runs)}
        judged = sum(bool(one.is_better) and len(one.values) >= 2 * LEAST_RUNS for one in self._series.values())
        series = tuple(
            _series_of(machine, key, one, runs, place, max(judged, 1)) for (machine, key), one in self._series.items()
        )
        conclusion = judged_history(series, [one.run for one in runs])
        return History(
            verdict=conclusion.verdict,
            verdict_reason=conclusion.reason,
            folder=folder,
            runs=tuple(one.run for one in runs),
            series=series,
            omitted=tuple(self.omitted),
        )


def _series_of(
    machine: str, key: FigureKey, one: _Series, runs: Sequence[PastRun], place: Mapping[str, int], judged: int
) -> HistorySeries:
    values = sorted(one.values)
    places = tuple(place[path] for _, path, _ in values)
    found = steps_of([value for *_, value in values], figures=judged) if one.is_better else ()
    return HistorySeries(
        benchmark=key.benchmark,
        parameters=key.parameters,
        point=key.point,
        quantity=key.quantity,
        unit=one.unit,
        is_better=one.is_better,
        machine=machine,
        runs=places,
        values=tuple(value for *_, value in values),
        changes=tuple(_change(step, one, places, runs) for step in found),
    )


def _change(step: Step, one: _Series, places: Sequence[int], runs: Sequence[PastRun]) -> ChangePoint:
    before, now = (runs[places[step.index + offset]].as_side() for offset in (-1, 0))
    return ChangePoint(
        run=places[step.index],
        before=step.before,
        after=step.after,
        ratio=step.ratio,
        low=step.low,
        high=step.high,
        direction=direction_of(one.unit, is_more=step.ratio > 1),
        is_worse=(step.ratio > 1) == (one.is_better == "lower"),
        differences=tuple(differing([before, now])),
    )


def judged_history(series: Sequence[HistorySeries], runs: Sequence[HistoryRun]) -> Conclusion:
    """By the last change of each figure; where no figure has runs enough for a change, nothing is known."""
    judged = [one for one in series if one.is_better and len(one.values) >= 2 * LEAST_RUNS]
    if not judged:
        most = max((len(one.values) for one in series), default=0)
        reason = f"{most} runs of one figure at most: a change shows from {2 * LEAST_RUNS} on"
        return Conclusion(verdict="unknown", reason=reason)
    last = [(one, one.changes[-1]) for one in judged if one.changes]
    for wanted, verdict in ((True, "warning"), (False, "ok")):
        found = [(one, change) for one, change in last if change.is_worse is wanted]
        if found:
            one, change = max(found, key=lambda pair: (pair[1].run, abs(pair[1].ratio - 1)))
            more = f" (and {len(found) - 1} more figure{'s' * (len(found) > 2)})" if len(found) > 1 else ""
            reason = (
                f"{one.label} {changed_text(change)} since {runs[change.run].started_at}, run {runs[change.run].run_id}"
            )
            return Conclusion(verdict="warning" if verdict == "warning" else "ok", reason=reason + more)
    count = max(len(one.values) for one in judged)
    plural = "s" * (len(judged) != 1)
    return Conclusion(verdict="ok", reason=f"no change in {len(judged)} figure{plural} over {count} runs")


def changed_text(change: ChangePoint) -> str:
    """``1.08x slower``, turned so that the factor is above 1."""
    factor = max(change.ratio, 1 / change.ratio)
    return f"{factor:.3f}x {change.direction}" if factor < 1.1 else f"{factor:.2f}x {change.direction}"
