"""The result of a run on a terminal or in a pipe, in the shape that users of nccl-tests know.

Lines that are not figures start with ``#``. On a terminal the table is cut to its width, the least needed columns
first; in a pipe it has all of them. Nothing is parsed as markup, and nothing a node said can send a control character.
"""

import os
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import IO

from rich.console import Console
from rich.text import Text

from raybench.documents.run.result import RunResult
from raybench.reports.columns import Line, Segment
from raybench.reports.findings import all_findings, headline, next_steps, place
from raybench.reports.findings_in_short import findings_view
from raybench.reports.rows import (
    cluster_line,
    dropped_lines,
    emulated_notice,
    expectation_remarks,
    is_unstable,
    matrices,
    tables,
    unmeasured,
)
from raybench.reports.spans import ranks_in_short
from raybench.reports.terminal.matrix import matrix_lines
from raybench.reports.terminal.section import section_lines
from raybench.reports.terminal.table import table_lines
from raybench.reports.text import count_of, printable
from raybench.reports.workloads.table import workload_sections
from raybench.units import format_seconds
from raybench.verdicts import Conclusion, Verdict

PIPE_WIDTH = 200
LEAST_WIDTH = 40  # what is narrower, such as COLUMNS=1, runs over the edge
MAX_NODES = 16
_STATUS_STYLE = {"complete": "bold green", "partial": "bold yellow", "failed": "bold red"}
VERDICT_STYLE: Mapping[Verdict, str] = {
    "ok": "bold green",
    "warning": "bold yellow",
    "critical": "bold red",
    "incomplete": "bold yellow",
    "unknown": "bold magenta",
}
_SEVERITY_STYLE = {"critical": "bold red", "warning": "yellow", "info": "cyan"}


def print_result(
    result: RunResult,
    stream: IO[str],
    *,
    output_dir: Path | None = None,
    report_path: Path | None = None,
    notes: Sequence[str] = (),
    width: int | None = None,
) -> None:
    """Print tables, matrices, warnings, findings and where everything lies. ``width`` in columns is for tests."""
    print_lines(
        lambda columns: result_lines(result, columns, output_dir=output_dir, report_path=report_path, notes=notes),
        stream,
        width,
    )


def print_lines(made: Callable[[int], Iterable[Line]], stream: IO[str], width: int | None = None) -> None:
    """Print the lines that are made for the stream's width in columns."""
    console = Console(file=stream, highlight=False, markup=False, emoji=False, force_jupyter=False)
    wanted = width or (console.width if console.is_terminal or "COLUMNS" in os.environ else PIPE_WIDTH)
    columns = max(wanted, LEAST_WIDTH)
    encoding = getattr(stream, "encoding", None) or "utf-8"
    for line in made(columns):
        text = Text(no_wrap=True, overflow="ignore")
        for segment, style in line:
            text.append(segment.encode(encoding, "backslashreplace").decode(encoding), style)
        console.print(text, soft_wrap=True)


def result_lines(
    result: RunResult,
    width: int,
    *,
    output_dir: Path | None = None,
    report_path: Path | None = None,
    notes: Sequence[str] = (),
) -> Iterator[Line]:
    """Everything that is printed, as lines of (text, style) segments at most ``width`` columns wide."""
    yield from verdict_lines(result.conclusion, width)
    yield from _header(result, width)
    for table in tables(result.benchmarks):
        yield (("#", ""),)
        yield from table_lines(table, width, emulated=result.cluster.emulated)
    for benchmark in matrices(result.benchmarks):
        yield (("#", ""),)
        yield from matrix_lines(benchmark, result.cluster, width, result.findings)
    for section in workload_sections(result.benchmarks):
        yield (("#", ""),)
        yield from section_lines(section, width, emulated=result.cluster.emulated)
    yield from _not_measured(result, width)
    yield from _findings(result, width)
    yield from _footer(result, width, output_dir, report_path)
    for note in notes:
        yield from comment(note, width)
    yield from verdict_lines(result.conclusion, width)


def verdict_lines(conclusion: Conclusion, width: int) -> Iterator[Line]:
    """The verdict, first and last of what a command prints."""
    yield from comment(printable(conclusion.line), width, VERDICT_STYLE[conclusion.verdict])


def comment(text: str, width: int, style: str = "") -> Iterator[Line]:
    """Text as comment lines no wider than the terminal, continued lines indented."""
    wrapped = textwrap.wrap(text, max(20, width - 2), subsequent_indent="  ", break_on_hyphens=False)
    for line in wrapped or [""]:
        yield (("# ", "dim"), (line, style))


