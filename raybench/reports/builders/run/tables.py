"""A run with all its tables for a terminal, in the shape that users of nccl-tests know. Pure."""

from collections.abc import Iterator
from itertools import islice

from raybench.documents.run.result import RunResult
from raybench.reports.builders.asked import Asked
from raybench.reports.builders.run.matrix import matrix_blocks
from raybench.reports.builders.run.sizes import size_blocks
from raybench.reports.findings import all_findings, headline, next_steps, place
from raybench.reports.findings_in_short import findings_view
from raybench.reports.isolation import isolation_blocks, isolation_lines
from raybench.reports.model import Banner, Block, Note, Notes, Report, Text, notes_of, section_blocks
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
from raybench.reports.text import count_of
from raybench.reports.workloads.table import workload_sections
from raybench.units import format_seconds

MAX_NODES = 16
_UNSTABLE = "~ unstable: other jobs on the nodes or the network? More --iters or --repeats; numbers in the report"
_STATUS_TONES = {"complete": "good", "partial": "warn", "failed": "bad"}


def run_tables(result: RunResult, asked: Asked) -> Report:
    """The report; ``asked.notes`` at its end."""
    name = f"raybench run {result.run_id}: {cluster_line(result.cluster)}"
    return Report(
        name=name,
        title=name,
        verdict=result.conclusion.verdict,
        reason=result.conclusion.reason,
        lead="",
        when="",
        blocks=(
            *_head(result),
            *_tables(result),
            *isolation_blocks(result),
            *_remarks(result),
            *_end(result),
            *notes_of(asked.notes),
        ),
    )


def _head(result: RunResult) -> Iterator[Block]:
    notice = emulated_notice(result)
    if notice:
        yield Banner(text=notice, tone="emulated")
    if result.versions:
        yield Text(text=", ".join(f"{name} {version}" for name, version in result.versions.items()), tone="soft")
    yield Notes(items=tuple(_nodes(result)))


def _nodes(result: RunResult) -> Iterator[Note]:
    for node in result.cluster.nodes[:MAX_NODES]:
        gpus = f", {count_of(node.gpu_count, 'GPU')}" if node.gpu_count else ", no GPU"
        yield Note(text=f"  {node.name} ({node.address}): {ranks_in_short(node.ranks)}{gpus}")
    if len(result.cluster.nodes) > MAX_NODES:
        more = count_of(len(result.cluster.nodes) - MAX_NODES, "more node")
        yield Note(text=f"  and {more}: see report.html or result.json")
    yield from (Note(text=f"  {line}", tone="warn") for line in isolation_lines(result))
    yield from (Note(text=f"  {line}", tone="warn") for line in dropped_lines(result.cluster))


def _tables(result: RunResult) -> Iterator[Block]:
    mark = "  emulated" if result.cluster.emulated else ""
    for table in tables(result.benchmarks):
        yield from size_blocks(table, mark=mark)
    for benchmark in matrices(result.benchmarks):
        yield from matrix_blocks(benchmark, result.cluster, result.findings, mark=mark)
    for section in workload_sections(result.benchmarks):
        yield from section_blocks(section, mark=mark)


def _remarks(result: RunResult) -> Iterator[Block]:
    absent = tuple(
        Note(text=f"{one.word}: {', '.join(one.names)}: {one.reason}", tone="bad" if one.word == "failed" else "warn")
        for one in unmeasured(result)
    )
    yield from (Notes(items=absent, apart=True),) if absent else ()
    view = findings_view(all_findings(result))
    found: list[Note] = []
    for finding in view.shown:
        where = place(finding)
        found.append(Note(text=headline(finding) + (f" ({where})" if where else ""), tone=finding.severity))
        found += [Note(text=f"  next: {step}") for step in islice(next_steps(finding), 1)]
    found += [Note(text=text) for text in view.omitted]
    yield from (Notes(items=tuple(found), apart=True),) if found else ()


def _end(result: RunResult) -> Iterator[Block]:
    """Whether the data was right, what was measured, and how far that can be relied on."""
    notice = emulated_notice(result)
    notes = [Note(text=notice, tone="emulated")] if notice else []
    if any(not benchmark.workload for benchmark in result.benchmarks) or not result.benchmarks:
        notes.append(_verification(result))
    notes += [Note(text=f"WRONG: {wrong}", tone="bad") for wrong in result.wrong if not result.wrong_elements]
    points = [point for table in tables(result.benchmarks) for point in table.points]
    unstable = sum(map(is_unstable, points))
    notes.append(Note(text=_status(result, unstable, len(points)), tone=_STATUS_TONES[result.status]))
    notes += [Note(text=_UNSTABLE, tone="warn")] if unstable else []
    notes += [Note(text=remark, tone="soft") for remark in expectation_remarks(result.benchmarks)]
    yield Notes(items=tuple(notes), apart=True)


def _verification(result: RunResult) -> Note:
    name = "Out of bounds values : "
    if result.wrong_elements:
        return Note(text=f"{name}FAILED: {count_of(result.wrong_elements, 'wrong element')}", tone="bad")
    checks = {point.verified for benchmark in result.benchmarks for point in benchmark.points}
    if checks <= {None}:
        return Note(text=f"{name}not checked", tone="warn")
    return Note(text=f"{name}0 OK, some were not checked" if None in checks else f"{name}0 OK")


def _status(result: RunResult, unstable: int, points: int) -> str:
    skipped = sum(benchmark.status == "skipped" for benchmark in result.benchmarks)
    elapsed = result.total_seconds
    parts = (
        f"{result.status}: {count_of(len(result.benchmarks) - skipped, 'benchmark')}",
        f"{skipped} skipped" if skipped else "",
        f"{unstable} of {count_of(points, 'point')} unstable" if unstable else "",
        f"took {format_seconds(elapsed)}" if elapsed else "",
    )
    return ", ".join(filter(None, parts))
