"""The report of a run (raybench.result/1), with the findings of the diagnosis of its logs. Pure but for its figures."""

from collections.abc import Iterator, Sequence

from raybench.documents.run.result import RunResult
from raybench.reports.builders.asked import Asked, how_to_install
from raybench.reports.builders.findings import finding_blocks
from raybench.reports.builders.run.brief import brief_report
from raybench.reports.builders.run.pairs import MatrixView, matrix_views
from raybench.reports.builders.run.system import environment_blocks, node_blocks
from raybench.reports.builders.samples import sample_blocks
from raybench.reports.findings import all_findings, network_facts
from raybench.reports.findings_in_short import findings_view
from raybench.reports.isolation import isolation_blocks, isolation_lines
from raybench.reports.model import (
    Banner,
    Block,
    Details,
    Facts,
    Figure,
    Heading,
    Note,
    Notes,
    Report,
    Table,
    Text,
    section_blocks,
)  # fmt: skip
from raybench.reports.rows import Table as SizeTable
from raybench.reports.rows import (
    cluster_line,
    dropped_lines,
    emulated_notice,
    expectation_remarks,
    tables,
    unmeasured,
)  # fmt: skip
from raybench.reports.view import pairs_grid, summary_grid, table_grid
from raybench.reports.workloads.table import workload_plots, workload_sections
from raybench.timeline.spans import Timeline
from raybench.units import format_seconds

_FOOTER = (
    ('Lists that end in "and N more" are whole in result.json, those of findings from logs in diagnosis.json.'),
    (
        "Time is that of the slowest rank. algbw = message size / median time. busbw = algbw x the factor of "
        "the operation, as in nccl-tests. GB is 10^9 bytes, sizes are binary (1K = 1024). ±95 %: half the "
        "bootstrap interval of the median over the median."
    ),
)
_BUSBW = "Bus bandwidth is algorithm bandwidth times the factor of the operation: comparable with the link's own rate."


def run_report(result: RunResult, asked: Asked) -> Report:
    """The whole report, or the brief one."""
    if asked.brief:
        return brief_report(result, asked.diagnosis)
    emulated = emulated_notice(result)
    elapsed = f", {format_seconds(result.total_seconds)}" if result.total_seconds else ""
    job = f"; {result.scheduler.in_brief}" if result.scheduler else ""
    conclusion = result.conclusion
    return Report(
        name=f"raybench run {result.run_id}",
        title=f"{'EMULATED: ' if emulated else ''}raybench {result.run_id}, {conclusion.verdict}",
        verdict=conclusion.verdict,
        reason=conclusion.reason,
        lead=f"{result.status}, {cluster_line(result.cluster)}{elapsed}{job}",
        when=f"{result.started_at} to {result.finished_at}",
        blocks=tuple(_blocks(result, asked)),
        footer=_FOOTER,
    )


def _blocks(result: RunResult, asked: Asked) -> Iterator[Block]:
    measured = tables(result.benchmarks)
    views = matrix_views(result, drawn=asked.drawn)
    yield from _banners(result)
    yield from _summary(result, measured, views)
    yield from _remarks(result, measured)
    yield from _findings(result, asked)
    yield from isolation_blocks(result)
    yield from _plots(result, measured, asked)
    if views:
        yield Heading(text="Between ranks", anchor="pairs")
    for view in views:
        yield from view.blocks
    yield from _figures_of(measured, " (emulated)" if emulated_notice(result) else "")
    yield from _samples(result, asked)
    yield from node_blocks(result)
    yield from environment_blocks(result)


def _banners(result: RunResult) -> Iterator[Block]:
    notice = emulated_notice(result)
    if notice:
        yield Banner(text=notice, tone="emulated")
    if result.wrong_elements:
        text = (
            f"Wrong results: {result.wrong_elements} elements differ from their exact expected value. The bandwidths "
            "of those operations mean nothing."
        )
        yield Banner(text=text, tone="bad")
    yield from (Banner(text=line, tone="warn") for line in isolation_lines(result))
    yield from (Banner(text=line, tone="warn") for line in dropped_lines(result.cluster))


