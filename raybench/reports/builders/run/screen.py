"""A run on one screen: one row a benchmark, what stands out, what to do. Pure.

The long tables are in the files, and on the terminal with ``--full``.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from raybench.documents.run.result import RunResult
from raybench.reports.builders.asked import Asked
from raybench.reports.findings import gravest_first, headline, next_steps
from raybench.reports.isolation import isolation_lines
from raybench.reports.model import Banner, Block, Cell, Grid, Report, Table, Text, notes_of
from raybench.reports.rows import cluster_line, dropped_lines, is_unstable, tables, unmeasured
from raybench.reports.text import count_of
from raybench.reports.workloads.display import Row
from raybench.reports.workloads.table import workload_advice, workload_rows
from raybench.units import format_seconds

_MOST_ADVICE = 2


def run_screen(result: RunResult, asked: Asked) -> Report:
    """The screen; ``asked.notes`` below it."""
    elapsed = result.total_seconds
    took = f", {format_seconds(elapsed)}" if elapsed else ""
    job = f"; {result.scheduler.in_brief}" if result.scheduler else ""
    name = f"raybench run {result.run_id}: {cluster_line(result.cluster)}{took}{job}"
    return Report(
        name=name,
        title=name,
        verdict=result.conclusion.verdict,
        reason=result.conclusion.reason,
        lead="",
        when="",
        blocks=(
            *_above(result),
            table_of(_rows(result)),
            *_findings(result),
            *notes_of([*islice(workload_advice(result.benchmarks), _MOST_ADVICE)], tone="soft"),
            *notes_of([*_unstable(result), *asked.notes], tone="soft"),
        ),
    )


def table_of(rows: Iterable[Row]) -> Table:
    """Rows of what, its figures and remarks, without headings."""
    cells = tuple(tuple(Cell(text=text) for text in row) for row in rows)
    return Table(grid=Grid(headings=("", "", ""), rows=cells), text_columns=3)


def _above(result: RunResult) -> Iterator[Block]:
    if result.cluster.emulated:
        nodes = count_of(len(result.cluster.nodes), "node")
        yield Banner(text=f"EMULATED: {nodes} on one machine: no figures of a network", tone="emulated")
    yield from (Text(text=line, tone="warn") for line in islice(isolation_lines(result), 3))
    yield from (Text(text=line, tone="warn") for line in islice(dropped_lines(result.cluster), 2))


def _rows(result: RunResult) -> Iterator[Row]:
    yield from workload_rows(result)
    for one in unmeasured(result):
        what = one.names[0] if len(one.names) == 1 else f"{len(one.names)} benchmarks"
        yield what, one.word, one.reason if len(one.names) == 1 else f"{one.reason}: {', '.join(one.names)}"


def _findings(result: RunResult) -> Iterator[Block]:
    """What to do about the first finding, which the verdict names, and the next one."""
    found = [one for one in gravest_first(result, result.log_findings) if one.severity != "info"]
    for step in islice((step for one in found[:1] for step in next_steps(one)), 1):
        yield Text(text=f"next: {step}")
    for finding in found[1:2]:
        yield Text(text=headline(finding), tone=finding.severity)
    if len(found) > 2:
        yield Text(text=f"and {count_of(len(found) - 2, 'more finding')}: --full, or the report", tone="warn")


def _unstable(result: RunResult) -> Sequence[str]:
    """Instability, once."""
    points = [point for table in tables(result.benchmarks) for point in table.points]
    unstable = sum(map(is_unstable, points))
    if unstable:
        return (f"~ {unstable} of {len(points)} points unstable: other jobs? More --iters or --repeats.",)
    return ()
