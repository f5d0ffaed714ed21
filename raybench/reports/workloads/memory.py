"""How a memory benchmark is shown: a table a model and strategy, a row a batch. Pure."""

from collections.abc import Iterator, Sequence

from raybench.documents.run.benchmark import BenchmarkResult
from raybench.documents.run.memory import MemoryPoint, Use
from raybench.reports.model import Cell, Grid, Section
from raybench.reports.text import fixed, percent, printable
from raybench.reports.workloads.display import Json, Row, display_of_points, points_of
from raybench.units import format_bytes

_GIB = 2**30


def _sections(benchmarks: Sequence[BenchmarkResult]) -> Iterator[Section]:
    for point in points_of(benchmarks, MemoryPoint):
        notes = (
            f"largest batch that fits {point.limit_bytes / _GIB:.3f} GiB: {_largest(point)}",
            *([] if point.parameter_count is None else [f"{point.parameter_count:,} parameters"]),
            *map(printable, point.warnings),
        )
        yield Section(title=f"{printable(point.label)} (MiB a rank)", grid=_memory_grid(point), notes=notes)


def _largest(point: MemoryPoint) -> str:
    if point.complete:
        return str(point.largest_batch or "none")
    return f"at least {point.largest_batch}" if point.largest_batch else "unknown"


def _memory_grid(point: MemoryPoint) -> Grid:
    names = ("parameters", "gradients", "optimizer_state", "activations", "peak", "reserved", "fragmentation")
    rows = (
        (
            Cell(text=str(use.batch_size)),
            *(_mebibytes(getattr(use, name) if use.peak else None) for name in names),
            Cell(text=percent(use.fragmentation_share) if use.peak and use.fragmentation_share is not None else "-"),
            _mebibytes(point.limit_bytes - max(use.reserved, use.peak) if use.peak else None),
            _mebibytes(use.estimated_bytes),
            Cell(text="yes") if use.fits else Cell(text="no", tone="warn"),
        )
        for use in point.uses
    )
    headings = (
        "batch",
        *(name.replace("_", " ") for name in names),
        "of reserved",
        "headroom",
        "peak by estimate",
        "fits",
    )
    return Grid(headings=headings, rows=tuple(rows))


def _mebibytes(value: int | None) -> Cell:
    return Cell(text="-" if value is None else fixed(value / 2**20, 9))


def _row(point: MemoryPoint) -> Row:
    least = "" if point.complete else "at least "
    figures = f"largest batch {least}{point.largest_batch or 'none'}"
    return printable(point.label), figures, f"limit {format_bytes(point.limit_bytes)}{' of a process' * point.emulated}"


def _summary(point: MemoryPoint) -> Json:
    return {
        "largest_batch": point.largest_batch,
        "complete": point.complete,
        "limit_bytes": point.limit_bytes,
        "emulated": point.emulated,
        "parameters": point.parameter_count,
        "batch_sizes": {str(use.batch_size): _use(use) for use in point.uses},
    }


def _use(use: Use) -> Json:
    return {
        "fits": use.fits,
        "parameters_bytes": use.parameters,
        "gradients_bytes": use.gradients,
        "optimizer_state_bytes": use.optimizer_state,
        "activations_bytes": use.activations,
        "peak_bytes": use.peak,
        "fragmentation_share": use.fragmentation_share,
    }


DISPLAY = display_of_points(
    MemoryPoint,
    sections=_sections,
    row=_row,
    summary=_summary,
    columns=("largest_batch",),
    plots="raybench.reports.plots.memory:memory_plots",
)
