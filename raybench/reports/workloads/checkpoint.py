"""How a checkpoint benchmark is shown: a row a layout, mode and place. Pure."""

import shlex
from collections.abc import Callable, Iterator, Sequence

from raybench.documents.run.benchmark import BenchmarkResult
from raybench.documents.run.checkpoint import CheckpointPoint
from raybench.reports.model import Cell, Section
from raybench.reports.text import bandwidth, printable
from raybench.reports.workloads.cells import grid_of, megabytes, milliseconds, number, rate, verdict
from raybench.reports.workloads.display import Json, Row, display_of_points, points_of
from raybench.stats import median
from raybench.units import format_seconds


def _sections(benchmarks: Sequence[BenchmarkResult]) -> Iterator[Section]:
    for benchmark in benchmarks:
        points = points_of([benchmark], CheckpointPoint)
        if points:
            notes = [f"{printable(point.label)}: FAILED: {printable(point.failed)}" for point in points if point.failed]
            notes += [
                f"{printable(point.label)}: kept; raybench checkpoint --inspect {printable(shlex.quote(point.kept))}"
                for point in points
                if point.kept
            ]
            notes += [printable(warning) for warning in benchmark.warnings]
            notes.append("blocked: training waits; durable: until all is stored; GB/s is of tensors, durable")
            title = f"Checkpoint of {printable(benchmark.model)}"
            yield Section(title=title, grid=grid_of(_COLUMNS, points), notes=tuple(notes))


def _median(name: str) -> Callable[[CheckpointPoint], Cell]:
    def cell(point: CheckpointPoint) -> Cell:
        values = getattr(point, name)
        return milliseconds(median(values) if values else None)

    return cell


def _checked(point: CheckpointPoint) -> Cell:
    return Cell(text="FAILED", tone="bad") if point.failed else verdict(point.verified)


_COLUMNS: tuple[tuple[str, Callable[[CheckpointPoint], Cell]], ...] = (
    ("layout, mode, place", lambda point: Cell(text=printable(point.label))),
    ("blocked (ms)", _median("blocked_seconds")),
    ("durable (ms)", _median("durable_seconds")),
    ("load (ms)", _median("load_seconds")),
    ("MB", lambda point: number(megabytes(point.tensor_bytes or None))),
    ("stored MB", lambda point: number(megabytes(point.stored_bytes or None))),
    ("save GB/s", lambda point: rate(point.save_gb_per_s)),
    (
        "a rank",
        lambda point: rate(None if point.save_gb_per_s is None else point.save_gb_per_s / point.writing_ranks),
    ),
    ("load GB/s", lambda point: rate(point.load_gb_per_s)),
    ("as saved", _checked),
)


def _row(point: CheckpointPoint) -> Row:
    save, load = (
        "-" if gb_per_s is None else f"{bandwidth(gb_per_s)} GB/s"
        for gb_per_s in (point.save_gb_per_s, point.load_gb_per_s)
    )
    blocked = f"blocked {format_seconds(median(point.blocked_seconds))}" if point.blocked_seconds else ""
    wrong = f"WRONG: {printable(point.wrong)}" if point.wrong else ""
    partial = "" if point.complete else "partial"
    return printable(point.label), f"save {save}, load {load}", wrong or partial or blocked


def _summary(point: CheckpointPoint) -> Json:
    return {
        "failed": point.failed,
        "complete": point.complete,
        "save_gb_per_s": point.save_gb_per_s,
        "load_gb_per_s": point.load_gb_per_s,
        "tensor_bytes": point.tensor_bytes,
        "stored_bytes": point.stored_bytes,
        "verified": point.verified,
    }


DISPLAY = display_of_points(
    CheckpointPoint,
    sections=_sections,
    row=_row,
    summary=_summary,
    columns=("save_gb_per_s", "load_gb_per_s"),
    plots="raybench.reports.plots.checkpoint:checkpoint_plots",
)
