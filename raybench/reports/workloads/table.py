"""How each kind of workload is shown: a kind is a line here. The kinds are those of ``raybench.benchmarks.registry``.

What a report of a run shows of its workloads it takes from this table; nothing else asks which kind a benchmark is of.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from raybench.documents.run.benchmark import BenchmarkResult
from raybench.documents.run.cluster import ClusterInfo
from raybench.documents.run.result import RunResult
from raybench.reports.model import Section
from raybench.reports.workloads.checkpoint import DISPLAY as CHECKPOINT
from raybench.reports.workloads.display import Display, Json, Row
from raybench.reports.workloads.figures import DISPLAY as FIGURES
from raybench.reports.workloads.memory import DISPLAY as MEMORY
from raybench.reports.workloads.messages import DISPLAY as MESSAGES
from raybench.reports.workloads.training import DISPLAY as TRAINING

if TYPE_CHECKING:
    from raybench.reports.plots.svg import Plot

DISPLAYS: dict[str, Display] = {
    "collective": MESSAGES,
    "p2p": MESSAGES,
    "training": TRAINING,
    "memory": MEMORY,
    "checkpoint": CHECKPOINT,
}
OF_OTHERS = FIGURES  # kinds of installed packages: their points are named figures


def display_of(benchmark: BenchmarkResult) -> Display:
    """How a benchmark is shown."""
    return DISPLAYS.get(benchmark.kind, OF_OTHERS)


def workload_sections(benchmarks: Iterable[BenchmarkResult]) -> tuple[Section, ...]:
    """The tables of all workloads of a run, a kind after the other."""
    return tuple(section for display, ones in _by_display(benchmarks) for section in display.sections(ones))


def workload_plots(benchmarks: Iterable[BenchmarkResult], *, emulated: bool) -> "dict[str, tuple[Plot, ...]]":
    """The plots of all workloads of a run by the title above them, a kind after the other. Needs matplotlib."""
    from raybench.reports.plots.svg import plot_style  # matplotlib's

    drawn: dict[str, tuple[Plot, ...]] = {}
    with plot_style():
        for display, ones in _by_display(benchmarks):
            title = display.plots_title
            drawn[title] = (*drawn.get(title, ()), *display.plots(ones, emulated))
    return drawn


def workload_rows(result: RunResult) -> Iterator[Row]:
    """The lines of the one screen: what measures messages first, since those join benchmarks, then all in order."""
    measured = [one for one in result.benchmarks if one.points or one.workload]
    ordered = sorted(measured, key=lambda one: bool(one.workload))
    for display, ones in groupby(ordered, key=display_of):
        yield from display.rows([*ones], result)


def workload_advice(benchmarks: Iterable[BenchmarkResult]) -> Iterator[str]:
    """What to change, of each kind that has advice."""
    for display, ones in _by_display(benchmarks):
        yield from display.advice(ones)


def workload_summaries(benchmarks: Iterable[BenchmarkResult], cluster: ClusterInfo) -> dict[str, dict[str, Json]]:
    """The parts of summary.json by name, each an object a label; parts that have none are absent."""
    parts: dict[str, list[BenchmarkResult]] = {part: [] for part in map(_part, DISPLAYS)}
    for benchmark in benchmarks:
        parts.setdefault(_part(benchmark.kind), []).append(benchmark)
    made = {name: dict(display_of(ones[0]).summary(ones, cluster)) for name, ones in parts.items() if ones}
    return {name: part for name, part in made.items() if part}


def workload_columns() -> tuple[str, ...]:
    """The columns that kinds add to the CSV, each once."""
    return tuple(dict.fromkeys(name for display in DISPLAYS.values() for name in display.columns))


def workload_csv(benchmark: BenchmarkResult, cluster: ClusterInfo) -> Iterable[dict[str, Any]]:
    """The rows of a benchmark by column, without what the run and the benchmark are."""
    return display_of(benchmark).csv(benchmark, cluster)


def _part(kind: str) -> str:
    return DISPLAYS.get(kind, OF_OTHERS).part or kind


def _by_display(benchmarks: Iterable[BenchmarkResult]) -> Iterator[tuple[Display, Sequence[BenchmarkResult]]]:
    """Each display once, in the order of the table, with its benchmarks."""
    known = [*benchmarks]
    for display in dict.fromkeys((*DISPLAYS.values(), OF_OTHERS)):
        ones = [one for one in known if display_of(one) == display]
        if ones:
            yield display, ones
