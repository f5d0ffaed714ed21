"""A training run in short: a row a metric, a column a strategy, and what to choose where there are several. Pure."""

from collections.abc import Callable, Sequence

from raybench.documents.run.training.point import TrainingPoint
from raybench.documents.run.training.threshold import TIGHT_MEMORY
from raybench.reports.model import Cell, Grid
from raybench.reports.text import fixed, percent, printable

Metric = tuple[str, Callable[[TrainingPoint], str | None]]
_GIB = 2**30


def summary_grid_of(points: Sequence[TrainingPoint]) -> Grid:
    """Steps, their times, throughput, losses and memory; rows that no strategy has are left out."""
    rows = [(title, [value(point) for point in points]) for title, value in _METRICS]
    return Grid(
        headings=("metric", *(printable(point.label) for point in points)),
        rows=tuple(
            (Cell(text=title), *(Cell(text=text or "-") for text in texts)) for title, texts in rows if any(texts)
        ),
    )


def advice_of(points: Sequence[TrainingPoint]) -> str | None:
    """Which strategy to use after one run; None with one alone, or where only adapters are left to choose from."""
    whole = [point for point in points if point.complete and point.label.partition(" ")[0] in ("ddp", "fsdp")]
    if len(whole) < 2:
        return None
    best = max(whole, key=lambda point: point.samples_per_s)
    other = max((point for point in whole if point is not best), key=lambda point: point.samples_per_s)
    ratio = best.samples_per_s / other.samples_per_s
    text = f"{printable(best.label)} is {ratio:.2f}x as fast as {printable(other.label)}"
    need, alternative = _peak(best), _peak(other)
    if need and alternative:
        whose = "process memory (RSS)" if best.memory_kind == "rss" else "memory"
        text += f", with {need / alternative:.2f} of its {whose}"
    total = best.memory_limit_bytes
    if need and alternative and total and need > TIGHT_MEMORY * float(total) and alternative < need:
        text += f"; at {percent(need / float(total))} of the device it is tight: test both with the batch that you need"
    return text + ". One run decides nothing within its noise: raybench study strategy repeats them in turn"


def _peak(point: TrainingPoint) -> float | None:
    known = point.peak_allocated_bytes
    return float(known) if known else None


def _gibibytes(name: str) -> Callable[[TrainingPoint], str | None]:
    def text(point: TrainingPoint) -> str | None:
        known = point.memory.get(name)
        return f"{float(known) / _GIB:.3f}" if known else None

    return text


def _fragmentation(point: TrainingPoint) -> str | None:
    """What the allocator held at most beyond what it ever handed out at once."""
    reserved, allocated = (point.memory.get(f"peak_{name}_bytes") for name in ("reserved", "allocated"))
    return percent(max(1 - float(allocated) / float(reserved), 0.0)) if reserved and allocated else None


def _steps(point: TrainingPoint) -> str:
    done = len(point.samples_seconds)
    return str(done) if point.complete else f"{done} of {point.steps_asked}"


def _spread(point: TrainingPoint) -> str:
    return percent((point.seconds.max - point.seconds.min) / point.seconds.mean)


_METRICS: tuple[Metric, ...] = (
    ("parameters", lambda point: None if point.parameter_count is None else f"{point.parameter_count:,}"),
    ("num_steps", _steps),
    ("avg_step_time (s)", lambda point: f"{point.seconds.mean:.4f}"),
    ("min_step_time (s)", lambda point: f"{point.seconds.min:.4f}"),
    ("max_step_time (s)", lambda point: f"{point.seconds.max:.4f}"),
    ("max - min, of the mean", _spread),
    ("throughput (samples/s)", lambda point: fixed(point.samples_per_s, 9)),
    ("throughput (tokens/s)", lambda point: None if point.tokens_per_s is None else fixed(point.tokens_per_s, 9)),
    ("avg_loss", lambda point: f"{sum(point.losses) / len(point.losses):.4f}"),
    ("final_loss", lambda point: f"{point.losses[-1]:.4f}"),
    ("peak memory allocated (GiB)", _gibibytes("peak_allocated_bytes")),
    ("avg memory allocated (GiB)", _gibibytes("mean_allocated_bytes")),
    ("peak memory reserved (GiB)", _gibibytes("peak_reserved_bytes")),
    ("fragmentation, of reserved", _fragmentation),
    ("peak memory of the process (GiB)", _gibibytes("peak_bytes")),  # on a CPU
    ("avg memory of the process (GiB)", _gibibytes("mean_bytes")),
)
