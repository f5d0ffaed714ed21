"""A table as columns where these fit the width, as what may stand in its place, or as one line a figure."""

from collections.abc import Iterator

from raybench.reports.model import Cell, Table
from raybench.reports.terminal.columns import Column, Line, fit, lines, total_width
from raybench.reports.terminal.comment import style_of
from raybench.reports.text import printable


def is_fitting(table: Table, width: int) -> bool:
    """Whether all of its columns have room beside each other."""
    least = 2 * len(table.grid.headings)  # a million cells are not looked at to find that they do not fit
    return least <= width and total_width(columns_of(table), 1) <= width


def table_lines(table: Table, width: int) -> Iterator[Line]:
    """The table, without what may stand in its place: fewer columns, or else one line a figure."""
    if not table.grid.rows:
        return
    kept, gap = fit(columns_of(table), width)
    if total_width(kept, gap) <= width:
        yield from lines(kept, gap)
    else:
        for row in table.grid.rows:
            yield from _stacked(table.grid.headings, row)


def columns_of(table: Table) -> tuple[Column, ...]:
    """The columns that have anything in them. In a table with groups, the unit of a figure stands below its name."""
    grid = table.grid
    titles = [printable(title) for title, span in grid.groups for _ in range(span)]
    return tuple(
        _column(table, index, titles[index] if titles else "")
        for index in range(len(grid.headings))
        if index == 0 or any(row[index].text for row in grid.rows)
    )


def _column(table: Table, index: int, title: str) -> Column:
    grid = table.grid
    name, parenthesis, unit = printable(grid.headings[index]).rpartition(" (")
    is_parted = bool(grid.groups and parenthesis)
    return Column(
        heading=name if is_parted else printable(grid.headings[index]),
        unit=f"({unit}" if is_parted else "",
        cells=tuple((printable(row[index].text), style_of(row[index].tone)) for row in grid.rows),
        group=title,
        keep=grid.keep[index] if grid.keep else 0,
        left=index < table.text_columns and not all(_is_number(row[index].text) for row in grid.rows),
    )


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).isdecimal()


def _stacked(headings: tuple[str, ...], row: tuple[Cell, ...]) -> Iterator[Line]:
    """One line a figure: the name of the row first."""
    yield (("  ", ""), (printable(row[0].text), "bold"))
    name_width = max(len(printable(heading)) for heading in headings)
    for heading, cell in zip(headings[1:], row[1:], strict=True):
        text = (printable(cell.text), style_of(cell.tone))
        yield (("    ", ""), (printable(heading).ljust(name_width), ""), ("  ", ""), text)
