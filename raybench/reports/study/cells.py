"""Figures of a study's result as cells; a dash where there is none. Pure."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from raybench.documents.run.communication import HIGH_OVERHEAD, MODERATE_OVERHEAD, OverheadBand, band_of_overhead
from raybench.documents.study.ratio import Ratio
from raybench.reports.model import Cell, Grid
from raybench.reports.text import bandwidth, fixed, percent, percent_beside, printable
from raybench.units import format_seconds

RowType = TypeVar("RowType")
Columns = Sequence[tuple[str, Callable[[RowType], Cell]]]
_BAND_TONES: Mapping[OverheadBand, str] = {"low": "", "moderate": "warn", "high": "bad"}
_WIDEST = 100.0
NONE = Cell(text="-")


def text(value: object, tone: str = "") -> Cell:
    """A word of the result, made printable."""
    return NONE if value is None or value == "" else Cell(text=printable(value), tone=tone)


def seconds(value: float | None, tone: str = "") -> Cell:
    """A duration."""
    return NONE if value is None else Cell(text=format_seconds(value), tone=tone)


def rate(value: float | None, tone: str = "") -> Cell:
    """Samples or tokens a second."""
    if value is None:
        return NONE
    return Cell(text=fixed(value, 7) if value < 1e6 else f"{value / 1e6:.2f}M", tone=tone)


def gb_per_second(value: float | None) -> Cell:
    """A bandwidth."""
    return NONE if value is None else Cell(text=bandwidth(value))


def share(value: float | None, tone: str = "") -> Cell:
    """A fraction as a percentage."""
    return NONE if value is None else Cell(text=percent(value), tone=tone)


def loss(value: float | None) -> Cell:
    """A training's or a validation's."""
    return NONE if value is None else Cell(text=f"{value:.4f}")


def memory(value: int | None, kind: str | None = None) -> Cell:
    """GiB; with ``rss`` where they are those of a process, and no device's."""
    if value is None:
        return NONE
    return Cell(text=f"{value / 2**30:.2f} GiB" + (" rss" if kind == "rss" else ""))


def money(value: float | None, currency: str) -> Cell:
    """An amount with its currency; more digits for small ones."""
    return NONE if value is None else Cell(text=f"{value:.2f} {currency}" if value >= 1 else f"{value:.4f} {currency}")


def overhead(value: float | None) -> Cell:
    """The share of a step that waits for communication, with its band."""
    if value is None:
        return NONE
    band = band_of_overhead(value)
    return Cell(text=f"{percent_beside(value, (MODERATE_OVERHEAD, HIGH_OVERHEAD))} {band}", tone=_BAND_TONES[band])


ESTIMATOR = "ratios: geometric mean over pairs of repeats, with its 95 % interval; 'rows': of the figures shown"


def times(ratio: Ratio | None) -> Cell:
    """A ratio as ``4.87x``, with that of the rows where it is another: ``1.41x (rows 9.30x)``."""
    return _of_ratio(ratio, lambda value: f"{value:.2f}x", "strong")


def ratio_share(ratio: Ratio | None) -> Cell:
    """The same as a percentage."""
    return _of_ratio(ratio, percent, "")


def _of_ratio(ratio: Ratio | None, shown: Callable[[float], str], tone: str) -> Cell:
    if ratio is None:
        return NONE
    if ratio.of_rows is None or not ratio.differs:
        return Cell(text=shown(ratio.value), tone=tone)
    return Cell(text=f"{shown(ratio.value)} (rows {shown(ratio.of_rows)})", tone="warn")


def is_narrow(ratio: Ratio) -> bool:
    """Whether a ratio has an interval that says something: two repeats may give one of many powers of ten."""
    return ratio.low is not None and ratio.high is not None and ratio.high <= _WIDEST * ratio.low


def interval(ratio: Ratio | None, *, unit: str = "x", scale: float = 1.0) -> Cell:
    """The interval of a ratio: ``4.61-5.02x``."""
    if ratio is None or ratio.low is None or ratio.high is None:
        return NONE
    if not is_narrow(ratio):
        return Cell(text="too few repeats", tone="warn")
    digits = 2 if scale == 1 else 0
    return Cell(text=f"{ratio.low * scale:.{digits}f} to {ratio.high * scale:.{digits}f}{unit}")


def grid_of(columns: Columns[RowType], rows: Sequence[RowType]) -> Grid:
    """A table: a row each, a column each."""
    return Grid(
        headings=tuple(heading for heading, _ in columns),
        rows=tuple(tuple(cell(row) for _, cell in columns) for row in rows),
    )


def present(columns: Columns[RowType], rows: Sequence[RowType], keep: int = 1) -> Grid:
    """The columns that have anything in them, the first ones always."""
    grid = grid_of(columns, rows)
    used = [index for index in range(len(columns)) if index < keep or any(row[index] != NONE for row in grid.rows)]
    return Grid(
        headings=tuple(grid.headings[index] for index in used),
        rows=tuple(tuple(row[index] for index in used) for row in grid.rows),
    )
