"""An empty plot of a study.

Matplotlib's Figure without pyplot: nothing global is kept, and no display is needed.
"""

from typing import Any

from raybench.reports.study_cells import Json
from raybench.reports.svg import TEXT


def new_figure(content: Json, *, x_label: str, y_label: str) -> tuple[Any, Any]:
    """A figure and its axes, stamped where the study was emulated."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - 0.4 s that only a report pays

    figure = Figure(figsize=(8.4, 4.2), layout="constrained")
    axes = figure.add_subplot()
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    axes.set_axisbelow(True)
    if content["emulated"]:
        stamp: Any = {"fontsize": 26, "color": TEXT, "alpha": 0.13, "ha": "center", "va": "center", "weight": "bold"}
        axes.text(0.5, 0.5, "EMULATED: no network", transform=axes.transAxes, **stamp)
    return figure, axes


def legend(figure: Any) -> None:
    """The legend, above the axes."""
    figure.legend(loc="outside upper left", ncols=4, fontsize=9, handlelength=2.6, columnspacing=1.4)
