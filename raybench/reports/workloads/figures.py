"""How a kind whose points are named figures is shown, such as one of an installed package. Pure."""

from collections.abc import Iterator, Sequence

from raybench.documents.run.benchmark import BenchmarkResult
from raybench.documents.run.figures import Figure, FiguresPoint
from raybench.reports.model import Cell, Grid, Section
from raybench.reports.text import fixed, printable
from raybench.reports.workloads.display import Json, Row, display_of_points, points_of
from raybench.units import format_seconds


def _sections(benchmarks: Sequence[BenchmarkResult]) -> Iterator[Section]:
    """One table a benchmark."""
    for benchmark in benchmarks:
        points = points_of([benchmark], FiguresPoint)
        if points:
            title = benchmark.name.replace("_", " ").capitalize()
            yield Section(title=printable(title), grid=_grid(points), notes=_notes(points))


def _grid(points: Sequence[FiguresPoint]) -> Grid:
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


def _notes(points: Sequence[FiguresPoint]) -> tuple[str, ...]:
    """Why a point failed, what its check found, and its stability warnings."""
    failed = [f"{point.label}: FAILED: {point.failed}" for point in points if point.failed]
    wrong = [f"{point.label}: WRONG: {point.wrong}" for point in points if point.wrong]
    warned = [f"{point.label}: {warning}" for point in points for warning in point.warnings]
    return tuple(map(printable, (*failed, *wrong, *warned)))


def _row(point: FiguresPoint) -> Row:
    """With its first two figures."""
    figures = ", ".join(printable(f"{one.name} {_text(one)}") for one in point.figures[:2])
    wrong = f"WRONG: {printable(point.wrong)}" if point.wrong else ""
    return printable(point.label), figures, wrong or ("" if point.complete else "partial")


def _csv(point: FiguresPoint) -> Json:
    """All figures in one cell: ``requests=812 1/s; errors=0``."""
    return {"figures": "; ".join(f"{one.name}={_text(one)}" for one in point.figures)}


def _summary(point: FiguresPoint) -> Json:
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


DISPLAY = display_of_points(
    FiguresPoint, sections=_sections, row=_row, summary=_summary, columns=("figures",), figures=_csv
)
