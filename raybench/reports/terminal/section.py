"""One table of a workload on a terminal: as columns where they fit, else as one line a figure."""

import textwrap
from collections.abc import Iterator

from raybench.reports.columns import Column, Line, fit, lines, total_width
from raybench.reports.model import Cell, Section
from raybench.reports.text import printable

_STYLES = {"bad": "bold red", "warn": "yellow", "strong": "bold"}


def section_lines(section: Section, width: int, *, emulated: bool) -> Iterator[Line]:
    """The table at most ``width`` columns wide, then its notes."""
    yield (
        ("# ", "dim"),
        (printable(section.title), "bold cyan"),
        ("  emulated" if emulated else "", "black on yellow"),
    )
    columns = tuple(
        Column(
            heading=printable(heading),
            cells=tuple((printable(row[index].text), _STYLES.get(row[index].tone, "")) for row in section.grid.rows),
        )
        for index, heading in enumerate(section.grid.headings)
    )
    if total_width(columns, 1) <= width:
        yield from lines(*fit(columns, width))
    else:
        for row in section.grid.rows:
            yield from _stacked(section.grid.headings, row)
    for note in section.notes:
        for line in textwrap.wrap(note, max(width - 2, 20), subsequent_indent="  ", break_on_hyphens=False):
            yield (("# ", "dim"), (line, ""))


def _stacked(headings: tuple[str, ...], row: tuple[Cell, ...]) -> Iterator[Line]:
    """One line a figure: the name of the row first."""
    yield (("  ", ""), (printable(row[0].text), "bold"))
    name_width = max(len(heading) for heading in headings)
    for heading, cell in zip(headings[1:], row[1:], strict=True):
        yield (
            ("    ", ""),
            (printable(heading).ljust(name_width), ""),
            ("  ", ""),
            (printable(cell.text), _STYLES.get(cell.tone, "")),
        )
