"""The point-to-point matrices of a run as blocks: what is doubtful, a heatmap, the slowest pairs."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from raybench.documents.run.benchmark import BenchmarkResult
from raybench.documents.run.result import RunResult
from raybench.reports.model import Block, Figure, Heading, Table, notes_of
from raybench.reports.pairs import PairMatrix, ends_in_short, pair_matrices
from raybench.reports.rows import all_warnings, matrices
from raybench.reports.view import pair_caption, pair_grid
from raybench.units import format_bytes

if TYPE_CHECKING:
    from raybench.reports.plots.svg import Plot

_MOST_MATRICES = 2  # sizes of one matrix that get a heatmap, the largest


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixView:
    """A matrix, and what is shown of it."""

    title: str
    matrix: PairMatrix
    blocks: tuple[Block, ...]


def matrix_views(result: RunResult, *, drawn: bool) -> tuple[MatrixView, ...]:
    """The matrices of a run, of each the largest sizes."""
    return tuple(
        _view(benchmark, matrix, result, f"pairs-{number}-{matrix.message_bytes}" if drawn else None)
        for number, benchmark in enumerate(matrices(result.benchmarks))
        for matrix in pair_matrices(benchmark, result.cluster, result.findings)[: -_MOST_MATRICES - 1 : -1]
    )


def _view(benchmark: BenchmarkResult, matrix: PairMatrix, result: RunResult, plot: str | None) -> MatrixView:
    title = f"{benchmark.name}, {format_bytes(matrix.message_bytes)} messages"
    return MatrixView(title=title, matrix=matrix, blocks=tuple(_blocks(title, benchmark, matrix, result, plot)))


def _blocks(
    title: str, benchmark: BenchmarkResult, matrix: PairMatrix, result: RunResult, plot: str | None
) -> Iterator[Block]:
    grid = pair_grid(matrix)
    yield Heading(text=title, level=3)
    yield from notes_of((*ends_in_short(matrix), *all_warnings(benchmark)), tone="warn")
    if plot is not None:
        yield Figure(plot=_heatmap(matrix, plot, emulated=result.cluster.emulated), shape="square")
    yield Table(grid=grid, caption=pair_caption(matrix, len(grid.rows)), text_columns=2)


def _heatmap(matrix: PairMatrix, name: str, *, emulated: bool) -> "Plot":
    from raybench.reports.plots.heatmap import pair_heatmap  # matplotlib's

    return pair_heatmap(matrix, name=name, emulated=emulated)
