"""The point-to-point matrix as a heatmap: rows send, columns receive, nodes framed. Readable for 2 to 8000 ranks."""

from collections.abc import Iterator
from typing import Any

from raybench.reports.pairs import PairMatrix, end_text, pair_text, ranked_pairs, slow_ends, unexplained
from raybench.reports.plots.heat_cells import HeatCells, heat_cells
from raybench.reports.plots.svg import TEXT, WRONG, Plot, plot_style, render
from raybench.reports.text import bandwidth, printable
from raybench.units import format_bytes

_CELL_TEXT_RANKS = 16
_ALL_TICKS_RANKS = 32
_NODE_NAMES = 24
_MARKED_PAIRS = 20
_MARKED_ENDS = 12  # more names would cover each other
_BOLD_CELLS = 72  # beyond, a bold box would hide the row that it marks
_LOG_RATIO = 5.0


def pair_heatmap(matrix: PairMatrix, *, name: str, emulated: bool) -> Plot:
    """One size of a matrix. GB/s on a logarithmic scale where pairs within nodes are far faster than between."""
    cells = heat_cells(matrix)
    with plot_style():
        figure, axes = _figure(cells)
        image = _draw_cells(axes, cells)
        _frame_nodes(axes, matrix, cells)
        _mark_slow(axes, matrix, cells)
        _colour_bar(figure, axes, image)
        if emulated:
            axes.set_title("EMULATED: no network", fontsize=11, weight="bold", pad=20)
        text = _description(matrix, cells)
        return render(
            figure,
            name=name,
            title=f"Point-to-point bandwidth, {format_bytes(matrix.message_bytes)} messages",
            description=text,
            caption=text,
        )


def _figure(cells: HeatCells) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    side = min(7.6, max(3.6, 1.6 + 0.42 * cells.size))
    figure = Figure(figsize=(side + 1.6, side), layout="constrained")
    axes = figure.add_subplot()
    axes.grid(visible=False)
    axes.set(xlabel=f"to {cells.kind}", ylabel=f"from {cells.kind}")
    return figure, axes


def _draw_cells(axes: Any, cells: HeatCells) -> Any:
    import numpy as np
    from matplotlib.colors import LogNorm, Normalize

    values = np.full((cells.size, cells.size), np.nan)
    for place, speed in cells.gb_per_second.items():
        values[place] = speed
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    logarithmic = high > _LOG_RATIO * low
    norm = LogNorm(low, high) if logarithmic else Normalize(0, high)
    image = axes.imshow(np.ma.masked_invalid(values), cmap="cividis", norm=norm, interpolation="none", zorder=1)
    if cells.size <= _CELL_TEXT_RANKS:
        for (row, column), speed in cells.gb_per_second.items():
            dark = norm(speed) < 0.55
            text = f"{speed:.0f}" if speed >= 100 else bandwidth(speed)[:4]
            axes.text(column, row, text, ha="center", va="center", fontsize=9, color="white" if dark else "black")
    _ticks(axes, cells)
    return image


