"""Columns of text fitted to a width, with titles over groups of columns. Pure: lines of (text, style) segments."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

Segment = tuple[str, str]
Line = tuple[Segment, ...]
_MARGIN = 2  # "# " before headings, two spaces before data, so that `grep -v '^#'` leaves the data


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column; ``left``: its text begins where the column does.

    ``keep`` 0 stays at any width; the highest is the first to go where room is short.
    """

    heading: str
    unit: str = ""
    cells: tuple[Segment, ...]
    group: str = ""
    keep: int = 0
    left: bool = False

    def padded(self, text: str) -> str:
        """Text as wide as the column."""
        return text.ljust(self.width) if self.left else text.rjust(self.width)

    @property
    def width(self) -> int:
        """Characters of the widest cell or heading."""
        return max(len(self.heading), len(self.unit), *(len(text) for text, _ in self.cells), 0)


def fit(columns: Sequence[Column], width: int) -> tuple[tuple[Column, ...], int]:
    """The columns that the width has room for, and the gap between them: as many columns as possible, then as wide."""
    kept = tuple(columns)
    for limit in sorted({column.keep for column in columns}, reverse=True):
        kept = tuple(column for column in columns if column.keep <= limit)
        for gap in (2, 1):
            if total_width(kept, gap) <= width:
                return kept, gap
    return kept, 1


def total_width(columns: Sequence[Column], gap: int) -> int:
    """Characters of a line."""
    return _MARGIN + sum(column.width for column in columns) + gap * (len(columns) - 1)


def lines(columns: Sequence[Column], gap: int) -> Iterator[Line]:
    """Group titles where there are any, headings, units, then one line a row."""
    if any(column.group for column in columns):
        yield (("# " + _group_titles(columns, gap), "bold"),)
    yield ((("# " + (" " * gap).join(column.padded(column.heading) for column in columns).rstrip()), "bold"),)
    if any(column.unit for column in columns):
        yield ((("# " + (" " * gap).join(column.padded(column.unit) for column in columns)), "dim"),)
    for row in range(len(columns[0].cells)):
        yield tuple(_row(columns, row, gap))


def _row(columns: Sequence[Column], row: int, gap: int) -> Iterator[Segment]:
    lead = " " * _MARGIN
    for column in columns:
        text, style = column.cells[row]
        room = " " * (column.width - len(text))
        yield lead + ("" if column.left else room), ""
        yield text, style
        lead = (room if column.left else "") + " " * gap


def _group_titles(columns: Sequence[Column], gap: int) -> str:
    titles = []
    for title, members in groupby(columns, key=lambda column: column.group):
        widths = [column.width for column in members]
        room = sum(widths) + gap * (len(widths) - 1)
        titles.append(f" {title} ".center(room, "-")[:room] if title else " " * room)
    return (" " * gap).join(titles)
