"""A report as Markdown, for an issue or a chat. Text is escaped, never markup; of a figure there is what it says."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from raybench.documents.diagnosis import Diagnosis
from raybench.reports.builders.asked import Asked
from raybench.reports.builders.table import report_of
from raybench.reports.model import (
    Banner,
    Block,
    Choice,
    Details,
    Facts,
    Figure,
    Finding,
    Grid,
    Heading,
    Notes,
    Preformatted,
    Table,
    Text,
)  # fmt: skip
from raybench.reports.text import printable

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#+!|~@&$])")


def render_markdown(document: Any, diagnosis: Diagnosis | None = None) -> str:
    """A document in short."""
    report = report_of(document, Asked(brief=True, diagnosis=diagnosis))
    head = [f"# {escaped(report.name)}\n"]
    if report.verdict:
        head.append(f"**{escaped(report.verdict)}**: {escaped(report.reason)}\n")
    head += [f"{escaped(line)}\n" for line in (report.lead, report.when) if line]
    foot = [f"{escaped(line)}\n" for line in report.footer]
    return "\n".join((*head, *_lines(report.blocks), *foot)) + "\n"


def escaped(text: object) -> str:
    """Text that Markdown shows as it is."""
    return _SPECIAL.sub(r"\\\1", printable(text))


def _lines(blocks: Sequence[Block]) -> Iterator[str]:
    for block in blocks:
        yield from _RENDERED[type(block)](block)


def _heading(block: Heading) -> Iterator[str]:
    yield f"{'#' * block.level} {escaped(block.text)}\n"


def _banner(block: Banner) -> Iterator[str]:
    yield f"> **{escaped(block.text)}**\n"


def _text(block: Text) -> Iterator[str]:
    yield f"{escaped(block.text)}{f' ({escaped(block.link)})' if block.link else ''}\n"


def _notes(block: Notes) -> Iterator[str]:
    yield from (f"- {escaped(note.subject + note.text)}" for note in block.items)
    yield ""


def _facts(block: Facts) -> Iterator[str]:
    yield from (f"- {escaped(name)}: {escaped(value)}" for name, value in block.pairs)
    yield ""


def _table(block: Table) -> Iterator[str]:
    yield from _grid(block.grid)
    if block.caption:
        yield f"{escaped(block.caption)}\n"


def _figure(block: Figure) -> Iterator[str]:
    yield f"{escaped(block.plot.title)}: {escaped(block.plot.description)}\n"


def _preformatted(block: Preformatted) -> Iterator[str]:
    yield f"    {printable(block.text)}\n"


def _details(block: Details) -> Iterator[str]:
    yield f"<details><summary>{escaped(block.summary)}</summary>\n"
    yield from _lines(block.blocks)
    yield "</details>\n"


def _choice(block: Choice) -> Iterator[str]:
    yield from _lines(block.forms[0])


def _finding(block: Finding) -> Iterator[str]:
    yield f"### {escaped(block.headline)}\n"
    yield from _lines(block.blocks)


def _grid(grid: Grid) -> Iterator[str]:
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


_RENDERED: Mapping[type[Block], Callable[[Any], Iterator[str]]] = {
    Heading: _heading, Banner: _banner, Text: _text, Notes: _notes, Facts: _facts, Table: _table, Figure: _figure,
    Preformatted: _preformatted, Details: _details, Choice: _choice, Finding: _finding,
}  # fmt: skip