def _header(result: RunResult, width: int) -> Iterator[Line]:
    versions = ", ".join(f"{printable(name)} {printable(version)}" for name, version in result.versions.items())
    yield from comment(f"raybench run {printable(result.run_id)}: {cluster_line(result.cluster)}", width, "bold")
    yield from _emulated(result, width)
    if versions:
        yield from comment(versions, width, "dim")
    for node in result.cluster.nodes[:MAX_NODES]:
        gpus = f", {count_of(node.gpu_count, 'GPU')}" if node.gpu_count else ", no GPU"
        yield from comment(
            f"  {printable(node.name)} ({printable(node.address)}): {ranks_in_short(node.ranks)}{gpus}", width
        )
    if len(result.cluster.nodes) > MAX_NODES:
        more = count_of(len(result.cluster.nodes) - MAX_NODES, "more node")
        yield from comment(f"  and {more}: see report.html or result.json", width)
    for line in dropped_lines(result.cluster):
        yield from comment(f"  {line}", width, "yellow")


def _emulated(result: RunResult, width: int) -> Iterator[Line]:
    notice = emulated_notice(result)
    if notice is not None:
        for line in textwrap.wrap(f"!! {notice}", width - 2, subsequent_indent="!! "):
            yield (("# ", "dim"), (line, "black on yellow"))


def _not_measured(result: RunResult, width: int) -> Iterator[Line]:
    absent = unmeasured(result)
    if not absent:
        return
    yield (("#", ""),)
    for one in absent:
        text = f"{one.word}: {', '.join(one.names)}: {one.reason}"
        yield from comment(text, width, "red" if one.word == "failed" else "yellow")


def _findings(result: RunResult, width: int) -> Iterator[Line]:
    view = findings_view(all_findings(result))
    if view.shown:
        yield (("#", ""),)
    for finding in view.shown:
        where = place(finding)
        text = headline(finding) + (f" ({where})" if where else "")
        yield from comment(text, width, _SEVERITY_STYLE[finding.severity])
        for step in islice(next_steps(finding), 1):
            yield from comment(f"  next: {step}", width)
    for left_out in view.left_out:
        yield from comment(left_out, width)


def _footer(result: RunResult, width: int, output_dir: Path | None, report_path: Path | None) -> Iterator[Line]:
    yield (("#", ""),)
    yield from _emulated(result, width)
    if any(not benchmark.workload for benchmark in result.benchmarks) or not result.benchmarks:
        yield (("# ", "dim"), ("Out of bounds values : ", ""), _verification(result))
    for wrong in result.wrong if not result.wrong_elements else ():
        yield from comment(f"WRONG: {printable(wrong)}", width, "bold red")
    yield tuple(_status(result))
    if any(is_unstable(point) for table in tables(result.benchmarks) for point in table.points):
        advice = "~ unstable: other jobs on the nodes or the network? More --iters or --repeats; numbers in the report"
        yield from comment(advice, width, "yellow")
    for remark in expectation_remarks(result.benchmarks):
        yield from comment(remark, width, "dim")
    for label, path in (("results", output_dir), ("report", report_path)):
        if path is not None:
            yield (
                ("# ", "dim"),
                (f"{label}: ", ""),
                (printable(path), "bold"),
            )  # never wrapped: a path is to be copied


def _verification(result: RunResult) -> Segment:
    if result.wrong_elements:
        return f"FAILED: {count_of(result.wrong_elements, 'wrong element')}", "bold red"
    checks = {point.verified for benchmark in result.benchmarks for point in benchmark.points}
    if checks <= {None}:
        return "not checked", "yellow"
    return ("0 OK, some were not checked" if None in checks else "0 OK"), ""


def _status(result: RunResult) -> Iterator[Segment]:
    points = [point for table in tables(result.benchmarks) for point in table.points]
    unstable = sum(map(is_unstable, points))
    skipped = sum(benchmark.status == "skipped" for benchmark in result.benchmarks)
    elapsed = result.total_seconds
    yield "# ", "dim"
    yield result.status, _STATUS_STYLE[result.status]
    yield f": {count_of(len(result.benchmarks) - skipped, 'benchmark')}", ""
    yield (f", {skipped} skipped" if skipped else ""), "yellow"
    yield (f", {unstable} of {count_of(len(points), 'point')} unstable" if unstable else ""), "yellow"
    yield (f", took {format_seconds(elapsed)}" if elapsed else ""), ""