def _summary(result: RunResult, measured: Sequence[SizeTable], views: Sequence[MatrixView]) -> Iterator[Block]:
    yield Heading(text="Summary", anchor="summary")
    if result.wrong and not result.wrong_elements:
        yield Banner(text=f"Wrong: {'; '.join(result.wrong)}", tone="bad")
    sections = workload_sections(result.benchmarks)
    for section in sections:
        yield from section_blocks(section, mark=" (emulated)" if emulated_notice(result) else "")
    if measured:
        yield Table(grid=summary_grid(measured), caption=f"{_BUSBW} Times are medians.")
    elif not sections and not views:
        yield Text(text="Nothing was measured.")
    if views:
        caption = "Point to point: GB/s of each pair of ranks; slow are those that a finding names"
        yield Table(grid=pairs_grid((view.title, view.matrix) for view in views), caption=caption)


def _remarks(result: RunResult, measured: Sequence[SizeTable]) -> Iterator[Block]:
    absent = unmeasured(result)
    if absent:
        yield Heading(text="Not measured", level=3)
        yield Notes(
            items=tuple(Note(subject=", ".join(one.names), text=f", {one.word}: {one.reason}") for one in absent)
        )
    stopped = [Note(subject=table.title, text=f": {reason}") for table in measured for reason in table.reasons]
    if stopped:
        yield Heading(text="Stopped", level=3)
        yield Notes(items=tuple(stopped))
    yield from (Text(text=remark) for remark in expectation_remarks(result.benchmarks))
    warnings = [
        Note(subject=table.title, text=f": {warning}", tone="warn") for table in measured for warning in table.warnings
    ]
    if warnings:
        blocks = (Notes(items=tuple(warnings)),)
        yield Details(summary="Stability warnings, by benchmark", blocks=blocks, tone="stability")


def _findings(result: RunResult, asked: Asked) -> Iterator[Block]:
    view = findings_view(all_findings(result, asked.diagnosis))
    network = network_facts(asked.diagnosis) if result.cluster.backend == "nccl" else ()
    if not view.shown and not network:
        return
    yield Heading(text="Findings", anchor="findings")
    if network:
        yield Facts(pairs=network)
    yield from finding_blocks(view)


def _plots(result: RunResult, measured: Sequence[SizeTable], asked: Asked) -> Iterator[Block]:
    plots = workload_plots(result.benchmarks, emulated=result.cluster.emulated) if asked.drawn else {}
    if workload_sections(result.benchmarks) and not asked.drawn:
        yield _no_plots()
    for title, anchor in (("Plots", "workloads"), ("Over message size", "plots")):
        drawn = plots.get(title, ())
        of_sizes = anchor == "plots"
        if measured if of_sizes else drawn:
            yield Heading(text=title, anchor=anchor)
            yield from (_no_plots(),) if of_sizes and not asked.drawn else ()
        for plot in drawn:
            yield Heading(text=plot.title, level=3)
            yield Figure(plot=plot)


def _samples(result: RunResult, asked: Asked) -> Iterator[Block]:
    if result.node_samples is not None:
        spans = Timeline(result, result.node_samples).spans
        emulated = result.cluster.emulated
        yield from sample_blocks(result.node_samples, spans, drawn=asked.drawn, emulated=emulated)


def _figures_of(measured: Sequence[SizeTable], mark: str) -> Iterator[Block]:
    if measured:
        yield Heading(text="All figures", anchor="tables")
    for table in measured:
        grid = Table(grid=table_grid(table), caption="GB is 10^9 bytes; ~ marks an unstable point", text_columns=0)
        basis = (Text(text=f"Expected: {table.expected_basis}"),) if table.expected_basis else ()
        yield Details(summary=table.title + mark, blocks=(grid, *basis), is_open=len(measured) == 1)


def _no_plots() -> Banner:
    return Banner(text=f"Plots are left out, because matplotlib is not installed: {how_to_install()}", tone="warn")
