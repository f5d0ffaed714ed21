"""What one cell of a point-to-point heatmap is: a pair of ranks, of nodes, or of blocks of nodes. Pure.

A cell of several pairs shows the slowest of them: a report is read to find what is slow.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate

from raybench.reports.pairs import PairMatrix
from raybench.reports.text import counted, printable

MOST_CELLS = 256  # a side; more would be smaller than a pixel


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatCells:
    """Rows and columns by index. ``of_rank`` is the index of each rank's; ``edges`` are the borders of nodes.

    ``kind`` is ``rank`` or ``node``; ``merged`` the sentence on what a cell stands for, None where it is one pair.
    """

    kind: str
    labels: tuple[str, ...]
    gb_per_second: Mapping[tuple[int, int], float]
    of_rank: Mapping[int, int]
    edges: tuple[int, ...]
    merged: str | None

    @property
    def size(self) -> int:
        """Rows, and columns."""
        return len(self.labels)


def heat_cells(matrix: PairMatrix, most: int = MOST_CELLS) -> HeatCells:
    """By rank where there is room, else by node, else by blocks of neighbouring nodes."""
    if len(matrix.ranks) <= most:
        return _by_rank(matrix)
    nodes_a_cell = -(-len(matrix.groups) // most)
    return _by_block(matrix, nodes_a_cell)


def _by_rank(matrix: PairMatrix) -> HeatCells:
    of_rank = {rank: index for index, rank in enumerate(matrix.ranks)}
    return HeatCells(
        kind="rank",
        labels=tuple(map(str, matrix.ranks)),
        gb_per_second={(of_rank[one], of_rank[other]): speed for (one, other), speed in matrix.gb_per_second.items()},
        of_rank=of_rank,
        edges=tuple(accumulate((len(ranks) for _, ranks in matrix.groups), initial=0)),
        merged=None,
    )


def _by_block(matrix: PairMatrix, nodes_a_cell: int) -> HeatCells:
    of_rank = {rank: number // nodes_a_cell for number, (_, ranks) in enumerate(matrix.groups) for rank in ranks}
    slowest: dict[tuple[int, int], float] = {}
    for (source, destination), speed in matrix.gb_per_second.items():
        cell = of_rank[source], of_rank[destination]
        slowest[cell] = min(speed, slowest.get(cell, speed))
    firsts = [printable(node) for node, _ in matrix.groups[::nodes_a_cell]]
    what = "two nodes" if nodes_a_cell == 1 else f"two blocks of {nodes_a_cell} neighbouring nodes"
    merged = (
        f"{counted(len(matrix.ranks), 'rank')} do not fit: a cell is the slowest of the pairs between {what}, "
        f"on the diagonal of those within one"
    )
    return HeatCells(
        kind="node",
        labels=tuple(firsts),
        gb_per_second=slowest,
        of_rank=of_rank,
        edges=tuple(range(len(firsts) + 1)),
        merged=merged,
    )
