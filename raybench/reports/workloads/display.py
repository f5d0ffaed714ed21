"""What it takes to show a kind of workload: one value of ``Display`` for each, in the table of ``table.py``. Pure.

A new kind whose points are named figures (documents/run/figures.py) is shown without one.
"""

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from raybench.documents.run.benchmark import BenchmarkResult
from raybench.documents.run.cluster import ClusterInfo
from raybench.documents.run.result import RunResult
from raybench.documents.run.workload import WorkloadPoint
from raybench.reports.model import Section
from raybench.reports.text import printable

if TYPE_CHECKING:
    from raybench.reports.plots.svg import Plot

Json = dict[str, Any]
Row = tuple[str, str, str]  # what, its figures, and what is to be known of them
PointType = TypeVar("PointType", bound=WorkloadPoint)
_SECONDS = ("median", "mean", "min", "max", "p99", "stddev")


@dataclass(frozen=True, slots=True, kw_only=True)
class Display:
    """How the benchmarks of one kind are shown, all of them at once, in their order.

    - ``sections(benchmarks)``: its tables. ``rows(benchmarks, result)``: its lines of the one screen.
    - ``part``: its name in summary.json, the kind's where None; ``summary(benchmarks, cluster)``: an object a label.
    - ``columns``: those that it adds to the CSV; ``csv(benchmark, cluster)``: rows by column, without the run's own.
    - ``advice(benchmarks)``: what to change, below the screen, the first benchmarks' first.
    - ``plots(benchmarks, emulated)``: needs matplotlib, in its style; ``plots_title`` stands above them.
    """

    sections: Callable[[Sequence[BenchmarkResult]], Iterable[Section]]
    rows: Callable[[Sequence[BenchmarkResult], RunResult], Iterable[Row]]
    summary: Callable[[Sequence[BenchmarkResult], ClusterInfo], Mapping[str, Json]]
    csv: Callable[[BenchmarkResult, ClusterInfo], Iterable[Json]]
    plots: Callable[[Sequence[BenchmarkResult], bool], Iterable["Plot"]]
    plots_title: str = "Plots"
    part: str | None = None
    columns: tuple[str, ...] = ()
    advice: Callable[[Sequence[BenchmarkResult]], Iterable[str]] = lambda _: ()


def display_of_points(
    point: type[PointType],
    *,
    sections: Callable[[Sequence[BenchmarkResult]], Iterable[Section]],
    row: Callable[[PointType], Row],
    summary: Callable[[PointType], Json],
    columns: tuple[str, ...],
    figures: Callable[[PointType], Json] | None = None,
    plots: str | None = None,
    advice: Callable[[Sequence[BenchmarkResult]], Iterable[str]] = lambda _: (),
) -> Display:
    """The display of a kind whose benchmarks have points of one type, each with a label.

    ``row`` is of a point that has not failed. ``figures`` are those of ``columns``, which are keys of the point's JSON
    where it is None. ``plots`` is the ``module:function`` that draws points, imported where there is matplotlib.
    """

    def rows(benchmarks: Sequence[BenchmarkResult], _: RunResult) -> Iterator[Row]:
        for one in points_of(benchmarks, point):
            failed = one.failed
            yield row(one) if failed is None else (printable(one.label), "failed", printable(failed))

    def summaries(benchmarks: Sequence[BenchmarkResult], _: ClusterInfo) -> dict[str, Json]:
        return {one.label: summary(one) for one in points_of(benchmarks, point)}

    def csv(benchmark: BenchmarkResult, _: ClusterInfo) -> Iterator[Json]:
        for one in points_of([benchmark], point):
            content = one.to_json() if one.failed is None else {}
            yield _in_common(one) | ({name: content.get(name) for name in columns} if figures is None else figures(one))

    def drawn(benchmarks: Sequence[BenchmarkResult], emulated: bool) -> Iterable["Plot"]:
        if plots is None:
            return ()
        module, _, function = plots.partition(":")
        made: Iterable[Plot] = getattr(importlib.import_module(module), function)(
            points_of(benchmarks, point), emulated=emulated
        )
        return made

    return Display(
        sections=sections, rows=rows, summary=summaries, csv=csv, plots=drawn, columns=columns, advice=advice
    )


def points_of(benchmarks: Iterable[BenchmarkResult], point: type[PointType]) -> list[PointType]:
    """The points of benchmarks of a kind, which are of one type."""
    return [one for benchmark in benchmarks for one in benchmark.workload if isinstance(one, point)]


def _in_common(point: WorkloadPoint) -> Json:
    """The figures that points of all kinds may have."""
    times, has_failed = point.seconds, point.failed is not None
    return {
        **({f"{name}_us": getattr(times, name) * 1e6 for name in _SECONDS} if times and not has_failed else {}),
        "samples": None if has_failed else sum(1 for _ in point.samples()) or None,
        "verified": None if has_failed else point.verified,
        "slowest_rank": None if has_failed else point.slowest_rank,
        "warnings": point.failed or point.wrong or " | ".join(point.warnings),
        "label": point.label,
    }
