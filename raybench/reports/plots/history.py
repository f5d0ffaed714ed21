"""Plots of a history: figures over runs, each as a multiple of its first level, and where they change."""

from collections.abc import Iterator, Sequence
from typing import Any

from raybench.documents.comparison.history import History, HistorySeries
from raybench.reports.plots.figure import legend, new_figure, shortened
from raybench.reports.plots.svg import SERIES, TEXT, Plot, plot_style, render

_MOST_LINES = 6
_MARKERS = "os^DvP"


def history_plots(history: History, series: Sequence[HistorySeries]) -> Iterator[Plot]:
    """One figure: the first of ``series``, those that have two runs or more."""
    shown = [one for one in series if len(one.values) > 1]
    if not shown:
        return
    with plot_style():
        plot = _plot(history, shown[:_MOST_LINES], len(shown) - _MOST_LINES)
    yield plot


def _plot(history: History, shown: Sequence[HistorySeries], omitted: int) -> Plot:
    emulated = all("emulated True" in one.machine for one in shown)
    figure, axes = new_figure(x_label="run, oldest first", y_label="of the first run's figure", emulated=emulated)
    for number, one in enumerate(shown):
        every = max(1, len(one.runs) // 12)
        style: Any = {"color": SERIES[number], "marker": _MARKERS[number], "markersize": 4, "markevery": every}
        places = [run + 1 for run in one.runs]
        axes.plot(
            places, [value / one.values[0] for value in one.values], linewidth=1.3, label=shortened(one.label), **style
        )
    changes = sorted({change.run for one in shown for change in one.changes})
    for run in changes:
        axes.axvline(run + 0.5, color=TEXT, linewidth=0.9, linestyle=(0, (4, 3)), alpha=0.7)
    axes.margins(x=0.02)
    axes.xaxis.get_major_locator().set_params(integer=True)
    legend(figure)
    told = ", ".join(f"{history.runs[run].started_at[:16]} (run {history.runs[run].run_id})" for run in changes)
    more = f" {omitted} more figures are in the table alone." if omitted > 0 else ""
    caption = f"Each figure over that of its first run. Dashed: {told}." if told else "Each over that of its first run."
    return render(
        figure,
        name="history",
        title="Figures over runs",
        description=f"Changes: {told}." if told else "No figure has changed.",
        caption=caption + more,
    )
