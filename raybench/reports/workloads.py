"""Training, memory and checkpoint benchmarks as plain rows of text, for every kind of report. Pure."""

import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from raybench.documents.benchmark import BenchmarkResult
from raybench.documents.checkpoint import CheckpointPoint
from raybench.documents.communication import HIGH_OVERHEAD, MODERATE_OVERHEAD, UNKNOWN
from raybench.documents.figures import FiguresPoint
from raybench.documents.memory import MemoryPoint
from raybench.documents.training import TrainingPoint
from raybench.reports.figures_point import figures_grid, figures_notes
from raybench.reports.text import bandwidth, fixed, percent, percent_beside, printable
from raybench.reports.training_summary import advice_of, summary_grid_of
from raybench.reports.view import Cell, Grid
from raybench.stats import deviation, median
from raybench.units import format_seconds

PointKind = TypeVar("PointKind")

_GIB = 2**30
_BAND_TONES = {"high": "bad", "moderate to high": "warn", "moderate": "warn"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One table of a workload, with what is to be said under it."""

    title: str
    grid: Grid
    notes: tuple[str, ...] = ()


def workload_sections(benchmarks: Iterable[BenchmarkResult]) -> tuple[Section, ...]:
    """Every table of the workloads of a run, in their order."""
    measured = [benchmark for benchmark in benchmarks if benchmark.workload]
    return (
        *_training_sections(measured),
        *_memory_sections(measured),
        *_checkpoint_sections(measured),
        *_figures_sections(measured),
    )


def _figures_sections(benchmarks: Sequence[BenchmarkResult]) -> Iterator[Section]:
    """One table a benchmark of any other kind."""
    for benchmark in benchmarks:
        points = [point for point in benchmark.workload if isinstance(point, FiguresPoint)]
        if points:
            title = benchmark.name.replace("_", " ").capitalize()
            yield Section(title=printable(title), grid=figures_grid(points), notes=figures_notes(points))


def _training_sections(benchmarks: Sequence[BenchmarkResult]) -> Iterator[Section]:
    trained = [(one, point) for one in benchmarks for point in one.workload if isinstance(point, TrainingPoint)]
    if not trained:
        return
    points = [point for _, point in trained]
    yield Section(title="Training", grid=_grid(_TRAINING, points), notes=tuple(_training_notes(trained)))
    advice = advice_of(points)
    yield Section(title="Training summary", grid=summary_grid_of(points), notes=(advice,) if advice else ())
    yield Section(title="Phases of a step", grid=_grid(_PHASES, points))
    if any(point.communication.best_exposed is not None for point in points):
        yield Section(title="Communication", grid=_grid(_COMMUNICATION, points), notes=_communication_notes(points))


def _memory_sections(benchmarks: Sequence[BenchmarkResult]) -> Iterator[Section]:
    for benchmark in benchmarks:
        for point in benchmark.workload:
            if isinstance(point, MemoryPoint):
                largest = _largest(point)
                notes = (
                    f"largest batch that fits {point.limit_bytes / _GIB:.3f} GiB: {largest}",
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
            _mebibytes(point.limit_bytes - max(use.reserved, use.peak) if use.peak else None),
            _mebibytes(use.estimate.get("allocated")),
            Cell(text="yes") if use.fits else Cell(text="no", tone="warn"),
        )
        for use in point.uses
    )
    headings = ("batch", *(name.replace("_", " ") for name in names), "headroom", "peak by estimate", "fits")
    return Grid(headings=headings, rows=tuple(rows))


def _mebibytes(value: int | None) -> Cell:
    return Cell(text="-" if value is None else fixed(value / 2**20, 9))


def _checkpoint_sections(benchmarks: Sequence[BenchmarkResult]) -> Iterator[Section]:
    for benchmark in benchmarks:
        points = [point for point in benchmark.workload if isinstance(point, CheckpointPoint)]
        if points:
            notes = [f"{printable(point.label)}: FAILED: {printable(point.failed)}" for point in points if point.failed]
            notes += [
                f"{printable(point.label)}: kept; raybench checkpoint --check {printable(shlex.quote(point.kept))}"
                for point in points
                if point.kept
            ]
            notes += [printable(warning) for warning in benchmark.warnings]
            notes.append("blocked: training stands still; durable: until all is stored; GB/s is of tensors, durable")
            title = f"Checkpoint of {printable(benchmark.parameters.get('model'))}"
            yield Section(title=title, grid=_grid(_CHECKPOINT, points), notes=tuple(notes))


def _grid(columns: Sequence[tuple[str, Callable[[PointKind], Cell]]], points: Sequence[PointKind]) -> Grid:
    return Grid(
        headings=tuple(heading for heading, _ in columns),
        rows=tuple(tuple(cell(point) for _, cell in columns) for point in points),
    )


def _training_notes(trained: Sequence[tuple[BenchmarkResult, TrainingPoint]]) -> Iterator[str]:
    for benchmark, point in trained:
        name = printable(point.label)
        if len(point.launches) > 1:
            means = [sum(launch) / len(launch) for launch in point.launches]
            mean = sum(means) / len(means)
            spread = deviation(means, mean)
            yield (
                f"{name}: {len(means)} launches, mean step {format_seconds(mean)}, stddev {format_seconds(spread)} "
                f"({percent(spread / mean)})"
            )
        if point.memory.get("kind") == "rss":
            yield f"{name}: rss: the peak is the resident memory of the rank's process (RSS), and no device's"
        if point.mfu is None and point.peak_reason:
            yield f"{name}: no MFU: {printable(point.peak_reason)}"
        if point.facts.get("gpu") and point.utilization.get("gpu") is None:
            reason = point.facts.get("gpu_utilization_unknown") or "NVML was not asked"
            yield f"{name}: how busy the GPU was is unknown: {printable(str(reason))}"
        if point.verified is None:
            yield f"{name}: not compared with one process: {printable(point.check.get('reason') or 'no reason given')}"
        if point.straggler_reason is None and not point.stragglers:
            yield f"{name}: no rank holds up the others"
        yield from (f"{name}: {printable(remark)}" for remark in point.communication.remarks)
        yield from (printable(warning) for warning in benchmark.warnings)
        if benchmark.reason:
            yield f"{name}: {printable(benchmark.reason)}"


def _name(point: TrainingPoint) -> Cell:
    name = printable(point.label)
    return Cell(text=name) if point.complete else Cell(text=f"{name} (partial)", tone="warn")


def _communication_notes(points: Sequence[TrainingPoint]) -> tuple[str, ...]:
    notes = ["overhead: exposed communication over the step; low below 20%, moderate to 40%, high above"]
    if any("differencing_of_gradients_only" in point.communication.exposed for point in points):
        notes.append("fsdp: differencing leaves out what gathering parameters costs; the profiler's figure counts")
    notes += [
        f"{printable(one.label)}: overhead unknown: {one.overhead_reason}" for one in points if one.overhead_reason
    ]
    return tuple(notes)


def milliseconds(seconds: float | None) -> Cell:
    """A time for a table; a dash where there is none."""
    return Cell(text="-" if seconds is None else fixed(seconds * 1e3, 8))


def _rate(gb_per_second: float | None) -> Cell:
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


def _memory(point: TrainingPoint) -> Cell:
    memory = point.memory
    if memory.get("kind") == "cuda":
        return gibibytes(float(memory["peak_allocated_bytes"]))
    return Cell(text=f"{float(memory['peak_bytes']) / _GIB:.3f} rss")


def _mfu(point: TrainingPoint) -> Cell:
    return Cell(text=percent(point.mfu), tone="strong" if point.mfu is not None else "")


def _loss(point: TrainingPoint) -> Cell:
    return Cell(text=f"{point.losses[0]:.4f} to {point.losses[-1]:.4f}")


def _phase(name: str) -> Callable[[TrainingPoint], Cell]:
    def cell(point: TrainingPoint) -> Cell:
        seconds = point.phases.get(name)
        if seconds is None:
            return Cell(text="-")
        return Cell(text=f"{fixed(seconds * 1e3, 8)} ({percent(seconds / point.seconds.mean)})")

    return cell


def _exposed(name: str) -> Callable[[TrainingPoint], Cell]:
    def cell(point: TrainingPoint) -> Cell:
        exposed = point.communication.exposed
        if name == "differencing" and name not in exposed:
            name_there = "differencing_of_gradients_only"
            return milliseconds(exposed.get(name_there))
        return milliseconds(exposed.get(name))

    return cell


def _overhead(point: TrainingPoint) -> Cell:
    band = point.overhead_band
    if point.overhead is None or band == UNKNOWN:
        return Cell(text="-") if band is None else Cell(text=UNKNOWN, tone="warn")
    text = percent_beside(point.overhead, (MODERATE_OVERHEAD, HIGH_OVERHEAD))
    return Cell(text=f"{text} {band}", tone=_BAND_TONES.get(band or "", ""))


_TRAINING: tuple[tuple[str, Callable[[TrainingPoint], Cell]], ...] = (
    ("benchmark", _name),
    ("step mean (ms)", lambda point: Cell(text=fixed(point.seconds.mean * 1e3, 8), tone="strong")),
    ("median", lambda point: milliseconds(point.seconds.median)),
    ("p95", lambda point: milliseconds(point.seconds.p95)),
    ("min", lambda point: milliseconds(point.seconds.min)),
    ("max", lambda point: milliseconds(point.seconds.max)),
    ("stddev", lambda point: milliseconds(point.seconds.stddev)),
    ("samples/s", lambda point: Cell(text=fixed(point.samples_per_s, 9), tone="strong")),
    ("tokens/s", lambda point: number(point.tokens_per_s)),
    ("TFLOP/s a rank", lambda point: Cell(text=f"{point.tflop_per_s_per_rank:.4g}")),
    ("MFU", _mfu),
    ("loss", _loss),
    ("peak (GiB)", _memory),
    ("matches single-process reference", lambda point: verdict(point.verified)),
)
_PHASES: tuple[tuple[str, Callable[[TrainingPoint], Cell]], ...] = (
    ("benchmark", _name),
    ("data (ms)", _phase("data")),
    ("forward", _phase("forward")),
    ("backward", _phase("backward")),
    ("gradient sync", _phase("gradient_sync")),
    ("optimizer", _phase("optimizer")),
    ("cpu", lambda point: Cell(text=percent(point.utilization.get("cpu")))),
    ("gpu", lambda point: Cell(text=percent(point.utilization.get("gpu")))),
)
_COMMUNICATION: tuple[tuple[str, Callable[[TrainingPoint], Cell]], ...] = (
    ("benchmark", _name),
    ("exposed by differencing (ms)", _exposed("differencing")),
    ("by profiler", _exposed("profiler")),
    ("by replay", _exposed("replay")),
    ("total", lambda point: milliseconds(point.communication.total)),
    ("computation", lambda point: milliseconds(point.communication.computation)),
    ("idle", lambda point: milliseconds(point.communication.idle)),
    ("MB per step", lambda point: number(_megabytes(point.communication.wire_bytes))),
    ("formula", lambda point: number(_megabytes(point.communication.expected_bytes))),
    ("overhead", _overhead),
)


def _median(name: str) -> Callable[[CheckpointPoint], Cell]:
    def cell(point: CheckpointPoint) -> Cell:
        values = getattr(point, name)
        return milliseconds(median(values) if values else None)

    return cell


def _checked(point: CheckpointPoint) -> Cell:
    return Cell(text="FAILED", tone="bad") if point.failed else verdict(point.verified)


_CHECKPOINT: tuple[tuple[str, Callable[[CheckpointPoint], Cell]], ...] = (
    ("layout, mode, place", lambda point: Cell(text=printable(point.label))),
    ("blocked (ms)", _median("blocked_seconds")),
    ("durable (ms)", _median("durable_seconds")),
    ("load (ms)", _median("load_seconds")),
    ("MB", lambda point: number(_megabytes(point.tensor_bytes or None))),
    ("stored MB", lambda point: number(_megabytes(point.stored_bytes or None))),
    ("save GB/s", lambda point: _rate(point.save_gb_per_s)),
    (
        "a rank",
        lambda point: _rate(None if point.save_gb_per_s is None else point.save_gb_per_s / point.writing_ranks),
    ),
    ("load GB/s", lambda point: _rate(point.load_gb_per_s)),
    ("as saved", _checked),
)


def _megabytes(value: float | None) -> float | None:
    return None if value is None else value / 1e6
