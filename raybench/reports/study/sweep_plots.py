"""Plots of what was swept: throughput over the batch with its fit and knee, time over the parameters with its power."""

from collections.abc import Iterator, Sequence
from typing import Any

from raybench.documents.study.result import StudyResult
from raybench.documents.study.row import TrainingRow
from raybench.documents.study.sweep import LinearFit, PowerFit, SweepAnswer
from raybench.reports.plots.figure import legend, shortened, x_ticks
from raybench.reports.plots.series import plain_log_ticks
from raybench.reports.plots.svg import SERIES, TEXT, Plot, render
from raybench.reports.study.figure import new_figure
from raybench.reports.text import printable

_CURVE_POINTS = 60


def sweep_plots(answer: SweepAnswer, study: StudyResult) -> Iterator[Plot]:
    """The plot of a batch-size or model-size study with a fit; none where nothing was fitted."""
    rows = [row for row in answer.rows if row.samples_per_s and row.step_seconds]
    if isinstance(answer.fit, LinearFit):
        sized = [row for row in rows if row.batch_size_per_rank]
        if len(sized) > 1:
            yield _batch_plot(sized, answer.fit, answer.knee, study)
    elif answer.fit:
        sized = [row for row in rows if row.parameters]
        if len(sized) > 1:
            yield _model_plot(sized, answer.fit, study)


def _between(low: float, high: float) -> list[float]:
    """Numbers from low to high at equal ratios."""
    step = (high / low) ** (1 / (_CURVE_POINTS - 1))
    return [low * step**index for index in range(_CURVE_POINTS)]


def _batch_plot(rows: Sequence[TrainingRow], fit: LinearFit, knee_variant: str | None, study: StudyResult) -> Plot:
    figure, axes = new_figure(study, x_label="batch a rank", y_label="samples/s")
    batches = [row.batch_size_per_rank or 0 for row in rows]
    rates = [row.samples_per_s or 0.0 for row in rows]
    ranks = rows[0].world_size
    curve = _between(batches[0], batches[-1])
    fitted = [ranks * batch / (fit.fixed_seconds + fit.each_seconds * batch) for batch in curve]
    axes.plot(curve, fitted, "--", color=TEXT, linewidth=1, label="fit")
    axes.plot(batches, rates, marker="o", color=SERIES[0], linewidth=1.6, label="measured")
    knee = next((row.batch_size_per_rank for row in rows if row.variant == knee_variant), None)
    if knee is not None:
        axes.axvline(knee, color=SERIES[1], linewidth=1, linestyle=":", label="knee")
    axes.set_xscale("log", base=2)
    x_ticks(axes, batches, [str(batch) for batch in batches], logarithmic=True)
    axes.set_ylim(bottom=0)
    legend(figure)
    told = ", ".join(f"{number:.1f} at {batch}" for batch, number in zip(batches, rates, strict=True))
    return render(
        figure,
        name="batch",
        title="Throughput over the batch",
        description=f"Samples a second: {told} samples a rank.",
        caption="Dashed: a fixed time and a time a sample, fitted. Dotted: from here no doubling gains 10 %.",
    )


def _model_plot(rows: Sequence[TrainingRow], fit: PowerFit, study: StudyResult) -> Plot:
    figure, axes = new_figure(study, x_label="parameters (millions)", y_label="time/step (ms)")
    ordered = sorted(rows, key=lambda row: row.parameters or 0)
    sizes = [float(row.parameters or 0) for row in ordered]
    times = [1e3 * (row.step_seconds or 0.0) for row in ordered]
    curve = _between(sizes[0], sizes[-1])
    fitted = [1e3 * fit.scale_seconds * size**fit.exponent for size in curve]
    axes.plot([size / 1e6 for size in curve], fitted, "--", color=TEXT, linewidth=1, label="fit")
    axes.plot([size / 1e6 for size in sizes], times, "o", color=SERIES[0], label="measured")
    for number, (row, size, time) in enumerate(zip(ordered, sizes, times, strict=True)):
        _name_point(axes, row.variant, (size / 1e6, time), number, len(ordered))
    axes.set_xscale("log")
    x_ticks(axes, [size / 1e6 for size in sizes], [f"{size / 1e6:.4g}" for size in sizes], logarithmic=True)
    axes.set_yscale("log")
    plain_log_ticks(axes)
    legend(figure)
    told = ", ".join(f"{row.variant} {time:.3g} ms" for row, time in zip(ordered, times, strict=True))
    return render(
        figure,
        name="models",
        title="Time over the size of the model",
        description=printable(f"Step times: {told}."),
        caption=f"Dashed: parameters to the power of {fit.exponent:.2f}, fitted; 1 would be in proportion to them.",
    )


def _name_point(axes: Any, name: object, at: tuple[float, float], number: int, count: int) -> None:
    """A name above or below its point by turns, towards the middle of the plot: neighbours leave each other room."""
    above = number % 2 == 0
    style: Any = {
        "textcoords": "offset points",
        "xytext": (0, 7 if above else -7),
        "va": "bottom" if above else "top",
        "ha": "left" if 2 * number < count - 1 else "right",
        "fontsize": 9.5,
    }
    axes.annotate(shortened(name, 24), at, **style)
