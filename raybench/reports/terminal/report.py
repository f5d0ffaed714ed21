"""Any report on a terminal or in a pipe: blocks as comment lines, tables as columns that fit the width."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, Any

from raybench.reports.columns import Line
from raybench.reports.model import (
    Banner,
    Block,
    Details,
    Facts,
    Figure,
    Finding,
    Heading,
    Notes,
    Preformatted,
    Report,
    Section,
    Table,
    Text,
)  # fmt: skip
from raybench.reports.terminal.result import comment, print_lines
from raybench.reports.terminal.section import section_lines
from raybench.reports.text import printable

_BANNER = {"emulated": "black on yellow", "warn": "yellow", "bad": "bold red"}
_SEVERITY = {"critical": "bold red", "warning": "yellow", "info": "cyan"}


def print_report(report: Report, stream: IO[str], *, width: int | None = None) -> None:
    """Print it. ``width`` in columns is for tests."""
    print_lines(lambda columns: report_lines(report, columns), stream, width)


def report_lines(report: Report, width: int) -> Iterator[Line]:
    """All of it, as lines of (text, style) segments; the verdict first and last."""
    verdict = f"VERDICT: {report.verdict.upper()}: {report.reason}" if report.verdict else ""
    yield from comment(printable(verdict), width, "bold") if verdict else ()
    yield from comment(printable(report.name), width, "bold")
    for line in (report.lead, report.when):
        yield from comment(printable(line), width, "dim") if line else ()
    yield from _lines(report.blocks, width)
    for line in report.footer:
        yield from comment(printable(line), width, "dim")
    yield from comment(printable(verdict), width, "bold") if verdict else ()


def _lines(blocks: Sequence[Block], width: int) -> Iterator[Line]:
    for block in blocks:
        yield from _SHOWN[type(block)](block, width)


def _heading(block: Heading, width: int) -> Iterator[Line]:
    yield (("#", ""),)
    yield from comment(printable(block.text), width, "bold cyan")


def _banner(block: Banner, width: int) -> Iterator[Line]:
    yield from comment(printable(block.text), width, _BANNER[block.tone])


def _text(block: Text, width: int) -> Iterator[Line]:
    yield from comment(printable(f"{block.text} {block.link}".strip()), width, "dim" if block.tone else "")


def _notes(block: Notes, width: int) -> Iterator[Line]:
    for note in block.items:
        yield from comment(printable(note.subject + note.text), width, "yellow" if note.tone else "")


def _facts(block: Facts, width: int) -> Iterator[Line]:
    for name, value in block.pairs:
        yield from comment(printable(f"{name}: {value}"), width)


def _table(block: Table, width: int) -> Iterator[Line]:
    yield from section_lines(Section(title=block.caption, grid=block.grid), width, emulated=False)


def _figure(block: Figure, width: int) -> Iterator[Line]:
    yield from comment(printable(f"{block.plot.title}: {block.plot.description}"), width)


def _preformatted(block: Preformatted, _: int) -> Iterator[Line]:
    yield (("  ", ""), (printable(block.text), ""))  # never wrapped: a command is to be copied


def _details(block: Details, width: int) -> Iterator[Line]:
    yield from comment(printable(block.summary), width, "bold")
    yield from _lines(block.blocks, width)


def _finding(block: Finding, width: int) -> Iterator[Line]:
    yield from comment(printable(block.headline), width, _SEVERITY[block.severity])
    yield from _lines(block.blocks, width)


_SHOWN: Mapping[type[Block], Callable[[Any, int], Iterator[Line]]] = {
    Heading: _heading, Banner: _banner, Text: _text, Notes: _notes, Facts: _facts, Table: _table, Figure: _figure,
    Preformatted: _preformatted, Details: _details, Finding: _finding,
}  # fmt: skip
