"""Plots of training: loss and step time over steps, and what a step is made of."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from raybench.documents.run.training.point import TrainingPoint
from raybench.reports.plots.figure import legend, named_rows, new_figure, rows_height, shortened
from raybench.reports.plots.svg import PAGE, SERIES, Plot, render
from raybench.reports.text import count_of, printable

MOST_LINES = 6
MOST_DRAWN = 400  # points of a line; more steps are drawn as means of neighbours
_MARKERS = "os^DvP"
_HATCHES = ("", "++", "//", "\\\\", "xx", "..", "")
_PHASES = {
    "data": "data",
    "copy": "copy to the device",
    "forward": "forward",
    "backward": "backward",
    "gradient_sync": "gradient sync",
    "optimizer": "optimizer",
}


def training_plots(points: Sequence[TrainingPoint], *, emulated: bool) -> Iterator[Plot]:
    """Loss, step time and phases of the strategies of a run."""
    points = [point for point in points if point.failed is None]
    shown = points[:MOST_LINES]
    omitted = f" Only in the table: {len(points) - MOST_LINES} more." if points[MOST_LINES:] else ""
    yield from _loss(shown, omitted, emulated=emulated)
    yield from _step_time(shown, omitted, emulated=emulated)
    yield from _phases(points, emulated=emulated)


def _loss(points: Sequence[TrainingPoint], omitted: str, *, emulated: bool) -> Iterator[Plot]:
    lines = [(point, [loss for loss in point.losses if math.isfinite(loss)]) for point in points]
    if not any(len(losses) > 1 for _, losses in lines):
        return
    figure, axes = new_figure(x_label="step", y_label="loss", emulated=emulated)
    for number, (point, _) in enumerate(lines):
        steps = [(step + 1, loss) for step, loss in enumerate(point.losses) if math.isfinite(loss)]
        if steps:
            places, means, _, _ = _neighbours(steps)
            _line(axes, number, point, places, means)
        _validation(axes, number, point)
    legend(figure)
    lost = sum(len(point.losses) - len(losses) for point, losses in lines)
    broken = f" {count_of(lost, 'step')} with a loss that is not a number left out." if lost else ""
    told = ", ".join(
        f"{shortened(point.label)} {losses[0]:.4g} to {losses[-1]:.4g}" for point, losses in lines if losses
    )
    held = " Dashed: of the samples held out." if any(point.validation for point in points) else ""
    yield render(
        figure,
        name="loss",
        title="Training loss over steps",
        description=f"Loss of the first and the last step: {told}.",
        caption=f"Mean over ranks of each step's loss, first launch.{held}{_merged(points)}{broken}{omitted}",
    )


def _validation(axes: Any, number: int, point: TrainingPoint) -> None:
    """The loss of held-out samples, after so many timed steps."""
    known = [(one.step, one.loss) for one in point.validation if one.loss is not None and math.isfinite(one.loss)]
    if known:
        style: Any = {"color": SERIES[number], "marker": _MARKERS[number], "mfc": PAGE, "markersize": 5}
        label = f"{shortened(point.label, 26)} (validation)"
        axes.plot(*zip(*known, strict=True), linewidth=1.3, linestyle=(0, (4, 2)), label=printable(label), **style)


def _step_time(points: Sequence[TrainingPoint], omitted: str, *, emulated: bool) -> Iterator[Plot]:
    if not any(len(point.samples_seconds) > 1 for point in points):
        return
    unit, scale = _unit(max(point.seconds.max for point in points))
    figure, axes = new_figure(x_label="timed step", y_label=f"step time ({unit})", emulated=emulated)
    for number, point in enumerate(points):
        steps = [(step + 1, seconds * scale) for step, seconds in enumerate(point.samples_seconds)]
        places, means, lows, highs = _neighbours(steps)
        _line(axes, number, point, places, means)
        spread = point.rank_step_seconds
        if len(spread) == len(steps):
            _, _, lows, _ = _neighbours([(step + 1, low * scale) for step, (low, _) in enumerate(spread)])
            _, _, _, highs = _neighbours([(step + 1, high * scale) for step, (_, high) in enumerate(spread)])
        axes.fill_between(places, lows, highs, color=SERIES[number], alpha=0.25, linewidth=0)
    axes.set_ylim(bottom=0)
    axes.margins(x=0.02)
    legend(figure)
    ranks = all(len(point.rank_step_seconds) == len(point.samples_seconds) for point in points)
    shaded = "Shaded: from the fastest to the slowest rank." if ranks else ""
    told = ", ".join(f"{shortened(point.label)} {point.seconds.median * scale:.4g} {unit}" for point in points)
    yield render(
        figure,
        name="step-time",
        title="Step time over steps",
        description=f"Median step: {told}. {shaded}",
        caption=f"Line: until the last rank has ended the step. {shaded}{_merged(points)}{omitted}",
    )


def _phases(points: Sequence[TrainingPoint], *, emulated: bool) -> Iterator[Plot]:
    """A bar a strategy: the mean step by phase, and what no phase accounts for."""
    points = [point for point in points if point.phases]
    if not points:
        return
    unit, scale = _unit(max(point.seconds.mean for point in points))
    height = rows_height(len(points)) + 0.4
    figure, axes = new_figure(x_label=f"mean time of a step ({unit})", y_label="", emulated=emulated, height=height)
    rows = named_rows(axes, [point.label for point in points])
    left = [0.0] * len(points)
    for number, (name, title) in enumerate((*_PHASES.items(), ("", "other"))):
        seconds = [point.phases.get(name, 0.0) if name else _other(point) for point in points]
        if max(seconds) > 0:
            colour = SERIES[number] if name else SERIES[6]
            style: Any = {"color": colour, "hatch": _HATCHES[number], "edgecolor": PAGE, "linewidth": 0.8}
            axes.barh(rows, [scale * one for one in seconds], left=left, height=0.6, label=title, **style)
            left = [start + scale * one for start, one in zip(left, seconds, strict=True)]
    legend(figure)
    told = "; ".join(f"{shortened(point.label)}: {_shares(point)}" for point in points)
    yield render(
        figure,
        name="phases",
        title="Phases of a step",
        description=told,
        caption=f"Mean over steps and ranks. {told}.",
    )


def _other(point: TrainingPoint) -> float:
    return max(point.seconds.mean - sum(point.phases.get(name, 0.0) for name in _PHASES), 0.0)


def _shares(point: TrainingPoint) -> str:
    """``forward 31 %, backward 58 %``."""
    mean = point.seconds.mean
    parts = [(title, point.phases[name] / mean) for name, title in _PHASES.items() if name in point.phases]
    parts += [("other", _other(point) / mean)]
    return ", ".join(f"{title} {share:.0%}" for title, share in parts if share >= 0.005)


def _line(axes: Any, number: int, point: TrainingPoint, places: Sequence[float], values: Sequence[float]) -> None:
    every = max(1, len(places) // 12)
    style: Any = {"color": SERIES[number], "marker": _MARKERS[number], "markersize": 4.5, "markevery": every}
    name = shortened(point.label, 26) + ("" if point.complete else " (partial)")
    axes.plot(places, values, linewidth=1.5, label=printable(name), **style)


def _neighbours(steps: Sequence[tuple[int, float]]) -> tuple[list[float], list[float], list[float], list[float]]:
    """Place, mean, least and most of each run of neighbouring steps: as many steps a run as MOST_DRAWN asks for."""
    width = _width(len(steps))
    runs = [steps[first : first + width] for first in range(0, len(steps), width)]
    values = [[value for _, value in run] for run in runs]
    places = [(run[0][0] + run[-1][0]) / 2 for run in runs]
    return places, [sum(one) / len(one) for one in values], list(map(min, values)), list(map(max, values))


def _width(count: int) -> int:
    return -(-count // MOST_DRAWN)


def _merged(points: Sequence[TrainingPoint]) -> str:
    width = _width(max(len(point.samples_seconds) for point in points))
    return f" Each point is the mean of {width} steps." if width > 1 else ""


def _unit(seconds: float) -> tuple[str, float]:
    return ("s", 1.0) if seconds >= 1 else ("ms", 1e3)
