"""Each block of a report on a terminal: text as comment lines, tables as columns that fit the width."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from raybench.reports.model import (
    Banner,
    Block,
    Choice,
    Details,
    Facts,
    Figure,
    Finding,
    Heading,
    Notes,
    Preformatted,
    Table,
    Text,
)  # fmt: skip
from raybench.reports.terminal.columns import Line
from raybench.reports.terminal.comment import comment, style_of
from raybench.reports.terminal.table import is_fitting, table_lines
from raybench.reports.text import printable


def block_lines(blocks: Sequence[Block], width: int) -> Iterator[Line]:
    """Blocks one below the other."""
    for block in blocks:
        yield from _SHOWN[type(block)](block, width)


def _heading(block: Heading, width: int) -> Iterator[Line]:
    yield (("#", ""),)
    yield from comment(block.text, width, style_of("heading"))


def _banner(block: Banner, width: int) -> Iterator[Line]:
    """In words what a page says by colour."""
    mark = "PROBLEM: " if block.tone == "bad" else ""
    yield from comment(f"{mark}{block.text}", width, style_of(block.tone))


def _text(block: Text, width: int) -> Iterator[Line]:
    yield from comment(block.text, width, style_of(block.tone))
    if block.link:
        yield (("#   ", "dim"), (printable(block.link), "dim"))  # never wrapped: an address is to be opened


def _notes(block: Notes, width: int) -> Iterator[Line]:
    if block.apart:
        yield (("#", ""),)
    for note in block.items:
        yield from comment(note.subject + note.text, width, style_of(note.tone))


def _facts(block: Facts, width: int) -> Iterator[Line]:
    for name, value in block.pairs:
        yield from comment(f"{name}: {value}", width)


def _table(block: Table, width: int) -> Iterator[Line]:
    if block.caption:
        yield from comment(block.caption, width, style_of("soft"))
    yield from table_lines(block, width)


def _choice(block: Choice, width: int) -> Iterator[Line]:
    """The last, in fewer columns, where none fits."""
    *wider, last = block.forms
    fitting = (form for form in wider if all(is_fitting(one, width) for one in form if isinstance(one, Table)))
    yield from block_lines(next(fitting, last), width)


def _figure(block: Figure, width: int) -> Iterator[Line]:
    yield from comment(f"{block.plot.title}: {block.plot.description}", width)


def _preformatted(block: Preformatted, _: int) -> Iterator[Line]:
    yield (("  ", ""), (printable(block.text), ""))  # never wrapped: a command is to be copied


def _details(block: Details, width: int) -> Iterator[Line]:
    yield from comment(block.summary, width, "bold")
    yield from block_lines(block.blocks, width)


def _finding(block: Finding, width: int) -> Iterator[Line]:
    yield (("#", ""),)
    yield from comment(block.headline, width, style_of(block.severity))
    yield from block_lines(block.blocks, width)


_SHOWN: Mapping[type[Block], Callable[[Any, int], Iterator[Line]]] = {
    Heading: _heading, Banner: _banner, Text: _text, Notes: _notes, Facts: _facts, Table: _table, Figure: _figure,
    Preformatted: _preformatted, Details: _details, Choice: _choice,
    Finding: _finding,
}  # fmt: skip
