"""A run as Markdown, for an issue or a chat: summary, full tables, what stands out. Text is escaped, never markup."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from raybench.documents.result import RunResult
from raybench.reports.findings import all_findings, headline, next_steps, place
from raybench.reports.findings_in_short import findings_view
from raybench.reports.model import Grid
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
from raybench.reports.text import printable
from raybench.reports.view import summary_grid, table_grid
from raybench.reports.workloads.table import workload_sections
from raybench.units import format_bytes

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#+!|~@&$])")


def render_markdown(result: RunResult, diagnosis: Mapping[str, Any] | None = None) -> str:
    """The document."""
    return "\n".join(_blocks(result, diagnosis)) + "\n"


def escaped(text: object) -> str:
    """Text that Markdown shows as it is."""
    return _SPECIAL.sub(r"\\\1", printable(text))


def _blocks(result: RunResult, diagnosis: Mapping[str, Any] | None) -> Iterator[str]:
    measured = tables(result.benchmarks)
    notice = emulated_notice(result)
    yield f"# raybench run {escaped(result.run_id)}\n"
    yield f"**{result.conclusion.verdict}**: {escaped(result.conclusion.reason)}\n"
    yield f"{result.status.capitalize()}, {escaped(cluster_line(result.cluster))}\n"
    if notice:
        yield f"> **{escaped(notice)}**\n"
    if measured:
        yield from _table(summary_grid(measured))
    for section in workload_sections(result.benchmarks):
        yield f"## {escaped(section.title)}{' (emulated)' if notice else ''}\n"
        yield from _table(section.grid)
        yield from _bullets(section.notes)
    yield from _bullets(_remarks(result))
    yield from _bullets(_findings(result, diagnosis))
    for table in measured:
        yield f"<details><summary>{escaped(table.title)}{' (emulated)' if notice else ''}</summary>\n"
        yield from _table(table_grid(table))
        yield "</details>\n"


def _table(grid: Grid) -> Iterator[str]:
    headings = _grouped(grid) if grid.groups else grid.headings
    yield f"| {' | '.join(map(escaped, headings))} |"
    yield f"|{' ---: |' * len(headings)}"
    for row in grid.rows:
        cells = (f"**{escaped(cell.text)}**" if cell.tone == "bad" else escaped(cell.text) for cell in row)
        yield f"| {' | '.join(cells)} |"
    yield ""


def _grouped(grid: Grid) -> Sequence[str]:
    """Headings with the title of their group in front, where there is more than one group with a title."""
    titles = [title for title, span in grid.groups for _ in range(span)]
    if len({title for title in titles if title}) < 2:
        return grid.headings
    return [f"{title} {heading}".strip() for title, heading in zip(titles, grid.headings, strict=True)]


def _bullets(texts: Iterable[str]) -> Iterator[str]:
    lines = [f"- {escaped(text)}" for text in texts]
    yield from [*lines, ""] if lines else []


def _remarks(result: RunResult) -> Iterator[str]:
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


def _findings(result: RunResult, diagnosis: Mapping[str, Any] | None) -> Iterator[str]:
    view = findings_view(all_findings(result, diagnosis))
    for finding in view.shown:
        where = place(finding)
        steps = "".join(f" Next: {step}" for step in next_steps(finding))
        yield headline(finding) + (f" ({where})" if where else "") + steps
    yield from view.left_out
