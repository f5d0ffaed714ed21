"""Figures of a study's result as cells; a dash where there is none. Pure."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from raybench.documents.training import HIGH_OVERHEAD, MODERATE_OVERHEAD, OverheadBand, band_of_overhead
from raybench.reports.text import bandwidth, fixed, inert, percent, percent_beside
from raybench.reports.view import Cell, Grid
from raybench.units import format_seconds

Json = Mapping[str, Any]
Columns = Sequence[tuple[str, Callable[[Json], Cell]]]
_BAND_TONES: Mapping[OverheadBand, str] = {"low": "", "moderate": "warn", "high": "bad"}
_WIDEST = 100.0
_DIFFERENT = 0.02
NONE = Cell(text="-")


def text(value: object, tone: str = "") -> Cell:
    """A word of the result, made inert."""
    return NONE if value is None or value == "" else Cell(text=inert(value), tone=tone)


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


def memory(value: int | None, kind: str | None = None) -> Cell:
    """GiB; with ``rss`` where they are those of a process, and no device's."""
    if value is None:
        return NONE
    return Cell(text=f"{value / 2**30:.2f} GiB" + (" rss" if kind == "rss" else ""))


def money(value: float | None, currency: str) -> Cell:
    """An amount with its currency; more digits for small ones."""
    return NONE if value is None else Cell(text=f"{value:.2f} {currency}" if value >= 1 else f"{value:.4f} {currency}")


def overhead(value: float | None) -> Cell:
    """The share of a step that waits for communication, with its band: below 20 %, to 40 %, above."""
    if value is None:
        return NONE
    band = band_of_overhead(value)
    return Cell(text=f"{percent_beside(value, (MODERATE_OVERHEAD, HIGH_OVERHEAD))} {band}", tone=_BAND_TONES[band])


ESTIMATOR = "ratios: geometric mean over pairs of repeats, with its 95 % interval; 'rows': of the figures shown"


def times(ratio: Json | None) -> Cell:
    """A ratio as ``4.87x``, with that of the rows where it is another: ``1.41x (rows 9.30x)``."""
    if not ratio:
        return NONE
    rows = f" (rows {ratio['of_rows']:.2f}x)" if differs(ratio) else ""
    return Cell(text=f"{ratio['value']:.2f}x{rows}", tone="warn" if rows else "strong")


def ratio_share(ratio: Json | None) -> Cell:
    """The same as a percentage."""
    if not ratio:
        return NONE
    rows = f" (rows {percent(ratio['of_rows'])})" if differs(ratio) else ""
    return Cell(text=f"{percent(ratio['value'])}{rows}", tone="warn" if rows else "")


def differs(ratio: Json) -> bool:
    """Whether pairs of repeats and the rows give ratios that a reader would not take for one."""
    rows = ratio.get("of_rows")
    return bool(rows) and abs(rows / ratio["value"] - 1) > _DIFFERENT


def is_narrow(ratio: Json) -> bool:
    """Whether a ratio has an interval that says something: two repeats may give one of many powers of ten."""
    return ratio["low"] is not None and ratio["high"] is not None and bool(ratio["high"] <= _WIDEST * ratio["low"])


def interval(ratio: Json | None, *, unit: str = "x", scale: float = 1.0) -> Cell:
    """The interval of a ratio: ``4.61-5.02x``."""
    if not ratio or ratio["low"] is None:
        return NONE
    if not is_narrow(ratio):
        return Cell(text="too few repeats", tone="warn")
    digits = 2 if scale == 1 else 0
    return Cell(text=f"{ratio['low'] * scale:.{digits}f} to {ratio['high'] * scale:.{digits}f}{unit}")


def grid_of(columns: Columns, rows: Sequence[Json]) -> Grid:
    """A table: a row each, a column each."""
    return Grid(
        headings=tuple(heading for heading, _ in columns),
        rows=tuple(tuple(cell(row) for _, cell in columns) for row in rows),
    )


def present(columns: Columns, rows: Sequence[Json], keep: int = 1) -> Grid:
    """The columns that have anything in them, the first ones always."""
    grid = grid_of(columns, rows)
    used = [index for index in range(len(columns)) if index < keep or any(row[index] != NONE for row in grid.rows)]
    return Grid(
        headings=tuple(grid.headings[index] for index in used),
        rows=tuple(tuple(row[index] for index in used) for row in grid.rows),
    )
