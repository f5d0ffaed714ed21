"""Plots of a run over message size: bus bandwidth, latency of small messages, spread over launches.

Matplotlib's Figure without pyplot: nothing global is kept, and no display is needed.
"""

from collections.abc import Sequence

from raybench.documents.run.point import Point
from raybench.reports.plots.series import Series, draw, finish, new_figure, plain_log_ticks, series_of
from raybench.reports.plots.svg import TEXT, Plot, plot_style, render
from raybench.reports.rows import Table
from raybench.reports.text import bandwidth
from raybench.units import format_bytes, format_seconds

SMALL_BYTES = 64 * 1024
_CAPTION = "Shaded: 95 % interval of the median. Hollow: unstable. Crossed out: wrong results. Dashed: in place."


def size_plots(tables: Sequence[Table], *, emulated: bool) -> tuple[Plot, ...]:
    """Bandwidth, latency and launches, at most ten benchmarks a figure; none where nothing was measured."""
    groups = series_of(tables)
    with plot_style():
        drawn = [
            plot(group, suffix=f"-{number}" if number else "", emulated=emulated)
            for plot in (_bandwidth, _latency, _launches)
            for number, group in enumerate(groups)
        ]
    return tuple(plot for plot in drawn if plot is not None)


def _busbw(point: Point, seconds: float) -> float:
    return point.message_bytes / seconds / 1e9 * point.bus_factor


def _microseconds(point: Point, seconds: float) -> float:  # noqa: ARG001 - one signature for both plots
    return seconds * 1e6


def _bandwidth(group: Sequence[Series], *, suffix: str, emulated: bool) -> Plot:
    figure, axes = new_figure("bus bandwidth (GB/s)", emulated=emulated)
    for series in group:
        draw(axes, series, _busbw)
    finish(axes, [point.message_bytes for series in group for point in series.table.points])
    axes.set_ylim(bottom=0)
    peaks = (
        f"{series.label} {bandwidth(max(point.busbw_gb_per_s for point in series.table.points))} GB/s"
        for series in group
    )
    return render(
        figure,
        name=f"bandwidth{suffix}",
        title="Bus bandwidth over message size",
        description=f"Peaks: {', '.join(peaks)}. {_CAPTION}",
        caption=_CAPTION,
    )


def _latency(group: Sequence[Series], *, suffix: str, emulated: bool) -> Plot | None:
    sizes = {point.message_bytes for series in group for point in series.table.points}
    small = sorted(size for size in sizes if size <= SMALL_BYTES)
    if len(small) < 2:
        return None
    figure, axes = new_figure("time per operation (us)", emulated=emulated)
    for series in group:
        draw(axes, series, _microseconds, largest=SMALL_BYTES)
    axes.set_yscale("log")
    finish(axes, small)
    plain_log_ticks(axes)
    lows = (f"{series.label} {format_seconds(series.table.points[0].seconds.median)}" for series in group)
    return render(
        figure,
        name=f"latency{suffix}",
        title=f"Time of small messages, up to {format_bytes(SMALL_BYTES)}",
        description=f"At the smallest size: {', '.join(lows)}. {_CAPTION}",
        caption=_CAPTION,
    )


def _launches(group: Sequence[Series], *, suffix: str, emulated: bool) -> Plot | None:
    """Each launch's median against the median of all, percent; benchmarks side by side at each size."""
    repeated = [series for series in group if any(len(point.launches) > 1 for point in series.table.points)]
    if not repeated:
        return None
    figure, axes = new_figure("median of a launch against all (%)", emulated=emulated)
    worst = 0.0
    for number, series in enumerate(repeated):
        aside = 2 ** (0.07 * (number - (len(repeated) - 1) / 2))
        dots = _launch_changes(series.table)
        worst = max(worst, *(abs(change) for _, change in dots))
        style = {"marker": series.marker, "markersize": 4, "markerfacecolor": "none", "color": series.colour}
        axes.plot(*zip(*dots, strict=True), linestyle="none", label=series.label, **style)
        axes.lines[-1].set_xdata([size * aside for size, _ in dots])
    axes.axhline(0, color=TEXT, linewidth=0.8)
    axes.set_ylim(-max(1.0, 1.1 * worst), max(1.0, 1.1 * worst))
    finish(axes, [point.message_bytes for series in repeated for point in series.table.points])
    text = f"A mark a launch and size. Medians of launches are at most {worst:.1f} % off the median of all."
    return render(
        figure, name=f"launches{suffix}", title="Spread over launches (--repeats)", description=text, caption=text
    )


def _launch_changes(table: Table) -> list[tuple[int, float]]:
    """(message bytes, percent off the median of all) of each launch."""
    return [
        (point.message_bytes, 100 * (launch / point.seconds.median - 1))
        for point in table.points
        for launch in point.launch_medians_seconds
    ]
