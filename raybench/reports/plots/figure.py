"""An empty plot and what every plot needs: labels that do not cover each other, a legend that fits, an honest stamp.

Matplotlib's Figure without pyplot: nothing global is kept, and no display is needed. A figure is narrow, so that its
text can be read on a screen of 390 pixels, too.
"""

import math
from collections.abc import Sequence
from typing import Any

from raybench.reports.text import printable

WIDTH_INCHES, HEIGHT_INCHES = 6.4, 3.8
_LABEL_POINTS = 10.0
_LEGEND_POINTS = 9.5
_CHARACTER = 0.6  # mean width of a character over the size of the font
_AXES_POINTS = WIDTH_INCHES * 72 - 70
_MOST_NAME = 30


def new_figure(*, x_label: str, y_label: str, emulated: bool, height: float = HEIGHT_INCHES) -> tuple[Any, Any]:
    """A figure and its axes. Emulated ones say so in the figure itself: plots get copied into slides."""
    from matplotlib.figure import Figure  # 0.4 s that only a report pays

    figure = Figure(figsize=(WIDTH_INCHES, height), layout="constrained")
    axes = figure.add_subplot()
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    axes.set_axisbelow(True)
    if emulated:
        axes.set_title("EMULATED: no network", loc="right", fontsize=_LABEL_POINTS, weight="bold")
    return figure, axes


def legend(figure: Any) -> None:
    """The legend above the axes, in as many columns as its labels have room for; none for one label alone."""
    labels = [label for axes in figure.axes for label in axes.get_legend_handles_labels()[1]]
    if not labels:
        return
    widest = max(map(len, labels)) * _CHARACTER * _LEGEND_POINTS + 46
    columns = max(1, min(4, int(WIDTH_INCHES * 72 // widest)))
    figure.legend(loc="outside upper left", ncols=columns, fontsize=_LEGEND_POINTS, handlelength=2.4, columnspacing=1.2)


def shortened(name: object, most: int = _MOST_NAME) -> str:
    """A name that fits: names of nodes and variants differ at their ends as often as at their beginnings."""
    text = printable(name)
    return text if len(text) <= most else f"{text[: most // 2 - 1]}..{text[-(most // 2 - 1) :]}"


def x_ticks(axes: Any, values: Sequence[float], labels: Sequence[str], *, logarithmic: bool = False) -> None:
    """A tick at every value; of labels that would cover each other those of the larger values stay."""
    ordered = sorted(zip(values, labels, strict=True))
    places = _places([value for value, _ in ordered], logarithmic=logarithmic)
    kept: set[int] = set()
    free = math.inf
    for index in range(len(ordered) - 1, -1, -1):
        half = len(ordered[index][1]) * _CHARACTER * _LABEL_POINTS / 2 + 3
        if places[index] + half <= free:
            kept.add(index)
            free = places[index] - half
    texts = [label if index in kept else "" for index, (_, label) in enumerate(ordered)]
    axes.set_xticks([value for value, _ in ordered], texts, fontsize=_LABEL_POINTS)
    axes.minorticks_off()


def _places(values: Sequence[float], *, logarithmic: bool) -> list[float]:
    """Points from the left end of the axes."""
    scaled = [math.log(value) if logarithmic else value for value in values]
    low, high = scaled[0], scaled[-1]
    return [(value - low) / (high - low or 1.0) * _AXES_POINTS * 0.92 for value in scaled]


def named_rows(axes: Any, names: Sequence[object]) -> range:
    """Positions of horizontal bars with their names beside them, the first on top: long names have room there."""
    positions = range(len(names))
    axes.set_yticks(list(positions), [shortened(name) for name in names], fontsize=_LABEL_POINTS)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")
    return positions


def rows_height(count: int) -> float:
    """Inches of a figure with so many horizontal bars."""
    return max(2.2, 1.5 + 0.42 * count)
