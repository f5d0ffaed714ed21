"""A run in short, for an issue or a chat: summary, full tables, what stands out. Pure."""

from collections.abc import Iterator

from raybench.documents.diagnosis import Diagnosis
from raybench.documents.run.result import RunResult
from raybench.reports.builders.samples import sample_blocks
from raybench.reports.findings import all_findings, headline, next_steps, place
from raybench.reports.findings_in_short import findings_view
from raybench.reports.isolation import isolation_lines
from raybench.reports.model import Banner, Block, Details, Report, Table, notes_of, section_blocks
from raybench.reports.pairs import ends_in_short, pair_matrices, pair_text, ranked_pairs
from raybench.reports.rows import (
    all_warnings,
    cluster_line,
    dropped_lines,
    emulated_notice,
    expectation_remarks,
    matrices,
    tables,
    unmeasured,
)
from raybench.reports.view import summary_grid, table_grid
from raybench.reports.workloads.table import workload_sections
from raybench.timeline.spans import Timeline
from raybench.units import format_bytes


def brief_report(result: RunResult, diagnosis: Diagnosis | None) -> Report:
    """The report."""
    job = f"; {result.scheduler.in_brief}" if result.scheduler else ""
    return Report(
        name=f"raybench run {result.run_id}",
        title=f"raybench {result.run_id}, {result.conclusion.verdict}",
        verdict=result.conclusion.verdict,
        reason=result.conclusion.reason,
        lead=f"{result.status.capitalize()}, {cluster_line(result.cluster)}{job}",
        when="",
        blocks=tuple(_blocks(result, diagnosis)),
    )


def _blocks(result: RunResult, diagnosis: Diagnosis | None) -> Iterator[Block]:
    measured = tables(result.benchmarks)
    notice = emulated_notice(result)
    mark = " (emulated)" if notice else ""
    if notice:
        yield Banner(text=notice, tone="emulated")
    if measured:
        yield Table(grid=summary_grid(measured))
    for section in workload_sections(result.benchmarks):
        yield from section_blocks(section, level=2, mark=mark)
    yield from notes_of([*_remarks(result)])
    yield from notes_of([*_findings(result, diagnosis)])
    if result.node_samples is not None:
        spans = Timeline(result, result.node_samples).spans
        _, *blocks = sample_blocks(result.node_samples, spans, drawn=False, emulated=result.cluster.emulated)
        yield Details(summary="Nodes over time", blocks=tuple(blocks))
    for table in measured:
        yield Details(summary=table.title + mark, blocks=(Table(grid=table_grid(table)),))


def _remarks(result: RunResult) -> Iterator[str]:
    yield from isolation_lines(result)
    yield from dropped_lines(result.cluster)
    yield from (f"{', '.join(one.names)}, {one.word}: {one.reason}" for one in unmeasured(result))
    for benchmark in matrices(result.benchmarks):
        matrix = pair_matrices(benchmark, result.cluster, result.findings)[-1]
        slowest = pair_text(ranked_pairs(matrix)[0])
        yield f"{benchmark.name}, {format_bytes(matrix.message_bytes)}: slowest pair {slowest}"
        yield from ends_in_short(matrix)
        yield from (f"{benchmark.name}: {warning}" for warning in all_warnings(benchmark))
    for table in tables(result.benchmarks):
        yield from (f"{table.title} stopped: {reason}" for reason in table.reasons)
        yield from (f"{table.title}: {warning}" for warning in table.warnings)
    yield from expectation_remarks(result.benchmarks)


def _findings(result: RunResult, diagnosis: Diagnosis | None) -> Iterator[str]:
    view = findings_view(all_findings(result, diagnosis))
    for finding in view.shown:
        where = place(finding)
        steps = "".join(f" Next: {step}" for step in next_steps(finding))
        yield headline(finding) + (f" ({where})" if where else "") + steps
    yield from view.omitted
