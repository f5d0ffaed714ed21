"""Benchmarks as lines over message size: colour, marker and label of each, and how one is drawn.

Colours are told apart by people with red-green blindness too; markers differ as well, so that colour is never alone.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from raybench.documents.run.point import Point
from raybench.reports.plots import figure
from raybench.reports.plots.svg import PAGE, SERIES, WRONG
from raybench.reports.rows import Table, is_unstable
from raybench.reports.text import printable
from raybench.units import format_bytes

_MARKERS = "os^DvPX*<h"
_LINES: dict[str, Any] = {"out-of-place": "-", "in-place": (0, (4, 2))}


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One benchmark of a plot."""

    table: Table
    label: str
    colour: str
    marker: str


def series_of(tables: Sequence[Table]) -> list[list[Series]]:
    """Tables with their looks, in equal groups of at most ten: one figure each."""
    looks = list(zip(SERIES, _MARKERS, strict=True))
    every = [
        Series(table=table, label=label, colour=looks[number % len(looks)][0], marker=looks[number % len(looks)][1])
        for number, (table, label) in enumerate(zip(tables, labels(tables), strict=True))
    ]
    figures = -(-len(every) // len(looks))
    return [every[len(every) * part // figures : len(every) * (part + 1) // figures] for part in range(figures)]


def labels(tables: Sequence[Table]) -> tuple[str, ...]:
    """The shortest text that tells tables apart: names, or titles without the words that all share."""
    names = [printable(table.name) for table in tables]
    words = [table.title.split() for table in tables]
    if len(set(names)) < len(names):
        shared = set(words[0]).intersection(*words)
        names = [" ".join(word for word in title if word not in shared or word == title[0]) for title in words]
    return tuple(name.lstrip("_") or "?" for name in names)  # matplotlib leaves out labels that begin with "_"


def new_figure(label: str, *, emulated: bool) -> tuple[Any, Any]:
    """A figure and its axes over message size."""
    return figure.new_figure(x_label="message size (bytes)", y_label=label, emulated=emulated)


def draw(axes: Any, series: Series, value: Callable[[Point, float], float], *, largest: float = math.inf) -> None:
    """A line a place: ``value(point, seconds)`` of the median, and shaded of its interval, up to ``largest`` bytes."""
    for index, place in enumerate(series.table.places):
        measured = (row.places[index] for row in series.table.rows if row.message_bytes <= largest)
        points = [point for point in measured if point is not None]
        if points:
            both = len(series.table.places) > 1
            label = series.label + (f" ({place})" if both and place == "in-place" else "")
            _draw_place(axes, series, points, value, label=label, line=_LINES[place] if both else "-")


def _draw_place(
    axes: Any, series: Series, points: Sequence[Point], value: Callable[[Point, float], float], *, label: str, line: Any
) -> None:
    sizes = [point.message_bytes for point in points]
    values = [value(point, point.seconds.median) for point in points]
    style = {"color": series.colour, "linewidth": 1.6, "marker": series.marker, "markersize": 4.5}
    drawn = axes.plot(sizes, values, label=label, linestyle=line, **style)[0]
    drawn.set_markevery([position for position, point in enumerate(points) if not is_unstable(point)])
    bounds = [point.interval_seconds or (point.seconds.median,) * 2 for point in points]
    ends = [sorted(value(point, second) for second in pair) for point, pair in zip(points, bounds, strict=True)]
    axes.fill_between(sizes, *zip(*ends, strict=True), color=series.colour, alpha=0.22, linewidth=0)
    _mark(axes, series, list(zip(points, values, strict=True)))


def _mark(axes: Any, series: Series, values: Sequence[tuple[Point, float]]) -> None:
    """Hollow where unstable, crossed out where elements were wrong."""
    unstable = [(point.message_bytes, value) for point, value in values if is_unstable(point)]
    wrong = [(point.message_bytes, value) for point, value in values if point.wrong_elements]
    hollow = {"mfc": PAGE, "mec": series.colour, "markersize": 5.5, "markeredgewidth": 1.2}
    crossed = {"marker": "x", "markersize": 11, "mew": 2.5, "color": WRONG, "clip_on": False}
    if unstable:
        axes.plot(*zip(*unstable, strict=True), linestyle="none", marker=series.marker, **hollow)
    if wrong:
        axes.plot(*zip(*wrong, strict=True), linestyle="none", **crossed)


def finish(axes: Any, sizes: Sequence[int]) -> None:
    """Message sizes as such on a base-2 axis, those labelled that have room; the legend above the plot."""
    axes.set_xscale("log", base=2)
    measured = sorted(set(sizes))
    figure.x_ticks(axes, measured, [format_bytes(size) for size in measured], logarithmic=True)
    figure.legend(axes.figure)


def plain_log_ticks(axes: Any) -> None:
    """Figures such as 5, 10, 20 on a logarithmic axis instead of powers of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axes.yaxis.set_major_locator(LogLocator(base=10, subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_locator(NullLocator())
