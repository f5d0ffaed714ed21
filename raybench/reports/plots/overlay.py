"""Several results over each other, a panel a kind of curve: a colour a result, a marker a curve of it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from raybench.documents.comparison.overlay import Curve, Panel
from raybench.reports.plots.colours import with_colours
from raybench.reports.plots.figure import HEIGHT_INCHES, WIDTH_INCHES, shortened
from raybench.reports.plots.svg import SERIES, plot_style
from raybench.units import format_bytes
from raybench.whole_file import write_whole

_MARKERS = "os^DvPX*<h"
_MOST_LABELS = 12


def save_overlay(panels: Sequence[Panel], path: Path) -> None:
    """Write them, one below the other, in the format of the file's name. Raises OSError."""
    from io import BytesIO

    with plot_style():
        buffer = BytesIO()
        kind = path.suffix.lower().removeprefix(".")
        metadata: Any = {"Date": None} if kind == "svg" else {"CreationDate": None} if kind == "pdf" else None
        with_colours(overlay_figure(panels)).savefig(buffer, format=kind, dpi=150, metadata=metadata)
    write_whole(path, buffer.getvalue())


def overlay_figure(panels: Sequence[Panel]) -> Any:
    """Matplotlib's figure of at least one panel."""
    from matplotlib.figure import Figure  # 0.4 s that only a plot pays

    figure = Figure(figsize=(WIDTH_INCHES, HEIGHT_INCHES * len(panels)), layout="constrained")
    for number, panel in enumerate(panels, 1):
        _draw(figure.add_subplot(len(panels), 1, number), panel)
    return figure


def _draw(axes: Any, panel: Panel) -> None:
    names = list(dict.fromkeys(curve.name for curve in panel.curves))
    for curve in panel.curves:
        _line(axes, curve, _MARKERS[names.index(curve.name) % len(_MARKERS)], alone=len(names) == 1)
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
    axes.set_title(panel.title, loc="left", fontsize=10, weight="bold")
    if panel.emulated:  # plots get copied into slides
        axes.set_title("EMULATED: no network", loc="right", fontsize=10, weight="bold")
    axes.set_axisbelow(True)
    if not panel.sizes:
        axes.xaxis.get_major_locator().set_params(integer=True)
    if panel.sizes:
        sizes = sorted({place for curve in panel.curves for place in curve.places})
        axes.set_xscale("log", base=2)
        shown = sizes[:: -(-len(sizes) // 8)]
        axes.set_xticks(shown, [format_bytes(int(size)) for size in shown])
        axes.minorticks_off()
    if panel.title != "loss":
        axes.set_ylim(0, 1.05 * max(value for curve in panel.curves for value in curve.values))
    if len(panel.curves) <= _MOST_LABELS:
        axes.legend(fontsize=9)


def _line(axes: Any, curve: Curve, marker: str, *, alone: bool) -> None:
    label = shortened(curve.label) if alone else f"{shortened(curve.label, 20)}: {shortened(curve.name, 24)}"
    style: Any = {"color": SERIES[curve.side % len(SERIES)], "marker": marker, "markersize": 4, "linewidth": 1.4}
    every = max(1, len(curve.places) // 12)
    axes.plot(curve.places, curve.values, label=label.lstrip("_"), markevery=every, **style)
