"""Plots of nodes over time: the worst as lines, the others as a band, what was measured above them."""

from collections.abc import Iterator, Sequence
from typing import Any

from raybench.reports.plots.figure import legend, new_figure, shortened
from raybench.reports.plots.svg import SERIES, TEXT, Plot, render
from raybench.reports.text import count_of, fixed
from raybench.timeline.measures import Lines, NodeLine, band_of
from raybench.timeline.spans import Span

MOST_LINES = 4
_FEW_NODES = 5  # that are drawn all
_MOST_MARKS = 12
_NAME_POINTS = 9.5
_MARKERS = "os^Dv"
_BAND = SERIES[6]


def sample_plots(each: Sequence[Lines], spans: Sequence[Span], *, emulated: bool) -> Iterator[Plot]:
    """A figure a measure, on one axis of time."""
    benchmarks = _benchmarks(spans)
    for lines in each:
        yield _plot(lines, benchmarks, emulated=emulated)


def _plot(lines: Lines, benchmarks: Sequence[tuple[str, float, float]], *, emulated: bool) -> Plot:
    measure = lines.measure
    figure, axes = new_figure(
        x_label="time since the run's start (s)", y_label=f"{measure.title} ({measure.unit})", emulated=emulated
    )
    count = len(lines.nodes) if len(lines.nodes) <= _FEW_NODES else MOST_LINES
    for number, line in enumerate(lines.nodes[:count]):
        _line(axes, number, lines, line)
    rest = lines.nodes[count:]
    if rest:
        least, largest = band_of(rest)
        known = [place for place, value in enumerate(least) if value is not None]
        label = f"{len(rest)} others"
        style: Any = {"color": _BAND, "alpha": 0.3, "linewidth": 0, "label": label}
        axes.fill_between(*([values[place] for place in known] for values in (lines.seconds, least, largest)), **style)
    if measure.unit == "%":
        axes.set_ylim(0, 105)
    else:
        axes.set_ylim(0, axes.get_ylim()[1] * 1.05)
    axes.margins(x=0.02)
    _mark(axes, benchmarks)
    legend(figure)
    worst = "lowest" if measure.lowest_is_worst else "highest"
    told = ", ".join(f"{shortened(line.node)} {fixed(line.mean)} {measure.unit}" for line in lines.nodes[:MOST_LINES])
    caption = f"Means over {lines.seconds[1] - lines.seconds[0]:.3g} s." if len(lines.seconds) > 1 else ""
    nodes = count_of(len(lines.nodes), "node")
    band = f" The {worst} {count} of {nodes}; shaded: from the least to the largest of the others." if rest else ""
    marks = " Above: what was measured then." if benchmarks else ""
    return render(
        figure,
        name=f"samples-{measure.name}",
        title=f"{measure.title} over time",
        description=f"Mean of the nodes with the {worst}: {told}.",
        caption=caption + band + marks,
    )


def _line(axes: Any, number: int, lines: Lines, line: NodeLine) -> None:
    values = [float("nan") if value is None else value for value in line.values]  # a gap where nothing is known
    every = max(1, len(values) // 12)
    style: Any = {"color": SERIES[number], "marker": _MARKERS[number], "markersize": 4, "markevery": every}
    axes.plot(lines.seconds, values, linewidth=1.3, label=shortened(line.node, 26), **style)


def _benchmarks(spans: Sequence[Span]) -> list[tuple[str, float, float]]:
    """Each benchmark of each launch, from its first point to its last."""
    found: dict[tuple[int, int], tuple[str, float, float]] = {}
    for span in spans:
        key = id(span.benchmark), span.time.launch
        name, begin, end = found.get(key, (span.benchmark.name, span.begin, span.end))
        found[key] = name, min(begin, span.begin), max(end, span.end)
    return sorted(found.values(), key=lambda one: one[1])


def _mark(axes: Any, benchmarks: Sequence[tuple[str, float, float]]) -> None:
    """What was measured when, as bars along the top; names where there is room for them."""
    transform = axes.get_xaxis_transform()
    low, high = axes.get_xlim()
    free = low
    shown = [(name, max(begin, low), min(end, high)) for name, begin, end in benchmarks if begin < high and end > low]
    for number, (name, begin, end) in enumerate(shown):
        style: Any = {"color": TEXT, "alpha": 0.35 if number % 2 else 0.6, "linewidth": 4, "solid_capstyle": "butt"}
        axes.plot([begin, end], [1.02, 1.02], transform=transform, clip_on=False, **style)
        width = (len(name) * 0.6 + 1) * _NAME_POINTS / 380 * (high - low)
        if begin >= free and begin + width <= high and number < _MOST_MARKS:
            axes.text(
                begin, 1.04, shortened(name, 24), transform=transform, fontsize=_NAME_POINTS, va="bottom", ha="left"
            )
            free = begin + width
    axes.set_xlim(low, high)
