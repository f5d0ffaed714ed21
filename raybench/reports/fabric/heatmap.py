"""The matrix of a rail as a heatmap: rows send, columns receive; slow and failed tests are boxed."""

from collections.abc import Mapping, Sequence
from typing import Any

from raybench.documents.fabric import FabricRail, FabricReport
from raybench.reports.builders.fabric_tables import Matrix, figure_text
from raybench.reports.plots.svg import GRID, TEXT, Plot, plot_style, render
from raybench.reports.text import printable

_CELL_TEXT_HOSTS = 16
_NAMED_HOSTS = 40
_BOXES = 400
_LOG_RATIO = 5.0


def fabric_heatmap(report: FabricReport, rail: FabricRail, *, name: str) -> Plot | None:
    """One rail; None where no test of it gave a figure. A test that was not made stays empty."""
    hosts, matrix = report.hosts_of(rail.name), report.matrix(rail.name)
    if not any(test.value for test in matrix.values()):
        return None
    with plot_style():
        figure, axes = _figure(len(hosts))
        _draw(figure, axes, hosts, matrix, report.unit)
        if report.emulated:
            axes.set_title("EMULATED", fontsize=11, weight="bold")
        text = _description(matrix, rail, report.unit)
        return render(figure, name=name, title=f"Rail {printable(rail.name)}", description=text, caption=text)


def _figure(host_count: int) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    side = min(8.0, max(3.8, 1.8 + 0.42 * host_count))
    figure = Figure(figsize=(side + 1.4, side), layout="constrained")
    axes = figure.add_subplot()
    axes.grid(visible=False)
    axes.set(xlabel="to host", ylabel="from host")
    return figure, axes


def _draw(figure: Any, axes: Any, hosts: Sequence[str], matrix: Matrix, unit: str) -> None:
    import numpy as np
    from matplotlib.colors import LogNorm, Normalize

    index = {host: number for number, host in enumerate(hosts)}
    cells = np.full((len(hosts), len(hosts)), np.nan)
    for (source, other), test in matrix.items():
        if test.value:
            cells[index[source], index[other]] = test.value
    low, high = np.nanmin(cells), np.nanmax(cells)
    norm = LogNorm(low, high) if high > _LOG_RATIO * low else Normalize(0, high)
    colours = "cividis_r" if unit == "us" else "cividis"
    image = axes.imshow(np.ma.masked_invalid(cells), cmap=colours, norm=norm, interpolation="none", zorder=1)
    _marks(axes, index, matrix, norm)
    step = 1 if len(hosts) <= _NAMED_HOSTS else -(-len(hosts) // 20)
    ticks = list(range(0, len(hosts), step))
    labels = [_short(hosts[tick]) for tick in ticks]
    axes.xaxis.set_ticks(ticks, labels, fontsize=8, rotation=90)
    axes.yaxis.set_ticks(ticks, labels, fontsize=8)
    bar = figure.colorbar(image, ax=axes, shrink=0.8, label=unit)
    bar.outline.set_visible(False)


def _marks(axes: Any, index: Mapping[str, int], matrix: Matrix, norm: Any) -> None:
    from matplotlib.patches import Rectangle

    small = len(index) <= _CELL_TEXT_HOSTS
    boxes = [(pair, test) for pair, test in matrix.items() if test.verdict in {"fail", "error"}][:_BOXES]
    for (source, other), test in matrix.items():
        if small:
            dark = test.value and norm(test.value) < 0.55
            colour = TEXT if test.value is None else "white" if dark else "black"
            text = figure_text(test.value)
            axes.text(index[other], index[source], text, ha="center", va="center", fontsize=8, color=colour)
    for (source, other), test in boxes:
        corner = (index[other] - 0.5, index[source] - 0.5)
        face = GRID if test.value is None else "none"
        style: Any = {"edgecolor": "#d00000", "facecolor": face, "linewidth": 1.4, "zorder": 2}
        axes.add_patch(Rectangle(corner, 1, 1, **style))


def _short(name: str) -> str:
    shown = printable(name)
    return shown if len(shown) <= 18 else f"..{shown[-16:]}"


def _description(matrix: Matrix, rail: FabricRail, unit: str) -> str:
    values = [test.value for test in matrix.values() if test.value]
    slow = sum(test.verdict == "fail" for test in matrix.values())
    failed = sum(test.value is None for test in matrix.values())
    return (
        f"{len(matrix)} tests of {rail.hosts} hosts on rail {printable(rail.name)}: {min(values):.4g} to "
        f"{max(values):.4g} {unit}; {slow} slow and {failed} failed are boxed."
    )
