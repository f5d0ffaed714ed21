"""A report on one screen of a terminal, 80 by 24 at the least: what does not fit is cut, and said to be elsewhere."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from raybench.reports.model import Block, Notes, Report, Table
from raybench.reports.terminal.block import block_lines
from raybench.reports.terminal.columns import Line
from raybench.reports.terminal.comment import beginning, comment, cut, file_line, style_of, verdict_lines
from raybench.reports.text import printable

_SCREEN = 23  # lines of a terminal, less the prompt
_LEAST_ROWS = 4


def screen_lines(report: Report, width: int, files: Sequence[tuple[str, Path]]) -> Iterator[Line]:
    """Verdict, name, what is above the table, as many of its rows as there is room for, the rest, and the verdict."""
    verdict = verdict_lines(report, width, most=2 * max(width, 60) - 22 - len(report.verdict))
    place = next(index for index, block in enumerate(report.blocks) if isinstance(block, Table))
    head = [*verdict, *comment(cut(report.name, 2 * width - 8), width, "bold")]
    head += [line for block in report.blocks[:place] for lines in _short(block, width) for line in lines]
    texts = (lines for block in report.blocks[place + 1 :] for lines in _short(block, width))
    room = _SCREEN - len(head) - len(files) - len(verdict)
    tail = _first_of(texts, room - _LEAST_ROWS, width)
    yield from head
    yield from _rows(report.blocks[place], width, room - len(tail))
    yield from tail
    for label, path in files:
        yield file_line(label, path, " (every table: --full)")
    yield from verdict


def _first_of(texts: Iterable[list[Line]], most: int, width: int) -> list[Line]:
    """As many lines of the texts as there is room for; the one that is cut between its lines ends in dots."""
    found: list[Line] = []
    for lines in texts:
        room = max(most - len(found), 0)
        found += lines[:room]
        if len(lines) > room > 0:
            *lead, (text, style) = found[-1]
            found[-1] = (*lead, (f"{beginning(text, width - 5)}...", style))
    return found


def _short(block: Block, width: int) -> Iterator[list[Line]]:
    """The lines of each text: one of a list is cut to two lines of the screen, any other to one."""
    if isinstance(block, Notes):
        for note in block.items:
            yield [*comment(cut(note.subject + note.text, 2 * width - 8), width, style_of(note.tone))]
    else:
        for line in block_lines((block,), 10_000):
            *lead, (text, style) = line
            yield [(*lead, (cut(text, width - 2), style))]


def _rows(table: Block, width: int, most: int) -> Iterator[Line]:
    """A line a row, no more than ``most`` in all; what does not fit the width is cut, the last cell first."""
    rows = [[printable(cell.text) for cell in row] for row in table.grid.rows] if isinstance(table, Table) else []
    headings = [list(table.grid.headings)] if isinstance(table, Table) and table.headed else []
    most -= len(headings)
    shown = rows if len(rows) <= most else rows[: most - 1]
    widths = [max(map(len, column)) for column in zip(*headings, *shown, strict=True)]
    for row in headings + shown:
        mark = ("# ", "dim") if row in headings else ("  ", "")
        first = min(widths[0], width // 2)
        texts = [
            cut(row[0], first).ljust(first),
            *(text.ljust(wide) for text, wide in zip(row[1:], widths[1:], strict=True)),
        ]
        yield (mark, (cut("  ".join(texts).rstrip(), width - 2), ""))
    if len(shown) < len(rows):
        yield from comment(f"and {len(rows) - len(shown)} more rows: --full, or the report", width, "dim")
