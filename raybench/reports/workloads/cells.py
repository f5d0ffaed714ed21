"""Figures of workloads as cells; a dash where there is none. Pure."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from raybench.reports.model import Cell, Grid
from raybench.reports.text import bandwidth, fixed

RowType = TypeVar("RowType")
_GIB = 2**30


def grid_of(columns: Sequence[tuple[str, Callable[[RowType], Cell]]], points: Sequence[RowType]) -> Grid:
    """A row a point, a column a figure."""
    return Grid(
        headings=tuple(heading for heading, _ in columns),
        rows=tuple(tuple(cell(point) for _, cell in columns) for point in points),
    )


def milliseconds(seconds: float | None) -> Cell:
    """A time for a table; a dash where there is none."""
    return Cell(text="-" if seconds is None else fixed(seconds * 1e3, 8))


def rate(gb_per_second: float | None) -> Cell:
    """A rate in GB/s: one of megabytes a second is no 0.00."""
    return Cell(text="-" if gb_per_second is None else bandwidth(gb_per_second))


def number(value: float | None) -> Cell:
    """A figure for a table; a dash where there is none."""
    return Cell(text="-" if value is None else fixed(value, 9))


def gibibytes(value: float | None) -> Cell:
    """Bytes in GiB."""
    return Cell(text="-" if value is None else f"{value / _GIB:.3f}")


def verdict(verified: bool | None) -> Cell:
    """Whether a check passed."""
    if verified is None:
        return Cell(text="not checked")
    return Cell(text="yes") if verified else Cell(text="WRONG", tone="bad")


def megabytes(value: float | None) -> float | None:
    """Bytes in MB, of 10^6."""
    return None if value is None else value / 1e6
