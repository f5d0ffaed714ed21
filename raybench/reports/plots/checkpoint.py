"""Plots of a checkpoint benchmark: how long training is blocked against how long storing takes, and GB/s a rank."""

from collections.abc import Iterator, Sequence
from typing import Any

from raybench.documents.run.checkpoint import CheckpointPoint
from raybench.reports.plots.figure import legend, named_rows, new_figure, rows_height, shortened
from raybench.reports.plots.svg import PAGE, SERIES, TEXT, Plot, render
from raybench.reports.text import count_of
from raybench.stats import median


def checkpoint_plots(points: Sequence[CheckpointPoint], *, emulated: bool) -> Iterator[Plot]:
    """Times and rates of the places, layouts and modes that were measured."""
    measured = [point for point in points if point.durable_seconds]
    if not measured:
        return
    failed = len(points) - len(measured)
    omitted = f" {count_of(failed, 'place')} without a figure: see the table." if failed else ""
    yield _times(measured, omitted, emulated=emulated)
    yield _rates(measured, omitted, emulated=emulated)


def _times(points: Sequence[CheckpointPoint], omitted: str, *, emulated: bool) -> Plot:
    unit, scale = _unit(max(max(point.durable_seconds) for point in points))
    height = rows_height(2 * len(points))
    figure, axes = new_figure(x_label=f"time of a save ({unit})", y_label="", emulated=emulated, height=height)
    rows = named_rows(axes, [point.label for point in points])
    for offset, name, colour, hatch in ((-0.2, "blocked", SERIES[1], ""), (0.2, "durable", SERIES[0], "//")):
        samples = [getattr(point, f"{name}_seconds") for point in points]
        _bars(axes, [row + offset for row in rows], samples, scale, label=name, color=colour, hatch=hatch)
    axes.set_xlim(left=0)
    legend(figure)
    told = "; ".join(
        f"{shortened(point.label)}: {_median_text(point.blocked_seconds, scale, unit)} blocked, "
        f"{_median_text(point.durable_seconds, scale, unit)} durable"
        for point in points
    )
    return render(
        figure,
        name="checkpoint-times",
        title="Checkpoint: time blocked against time until durable",
        description=told,
        caption=f"Medians over saves; lines: the fastest and the slowest save. Blocked: training waits; "
        f"durable: until all is stored.{omitted}",
    )


def _rates(points: Sequence[CheckpointPoint], omitted: str, *, emulated: bool) -> Plot:
    height = rows_height(2 * len(points))
    figure, axes = new_figure(x_label="GB/s a rank", y_label="", emulated=emulated, height=height)
    rows = named_rows(axes, [point.label for point in points])
    looks = ((-0.2, "save", "durable_seconds", SERIES[0], ""), (0.2, "load", "load_seconds", SERIES[2], "//"))
    for offset, name, times, colour, hatch in looks:
        samples = [
            tuple(point.tensor_bytes / seconds / point.writing_ranks / 1e9 for seconds in getattr(point, times))
            for point in points
        ]
        _bars(axes, [row + offset for row in rows], samples, 1.0, label=name, color=colour, hatch=hatch)
    axes.set_xlim(left=0)
    legend(figure)
    told = "; ".join(
        f"{shortened(point.label)}: {_rate_text(point.save_gb_per_s, point)} saved, "
        f"{_rate_text(point.load_gb_per_s, point)} loaded"
        for point in points
    )
    return render(
        figure,
        name="checkpoint-rates",
        title="Checkpoint: GB/s of each rank",
        description=told,
        caption=f"Tensor bytes over the time until durable, and over the time to load, of each rank.{omitted}",
    )


def _bars(axes: Any, rows: Sequence[float], samples: Sequence[Sequence[float]], scale: float, **look: Any) -> None:
    """Medians with whiskers from the least to the most; a row without samples has none."""
    known = [(row, [scale * one for one in values]) for row, values in zip(rows, samples, strict=True) if values]
    if not known:
        return
    middles = [median(values) for _, values in known]
    ends = [(middle - min(values), max(values) - middle) for middle, (_, values) in zip(middles, known, strict=True)]
    style: Any = {"edgecolor": PAGE, "linewidth": 0.6, "capsize": 3, "ecolor": TEXT}
    axes.barh([row for row, _ in known], middles, height=0.36, xerr=list(zip(*ends, strict=True)), **style, **look)


def _median_text(seconds: Sequence[float], scale: float, unit: str) -> str:
    return f"{scale * median(seconds):.4g} {unit}" if seconds else "not measured"


def _rate_text(gb_per_s: float | None, point: CheckpointPoint) -> str:
    return "not measured" if gb_per_s is None else f"{gb_per_s / point.writing_ranks:.3g} GB/s a rank"


def _unit(seconds: float) -> tuple[str, float]:
    return ("s", 1.0) if seconds >= 1 else ("ms", 1e3)
