"""How a point of named figures is shown: in a table, on the screen, in the summary and in a CSV row. Pure."""

from collections.abc import Sequence
from typing import Any

from raybench.documents.figures import Figure, FiguresPoint
from raybench.reports.text import fixed, printable
from raybench.reports.view import Cell, Grid
from raybench.units import format_seconds


def figures_grid(points: Sequence[FiguresPoint]) -> Grid:
    """A row a point, a column a figure."""
    columns = list(dict.fromkeys((figure.name, figure.unit) for point in points for figure in point.figures))
    headings = (printable(f"{name} ({unit})" if unit else name) for name, unit in columns)
    rows = (
        (
            Cell(text=printable(point.label) + ("" if point.complete else " (partial)")),
            *(_figure(point, *column) for column in columns),
            Cell(text=format_seconds(point.seconds.median) if point.seconds else "-"),
            _checked(point),
        )
        for point in points
    )
    return Grid(headings=("point", *headings, "median", "checked"), rows=tuple(rows))


def figures_notes(points: Sequence[FiguresPoint]) -> tuple[str, ...]:
    """Why a point failed, what its check found, and reasons to doubt it."""
    failed = [f"{point.label}: FAILED: {point.failed}" for point in points if point.failed]
    wrong = [f"{point.label}: WRONG: {point.wrong}" for point in points if point.wrong]
    doubts = [f"{point.label}: {warning}" for point in points for warning in point.warnings]
    return tuple(map(printable, (*failed, *wrong, *doubts)))


def figures_in_short(point: FiguresPoint) -> str:
    """Its first two figures, for a row of the screen."""
    return ", ".join(printable(f"{one.name} {_text(one)}") for one in point.figures[:2])


def figures_text(point: FiguresPoint) -> str:
    """All figures in one cell: ``requests=812 1/s; errors=0``."""
    return "; ".join(f"{one.name}={_text(one)}" for one in point.figures)


def figures_summary(point: FiguresPoint) -> dict[str, Any]:
    """The point in summary.json."""
    return {
        "failed": point.failed,
        "complete": point.complete,
        "figures": {one.name: {"value": one.value, "unit": one.unit} for one in point.figures},
        "verified": point.verified,
    }


def _figure(point: FiguresPoint, name: str, unit: str) -> Cell:
    value = next((one.value for one in point.figures if (one.name, one.unit) == (name, unit)), None)
    return Cell(text="-" if value is None else fixed(value, 9))


def _checked(point: FiguresPoint) -> Cell:
    if point.failed is not None:
        return Cell(text="FAILED", tone="bad")
    if point.wrong is not None:
        return Cell(text="WRONG", tone="bad")
    return Cell(text="not checked" if point.verified is None else "yes")


def _text(figure: Figure) -> str:
    value = "unknown" if figure.value is None else f"{figure.value:.6g}"
    return f"{value} {figure.unit}".rstrip()
