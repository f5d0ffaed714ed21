"""Plots of a run over message size: bus bandwidth, latency of small messages, spread over launches.

Matplotlib's Figure without pyplot: nothing global is kept, and no display is needed.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

from raybench.reports.rows import Table, is_doubtful
from raybench.reports.svg import PAGE, SERIES, TEXT, WRONG, Plot, plot_style, render
from raybench.reports.text import bandwidth, inert
from raybench.results import Point
from raybench.units import format_bytes, format_seconds

SMALL_BYTES = 64 * 1024
_MARKERS = "os^DvPX*"
_LINES = {"out-of-place": "-", "in-place": (0, (4, 2))}
_MOST_LABELS = 13


def size_plots(tables: Sequence[Table], *, emulated: bool) -> tuple[Plot, ...]:
    """Bandwidth, latency and launches, eight benchmarks a figure; none where nothing was measured."""
    groups = [tables[start : start + len(SERIES)] for start in range(0, len(tables), len(SERIES))]
    with plot_style():
        drawn = [
            draw(group, suffix=f"-{number}" if number else "", emulated=emulated)
            for draw in (_bandwidth, _latency, _launches)
            for number, group in enumerate(groups)
        ]
    return tuple(plot for plot in drawn if plot is not None)


def _bandwidth(tables: Sequence[Table], *, suffix: str, emulated: bool) -> Plot:
    figure, axes = _figure("bus bandwidth (GB/s)", emulated=emulated)
    for number, table in enumerate(tables):
        _draw_table(axes, table, number, _busbw)
    _finish(axes, [point.message_bytes for table in tables for point in table.points])
    axes.set_ylim(bottom=0)
    peaks = (
        f"{_label(table)} {bandwidth(max(point.busbw_gb_per_s for point in table.points))} GB/s" for table in tables
    )
    return render(
        figure,
        name=f"bandwidth{suffix}",
        title="Bus bandwidth over message size",
        description=f"Peaks: {', '.join(peaks)}. Shaded: 95 % interval of the median.",
    )


def _latency(tables: Sequence[Table], *, suffix: str, emulated: bool) -> Plot | None:
    sizes = {point.message_bytes for table in tables for point in table.points if point.message_bytes <= SMALL_BYTES}
    if len(sizes) < 2:
        return None
    figure, axes = _figure("time per operation (us)", emulated=emulated)
    for number, table in enumerate(tables):
        _draw_table(axes, table, number, _microseconds, largest=SMALL_BYTES)
    axes.set_yscale("log")
    _finish(axes, sorted(sizes))
    _plain_log_ticks(axes)
    lows = (f"{_label(table)} {format_seconds(table.points[0].seconds.median)}" for table in tables)
    return render(
        figure,
        name=f"latency{suffix}",
        title=f"Time of small messages, up to {format_bytes(SMALL_BYTES)}",
        description=f"At the smallest size: {', '.join(lows)}. Shaded: 95 % interval of the median.",
    )


def _launches(tables: Sequence[Table], *, suffix: str, emulated: bool) -> Plot | None:
    repeated = [table for table in tables if any(len(point.launch_medians_seconds) > 1 for point in table.points)]
    if not repeated:
        return None
    figure, axes = _figure("median of a launch against all (%)", emulated=emulated)
    worst = 0.0
    for number, table in enumerate(repeated):
        shift = 2 ** (0.07 * (number - (len(repeated) - 1) / 2))
        dots = [
            (point.message_bytes * shift, 100 * (launch / point.seconds.median - 1))
            for point in table.points
            for launch in point.launch_medians_seconds
        ]
        worst = max(worst, *(abs(change) for _, change in dots))
        axes.plot(
            *zip(*dots, strict=True),
            linestyle="none",
            marker=_MARKERS[number],
            markersize=4,
            markerfacecolor="none",
            color=SERIES[number],
            label=_label(table),
        )
    axes.axhline(0, color=TEXT, linewidth=0.8)
    axes.set_ylim(-max(1.0, 1.1 * worst), max(1.0, 1.1 * worst))
    _finish(axes, [point.message_bytes for table in repeated for point in table.points])
    return render(
        figure,
        name=f"launches{suffix}",
        title="Spread over launches (--repeats)",
        description=f"Medians of single launches are at most {worst:.1f} % off the median of all.",
    )


def _figure(label: str, *, emulated: bool) -> tuple[Any, Any]:
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(8.4, 4.2), layout="constrained")
    axes = figure.add_subplot()
    axes.set_ylabel(label)
    axes.set_xlabel("message size (bytes)")
    if emulated:
        stamp: Any = {"fontsize": 26, "color": TEXT, "alpha": 0.13, "ha": "center", "va": "center", "weight": "bold"}
        axes.text(0.5, 0.5, "EMULATED: no network", transform=axes.transAxes, **stamp)
    return figure, axes


def _busbw(point: Point, seconds: float) -> float:
    return point.message_bytes / seconds / 1e9 * point.bus_factor


def _microseconds(point: Point, seconds: float) -> float:  # noqa: ARG001 - one signature for both plots
    return seconds * 1e6


def _draw_table(
    axes: Any, table: Table, number: int, value: Callable[[Point, float], float], *, largest: float = math.inf
) -> None:
    """A line a place with the interval shaded; hollow where unstable, crossed out where elements were wrong."""
    colour = SERIES[number]
    for index, place in enumerate(table.places):
        points = [
            point for row in table.rows if (point := row.places[index]) is not None and point.message_bytes <= largest
        ]
        if not points:
            continue
        sizes = [point.message_bytes for point in points]
        values = [value(point, point.seconds.median) for point in points]
        label = _label(table) + (f" ({place})" if place != "out-of-place" else "")
        style = {"linestyle": _LINES[place], "linewidth": 1.6, "marker": _MARKERS[number], "markersize": 4.5}
        line = axes.plot(sizes, values, color=colour, label=label, **style)[0]
        line.set_markevery([position for position, point in enumerate(points) if not is_doubtful(point)])
        _mark(axes, points, sizes, values, colour=colour, marker=_MARKERS[number])
        bounds = [point.interval_seconds or (point.seconds.median,) * 2 for point in points]
        ends = [sorted(value(point, second) for second in pair) for point, pair in zip(points, bounds, strict=True)]
        axes.fill_between(sizes, *zip(*ends, strict=True), color=colour, alpha=0.22, linewidth=0)


def _mark(
    axes: Any, points: Sequence[Point], sizes: Sequence[int], values: Sequence[float], *, colour: str, marker: str
) -> None:
    doubtful = [(size, value) for point, size, value in zip(points, sizes, values, strict=True) if is_doubtful(point)]
    wrong = [(size, value) for point, size, value in zip(points, sizes, values, strict=True) if point.wrong_elements]
    hollow = {"markerfacecolor": PAGE, "markeredgecolor": colour, "markersize": 5.5, "markeredgewidth": 1.2}
    if doubtful:
        axes.plot(*zip(*doubtful, strict=True), linestyle="none", marker=marker, **hollow)
    if wrong:
        axes.plot(*zip(*wrong, strict=True), linestyle="none", marker="x", markersize=11, mew=2.5, color=WRONG)


def _label(table: Table) -> str:
    return inert(table.title).lstrip("_") or "?"


def _finish(axes: Any, sizes: Sequence[int]) -> None:
    """Message sizes as such on a base-2 axis, at most thirteen of them labelled; the legend above the plot."""
    axes.set_xscale("log", base=2)
    measured = sorted(set(sizes))
    step = -(-len(measured) // _MOST_LABELS)
    labelled = measured[::-1][::step][::-1]  # the largest is always labelled
    axes.set_xticks(labelled, [format_bytes(size) for size in labelled])
    axes.minorticks_off()
    axes.figure.legend(loc="outside upper left", ncols=3, fontsize=9, handlelength=2.6, columnspacing=1.4)


def _plain_log_ticks(axes: Any) -> None:
    """Figures such as 5, 10, 20 on a logarithmic axis instead of powers of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator  # noqa: PLC0415

    axes.yaxis.set_major_locator(LogLocator(base=10, subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_locator(NullLocator())
