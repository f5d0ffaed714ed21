"""A point-to-point matrix on a terminal: by rank, or by node where that is too wide, and the pairs that stand out."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence

from diagnostics.findings import Finding
from raybench.documents.run.benchmark import BenchmarkResult
from raybench.documents.run.cluster import ClusterInfo
from raybench.reports.columns import Column, Line, lines, total_width
from raybench.reports.pairs import (
    PairMatrix,
    by_node,
    end_text,
    pair_matrices,
    pair_text,
    ranked_pairs,
    slow_ends,
    unexplained,
)
from raybench.reports.rows import all_warnings
from raybench.reports.terminal.table import WARNING_MARK, warnings_in_short
from raybench.reports.text import bandwidth, printable
from raybench.stats import median
from raybench.units import format_bytes

SHOWN_PAIRS = 3


def matrix_lines(
    benchmark: BenchmarkResult, cluster: ClusterInfo, width: int, findings: Sequence[Finding] = ()
) -> Iterator[Line]:
    """The matrix of the largest size; what stands out in it; warnings."""
    emulated = "  emulated" if cluster.emulated else ""
    warnings = all_warnings(benchmark)
    matrix = pair_matrices(benchmark, cluster, findings)[-1]
    title = f"{printable(benchmark.name)}, {format_bytes(matrix.message_bytes)}, GB/s, row sends to column"
    yield (("# ", "dim"), (title, "bold cyan"), (emulated, "black on yellow"))
    yield from _grid(matrix, width)
    for text, style in (
        *_summary(matrix),
        *([(f"{WARNING_MARK} {warnings_in_short(warnings)}", "yellow")] if warnings else []),
    ):
        for line in textwrap.wrap(text, width - 2, subsequent_indent="  ", break_on_hyphens=False):
            yield (("# ", "dim"), (line, style))


def _grid(matrix: PairMatrix, width: int) -> Iterator[Line]:
    by_rank = _rank_columns(matrix) if _least_width(len(matrix.ranks)) <= width else None
    for gap in (2, 1):
        if by_rank and total_width(by_rank, gap) <= width:
            yield from lines(by_rank, gap)
            return
    nodes = range(len(matrix.groups))
    by_nodes = None
    if _least_width(len(nodes)) <= width:
        by_nodes = _grid_columns(nodes, [f"n{node}" for node in nodes], by_node(matrix), set())
    if by_nodes is None or total_width(by_nodes, 1) > width:
        yield (("# ", "dim"), (f"{len(nodes):,} nodes are too many for this width: see the heatmap of the report", ""))
        return
    yield (("# ", "dim"), ("too many ranks for this width; by node, the slowest pair of ranks of each:", ""))
    yield from lines(by_nodes, 1)
    for line in textwrap.wrap(", ".join(f"n{node} {printable(matrix.groups[node][0])}" for node in nodes), width - 2):
        yield (("# ", "dim"), (line, "dim"))


def _least_width(columns: int) -> int:
    """Columns of text that a matrix takes at the least: a million cells are not made to find that they do not fit."""
    return 2 * columns


def _rank_columns(matrix: PairMatrix) -> tuple[Column, ...]:
    slow = {(pair.point.source_rank or 0, pair.point.destination_rank or 0) for pair in matrix.ranked if pair.is_slow}
    return _grid_columns(matrix.ranks, [str(rank) for rank in matrix.ranks], matrix.gb_per_second, slow)


def _grid_columns(
    keys: Sequence[int],
    labels: Sequence[str],
    speeds: Mapping[tuple[int, int], float],
    slow: set[tuple[int, int]],
) -> tuple[Column, ...]:
    side = Column(heading="", cells=tuple((label, "bold") for label in labels))
    return (
        side,
        *(
            Column(
                heading=label,
                cells=tuple(
                    (_cell(speeds.get((source, destination))), "bold red" if (source, destination) in slow else "")
                    for source in keys
                ),
            )
            for destination, label in zip(keys, labels, strict=True)
        ),
    )


def _cell(gb_per_second: float | None) -> str:
    if gb_per_second is None:
        return "."
    return f"{gb_per_second:.0f}" if gb_per_second >= 100 else bandwidth(gb_per_second)[:4]


def _summary(matrix: PairMatrix) -> Iterator[tuple[str, str]]:
    ranked = ranked_pairs(matrix)
    for name, between in (("within nodes", False), ("between nodes", True)):
        speeds = [pair.point.algbw_gb_per_s for pair in ranked if pair.between_nodes == between]
        if speeds:
            figures = (
                f"min {bandwidth(min(speeds))}, median {bandwidth(median(speeds))}, max {bandwidth(max(speeds))} GB/s"
            )
            yield f"{len(speeds):,} pairs {name}: {figures}", ""
    ends = slow_ends(matrix)
    for end in ends[:SHOWN_PAIRS]:
        yield end_text(end), "bold red"
    slow = unexplained(matrix)
    shown = slow[:SHOWN_PAIRS] if ends or slow else ranked[:1]
    for pair in shown:
        yield f"{'slow' if pair.is_slow else 'slowest'} pair: {pair_text(pair)}", "bold red" if pair.is_slow else ""
    more = _more(len(ends) - SHOWN_PAIRS, "slow node or rank", "slow nodes or ranks")
    more += _more(len(slow) - SHOWN_PAIRS, "slow pair", "slow pairs")
    if more:
        yield f"and {', '.join(more)}: see report.html or result.json", "bold red"


def _more(count: int, one: str, several: str) -> list[str]:
    return [f"{count:,} more {one if count == 1 else several}"] if count > 0 else []
