"""Slow pairs that no single node, rank or path explains: a rail, a leaf, all paths between two nodes, some links. Pure.

Pairs are compared with pairs that are built alike, so that how a machine is wired is no fault: between nodes those on
a rail with all on rails, others with those of the same two places in their nodes; within a node with the same two
places in the other nodes. What is typical may be slow itself, so the reference is the fastest tenth of a kind.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING

from diagnostics.findings import Severity
from raybench.peers.judgement import LARGE
from raybench.stats import MAD_TO_DEVIATION, median

if TYPE_CHECKING:
    from raybench.peers.matrix import Matrix, Pair

_LEAST_PAIRS, _LEAST_BLOCKS = 6, 5
_DEVIATIONS = 4.0  # of a pair's own blocks: nothing closer to the reference is slow
_MINORITY = 1 / 3  # of a kind's pairs: more of them may be how the network is built
_ALL_BUT_FEW = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowPairs:
    """Pairs (source, destination) that are slow in all of their blocks, the slowest first, and what they share.

    ``share``: the median of their speeds over that of the fastest of their kind. ``rail``: the place of their ranks
    in their nodes, where that is what they share; ``nodes``: the two nodes, where it is those.
    """

    pairs: tuple["Pair", ...]
    of: int  # pairs that were compared
    between: bool
    share: float
    severity: Severity
    rail: int | None = None
    nodes: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """``12 of 48 pairs between nodes reach 0.55 of the fastest of their kind: all on rail 1``."""
        which = f"{len(self.pairs)} of {self.of} pairs {'between' if self.between else 'within'} nodes"
        told = "no single node, rank or path explains them"
        if self.rail is not None:
            told = f"all on rail {self.rail}"
        elif self.nodes:
            told = f"all {'between' if self.between else 'on'} {' and '.join(self.nodes)}"
        return f"{which} reach {self.share:.2f} of the fastest of their kind: {told}"


def slow_patterns(matrix: "Matrix", usable: Mapping[bool, AbstractSet["Pair"]]) -> Iterator[SlowPairs]:
    """What is left of the pairs between nodes (True) and within nodes (False) once all that is named is taken out."""
    for between, pairs in usable.items():
        slow: dict[Pair, float] = {}
        compared = 0
        for alike in _kinds(matrix, pairs, between=between):
            found = _slow(matrix, alike)
            compared += len(alike)
            slow |= {pair: share for pair, share in found.items() if pair not in slow}
        if slow:
            yield _described(matrix, slow, compared, between=between)


def _kinds(matrix: "Matrix", pairs: AbstractSet["Pair"], *, between: bool) -> Iterator[list["Pair"]]:
    kinds: dict[Hashable, list[Pair]] = {}
    for pair in sorted(pairs):
        rail = between and matrix.is_on_rail(pair)
        kinds.setdefault("rail" if rail else frozenset(matrix.place(rank) for rank in pair), []).append(pair)
    return (alike for alike in kinds.values() if len(alike) >= _LEAST_PAIRS)


def _slow(matrix: "Matrix", alike: Sequence["Pair"]) -> dict["Pair", float]:
    """The slow ones of pairs that are built alike, with their share of the fastest tenth's median."""
    speeds = {pair: matrix.speed([pair]) for pair in alike}
    fastest = sorted(speeds.values())[-max(2, len(speeds) // 10) :]
    reference = median(fastest)
    noise = median([_deviation(matrix.blocks[pair], speeds[pair]) for pair in alike])
    limit = reference * min(LARGE, 1 - _DEVIATIONS * noise)
    return {
        pair: speed / reference
        for pair, speed in speeds.items()
        if len(matrix.blocks[pair]) >= _LEAST_BLOCKS and max(matrix.blocks[pair]) < limit
    }


def _deviation(blocks: Sequence[float], middle: float) -> float:
    return MAD_TO_DEVIATION * median([abs(block - middle) for block in blocks]) / middle


def _described(matrix: "Matrix", slow: Mapping["Pair", float], compared: int, *, between: bool) -> SlowPairs:
    rails = {matrix.place(pair[0]) if matrix.is_on_rail(pair) else None for pair in slow}
    nodes = {frozenset(matrix.node_of[rank] for rank in pair) for pair in slow}
    rail = next(iter(rails)) if between and len(rails) == 1 and matrix.rails > 1 and len(nodes) > 1 else None
    if rail is not None and len(slow) < _ALL_BUT_FEW * matrix.pairs_on_rail(rail):
        rail = None
    return SlowPairs(
        pairs=tuple(sorted(slow, key=lambda pair: slow[pair])),
        of=compared,
        between=between,
        share=median(list(slow.values())),
        severity="critical" if len(slow) <= _MINORITY * compared else "warning",
        rail=rail,
        nodes=tuple(sorted(next(iter(nodes)))) if len(nodes) == 1 else (),
    )
