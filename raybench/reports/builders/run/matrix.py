"""A point-to-point matrix for a terminal: by rank, or by node where that is too wide; what stands out in it. Pure."""

from collections.abc import Iterator, Mapping, Sequence

from diagnostics.findings import Finding
from raybench.documents.run.benchmark import BenchmarkResult
from raybench.documents.run.cluster import ClusterInfo
from raybench.reports.builders.run.sizes import WARNING_MARK, warnings_in_short
from raybench.reports.model import Block, Cell, Choice, Grid, Heading, Note, Notes, Table, Text
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
from raybench.reports.text import bandwidth
from raybench.stats import median
from raybench.units import format_bytes

SHOWN_PAIRS = 3
_WIDEST = 250  # ranks or nodes beside each other: no terminal has room for more


def matrix_blocks(
    benchmark: BenchmarkResult, cluster: ClusterInfo, findings: Sequence[Finding], *, mark: str
) -> Iterator[Block]:
    """The matrix of the largest size; what stands out in it; warnings."""
    warnings = all_warnings(benchmark)
    matrix = pair_matrices(benchmark, cluster, findings)[-1]
    title = f"{benchmark.name}, {format_bytes(matrix.message_bytes)}, GB/s, row sends to column"
    yield Heading(text=title + mark, level=3)
    yield Choice(forms=tuple(_forms(matrix)))
    notes = [*_summary(matrix)]
    notes += [Note(text=f"{WARNING_MARK} {warnings_in_short(warnings)}", tone="warn")] if warnings else []
    yield Notes(items=tuple(notes))


def _forms(matrix: PairMatrix) -> Iterator[tuple[Block, ...]]:
    """By rank, by node, or a sentence."""
    slow = {(pair.point.source_rank or 0, pair.point.destination_rank or 0) for pair in matrix.ranked if pair.is_slow}
    if len(matrix.ranks) <= _WIDEST:
        ranks = [str(rank) for rank in matrix.ranks]
        yield (_table(matrix.ranks, ranks, matrix.gb_per_second, slow),)
    nodes = range(len(matrix.groups))
    if len(nodes) <= _WIDEST:
        names = ", ".join(f"n{node} {matrix.groups[node][0]}" for node in nodes)
        yield (
            Text(text="too many ranks for this width; by node, the slowest pair of ranks of each:"),
            _table(nodes, [f"n{node}" for node in nodes], by_node(matrix), set()),
            Text(text=names, tone="soft"),
        )
    yield (Text(text=f"{len(nodes):,} nodes are too many for this width: see the heatmap of the report"),)


def _table(
    keys: Sequence[int], labels: Sequence[str], speeds: Mapping[tuple[int, int], float], slow: set[tuple[int, int]]
) -> Table:
    rows = (
        (
            Cell(text=label, tone="strong"),
            *(
                Cell(text=_figure(speeds.get((source, other))), tone="bad" if (source, other) in slow else "")
                for other in keys
            ),
        )
        for source, label in zip(keys, labels, strict=True)
    )
    return Table(grid=Grid(headings=("", *labels), rows=tuple(rows)), text_columns=0)


def _figure(gb_per_second: float | None) -> str:
    if gb_per_second is None:
        return "."
    return f"{gb_per_second:.0f}" if gb_per_second >= 100 else bandwidth(gb_per_second)[:4]


def _summary(matrix: PairMatrix) -> Iterator[Note]:
    ranked = ranked_pairs(matrix)
    for name, between in (("within nodes", False), ("between nodes", True)):
        speeds = [pair.point.algbw_gb_per_s for pair in ranked if pair.between_nodes == between]
        if speeds:
            figures = (
                f"min {bandwidth(min(speeds))}, median {bandwidth(median(speeds))}, max {bandwidth(max(speeds))} GB/s"
            )
            yield Note(text=f"{len(speeds):,} pairs {name}: {figures}")
    ends = slow_ends(matrix)
    yield from (Note(text=end_text(end), tone="bad") for end in ends[:SHOWN_PAIRS])
    slow = unexplained(matrix)
    for pair in slow[:SHOWN_PAIRS] if ends or slow else ranked[:1]:
        word, tone = ("slow", "bad") if pair.is_slow else ("slowest", "")
        yield Note(text=f"{word} pair: {pair_text(pair)}", tone=tone)
    more = _more(len(ends) - SHOWN_PAIRS, "slow node or rank", "slow nodes or ranks")
    more += _more(len(slow) - SHOWN_PAIRS, "slow pair", "slow pairs")
    if more:
        yield Note(text=f"and {', '.join(more)}: see report.html or result.json", tone="bad")


def _more(count: int, one: str, several: str) -> list[str]:
    return [f"{count:,} more {one if count == 1 else several}"] if count > 0 else []
