"""Runs of a folder, each kept as what a history needs of it, and the history of all. Pure.

A run is a page of documents, of which the level of each figure and three tables of text are kept; equal tables, which
most runs have, are kept once. So a thousand runs take some megabytes.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from raybench.comparison.differing import differing
from raybench.comparison.judged_history import PastRun, Table, judged_history, missing_since
from raybench.comparison.judging import direction_of
from raybench.comparison.over_time.answers import Answers, answers_of
from raybench.comparison.renamed import together
from raybench.comparison.side import OF_THE_WHOLE, Better, FigureKey, Side
from raybench.comparison.trend import LEAST_RUNS, Step, trend_of
from raybench.comparison.words import worst_word
from raybench.documents.comparison.history import ChangePoint, History, HistoryRun, HistorySeries, OmittedRun

_MEASURED = ("suite", "workload")  # settings of a run and of a study that say what it measures


@dataclass(slots=True)
class _Series:
    unit: str
    is_better: Better
    values: list[tuple[float, str, float]] = field(default_factory=list)  # began at, path, level


@dataclass(slots=True)
class Past:
    """Runs, in whatever order they are read."""

    runs: list[PastRun] = field(default_factory=list)
    omitted: list[OmittedRun] = field(default_factory=list)
    copies: list[OmittedRun] = field(default_factory=list)
    _seen: dict[int, str] = field(default_factory=dict)
    _series: dict[tuple[str, FigureKey], _Series] = field(default_factory=dict)
    _tables: dict[tuple[tuple[str, str], ...], Table] = field(default_factory=dict)
    _answers: dict[Answers, Answers] = field(default_factory=dict)

    def take(self, run: HistoryRun, side: Side) -> None:
        """A run with its figures, each of one run. One that is a copy of another counts once.

        One that does not say when it began has no place among the others, and is omitted.
        """
        began = began_at(run.started_at)
        if began is None:
            when = (
                f"began at {run.started_at[:40]!r}, which is not a time"
                if run.started_at
                else "does not say when it began"
            )
            self.omitted.append(OmittedRun(path=run.path, reason=f"it {when}: its place among the others is not known"))
            return
        first = self._seen.setdefault(hash(_content(began, side)), run.path)
        if first != run.path:
            self.copies.append(OmittedRun(path=run.path, reason=f"it is the same result as {first}"))
            return
        words = [word for name, word in side.outcomes.items() if name in OF_THE_WHOLE]
        answers = answers_of(side, worst_word(words or ["unknown"]))
        self.runs.append(
            PastRun(
                run=run,
                began=began,
                machine=self._once(side.machine),
                configuration=self._once(side.configuration),
                environment=self._once(side.environment),
                sort=(
                    side.kind,
                    next((side.configuration[name] for name in _MEASURED if name in side.configuration), ""),
                ),
                answers=self._answers.setdefault(answers, answers),
            )
        )
        machine = ", ".join(f"{name} {value}" for name, value in side.machine.items())
        for key, figure in side.figures.items():
            if not figure.problem and figure.run_levels:
                series = self._series.setdefault((machine, key), _Series(figure.unit, figure.is_better))
                if (series.unit, series.is_better) != (figure.unit, figure.is_better):
                    name = f"{machine}, in {figure.unit}"
                    series = self._series.setdefault((name, key), _Series(figure.unit, figure.is_better))
                series.values.append((began, run.path, figure.value))

    def _once(self, table: Table) -> Table:
        return self._tables.setdefault(tuple(table.items()), table)

    def history(self, folder: str) -> History:
        """The history of all runs that were taken."""
        runs = sorted(self.runs, key=lambda one: (one.began, one.run.path))
        place = {one.run.path: number for number, one in enumerate(runs)}
        found = self._joined()
        judged = sum(bool(one.is_better) and len(one.values) >= 2 * LEAST_RUNS for *_, one in found)
        series = tuple(_series_of(machine, key, one, runs, place, max(judged, 1)) for machine, key, one in found)
        conclusion = judged_history(series, runs, self.omitted, len(self.copies))
        return History(
            verdict=conclusion.verdict,
            verdict_reason=conclusion.reason,
            folder=folder,
            runs=tuple(one.run for one in runs),
            series=series,
            omitted=tuple(self.omitted),
            copies=tuple(self.copies),
        )

    def _joined(self) -> list[tuple[str, FigureKey, _Series]]:
        """The figures, those that another version measured with more parameters as one, named as the newest is."""
        found = []
        for group in together(
            {(machine, key): [path for _, path, _ in one.values] for (machine, key), one in self._series.items()}
        ):
            parts = {max(self._series[name].values)[:2]: name for name in group}
            (machine, key), first = parts[max(parts)], self._series[group[0]]
            values = [value for name in group for value in self._series[name].values]
            found.append((machine, key, _Series(first.unit, first.is_better, values)))
        return found


def began_at(text: str) -> float | None:
    """Seconds since 1970 of a time in ISO 8601, UTC where it names no zone; None where it is none."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def _content(began: float, side: Side) -> Hashable:
    """What two results have in common only where one is a copy of the other."""
    tables = (frozenset(table.items()) for table in (side.machine, side.outcomes, side.figures))
    return (side.kind, began, *tables)


def _series_of(
    machine: str, key: FigureKey, one: _Series, runs: Sequence[PastRun], place: Mapping[str, int], judged: int
) -> HistorySeries:
    values = sorted(one.values)
    places = tuple(place[path] for _, path, _ in values)
    levels = [value for *_, value in values]
    found = trend_of(levels, is_better=one.is_better, figures=judged)
    return HistorySeries(
        benchmark=key.benchmark,
        parameters=key.parameters,
        point=key.point,
        quantity=key.quantity,
        unit=one.unit,
        is_better=one.is_better,
        machine=machine,
        runs=places,
        values=tuple(levels),
        changes=tuple(_change(step, one, places, runs) for step in found.steps),
        since_best=_change(found.since_best, one, places, runs) if found.since_best else None,
        newest=_change(found.newest, one, places, runs) if found.newest else None,
        missing_since=missing_since(places, runs) if one.is_better else None,
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