def _ticks(axes: Any, cells: HeatCells) -> None:
    step = 1 if cells.size <= _ALL_TICKS_RANKS else -(-cells.size // 16)
    positions = range(0, cells.size, step)
    texts = [_shortened(cells.labels[position], 12) for position in positions]
    turned = {"rotation": 90} if cells.kind == "node" else {}
    axes.xaxis.set_ticks(list(positions), texts, fontsize=9, **turned)
    axes.yaxis.set_ticks(list(positions), texts, fontsize=9)


def _frame_nodes(axes: Any, matrix: PairMatrix, cells: HeatCells) -> None:
    size = cells.size
    axes.set_xlim(-0.5, size - 0.5)
    axes.set_ylim(size - 0.5, -0.5)
    if cells.kind != "rank":
        return
    edges = [edge - 0.5 for edge in cells.edges]
    thin = len(matrix.groups) > _NODE_NAMES or size > 4 * _ALL_TICKS_RANKS
    for edge in edges:
        for colour, width in (("white", 0.0 if thin else 2.6), (TEXT, 0.5 if thin else 1.1)):
            axes.plot([edge, edge], [-0.5, size - 0.5], color=colour, linewidth=width, zorder=2, clip_on=False)
            axes.plot([-0.5, size - 0.5], [edge, edge], color=colour, linewidth=width, zorder=2, clip_on=False)
    axes.set_xlim(-0.5, size - 0.5)
    axes.set_ylim(size - 0.5, -0.5)
    if len(matrix.groups) <= _NODE_NAMES:
        for (node, _), left, right in zip(matrix.groups, edges, edges[1:], strict=False):
            room = max(3, int((right - left) / size * 70))
            axes.text(
                (left + right) / 2, -0.5 - 0.02 * size, _shortened(node, room), ha="center", va="bottom", fontsize=9
            )


def _shortened(name: str, room: int) -> str:
    """The end of a name that is too long: names of nodes differ there."""
    shown = printable(name)
    return shown if len(shown) <= room else f"..{shown[-max(2, room - 2) :]}"


def _mark_slow(axes: Any, matrix: PairMatrix, cells: HeatCells) -> None:
    """Boxes around row and column of slow nodes and ranks, and around other slow pairs: not colour alone."""
    size, thin = cells.size, cells.size > _BOLD_CELLS
    members = dict(matrix.groups)
    for end in slow_ends(matrix)[:_MARKED_ENDS]:
        places = [cells.of_rank[rank] for rank in ((end.rank,) if end.rank is not None else members[end.node])]
        first, height = min(places), max(places) - min(places) + 1
        _box(axes, (-0.5, first - 0.5), size, height, thin=thin)
        _box(axes, (first - 0.5, -0.5), height, size, thin=thin)
        name = f"rank {end.rank}" if end.rank is not None else _shortened(end.node, 14)
        axes.text(size - 0.3, first + height / 2 - 0.5, f"\u25c0 {name}", va="center", fontsize=9, color=WRONG)
    for pair in unexplained(matrix)[:_MARKED_PAIRS]:
        column, row = (cells.of_rank[rank or 0] for rank in (pair.point.destination_rank, pair.point.source_rank))
        _box(axes, (column - 0.5, row - 0.5), 1, 1, thin=False)


def _box(axes: Any, corner: tuple[float, float], width: float, height: float, *, thin: bool) -> None:
    from matplotlib.patches import Rectangle

    for colour, line in (("white", 0.0 if thin else 3.2), ("#d00000", 0.5 if thin else 1.8)):
        style: Any = {"edgecolor": colour, "linewidth": line, "zorder": 3, "clip_on": False}
        axes.add_patch(Rectangle(corner, width, height, fill=False, **style))


def _colour_bar(figure: Any, axes: Any, image: Any) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    bar = figure.colorbar(image, ax=axes, shrink=0.8, label="GB/s")
    low, high = image.norm.vmin, image.norm.vmax
    if high > _LOG_RATIO * max(low, high / 1e9):
        bar.ax.yaxis.set_major_locator(FixedLocator(list(_log_ticks(low, high))))
    bar.ax.yaxis.set_minor_locator(NullLocator())
    bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}"))
    bar.outline.set_visible(False)


def _log_ticks(low: float, high: float) -> Iterator[float]:
    if low <= 0:
        yield from (high * part / 4 for part in range(5))
        return
    ratio = (high / low) ** 0.25
    yield from (low * ratio**power for power in range(5))


def _description(matrix: PairMatrix, cells: HeatCells) -> str:
    ranked, ends = ranked_pairs(matrix), slow_ends(matrix)
    slow = sum(pair.is_slow for pair in ranked)
    told = "".join(f"; {end_text(end)}" for end in ends[:3])
    told += f"; {_more_ends(len(ends) - 3)}" if len(ends) > 3 else ""
    measured = f"{len(ranked):,} pairs of {len(matrix.ranks):,} ranks"
    if len(ranked) < matrix.possible:
        measured = f"{len(ranked):,} of the {matrix.possible:,} pairs of {len(matrix.ranks):,} ranks were measured"
    boxed = "boxed" if not cells.merged else f"at most {_MARKED_ENDS} ends and {_MARKED_PAIRS} pairs boxed"
    merged = f" {cells.merged}; every pair is in result.json." if cells.merged else ""
    return f"{measured}, {slow:,} of them slow ({boxed}){told}. Slowest: {pair_text(ranked[0])}.{merged}"


def _more_ends(count: int) -> str:
    return "1 more slow node or rank" if count == 1 else f"{count:,} more slow nodes or ranks"
