"""What else had the processors of a side's machines: shares, and in words. Pure."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

from raybench.comparison.side import Disturbance, Side
from raybench.comparison.trend import LEAST_CHANGE
from raybench.documents.comparison.comparison import ComparedFigure
from raybench.documents.run.benchmark import BenchmarkResult
from raybench.documents.run.cluster import ClusterInfo
from raybench.documents.run.machine_use import MachineUse
from raybench.stability import MAX_STOLEN

_MUCH_WAITING = 0.5  # of the time; less is usual beside as many ranks as there are processors
_UNCLEAR = ("cannot tell", "slower", "faster")


def disturbance_of(benchmarks: Sequence[BenchmarkResult], cluster: ClusterInfo) -> Disturbance:
    """Over all that was measured: the node that lost most, and the one where most had to wait."""
    by_node: dict[str, list[MachineUse]] = defaultdict(list)
    names = {rank: node.name for node in cluster.nodes for rank in node.ranks}
    for one in (use for benchmark in benchmarks for use in benchmark.machine_use):
        by_node[names.get(one.rank, f"rank {one.rank}")].append(one)
    stolen, stolen_where = _worst(by_node, _stolen)
    waiting, waiting_where = _worst(by_node, _waiting)
    return Disturbance(stolen=stolen, stolen_where=stolen_where, waiting=waiting, waiting_where=waiting_where)


def _worst(
    by_node: dict[str, list[MachineUse]], share: Callable[[Sequence[MachineUse]], float | None]
) -> tuple[float | None, str]:
    found = [(value, node) for node, uses in by_node.items() if (value := share(uses)) is not None]
    return max(found, default=(None, ""), key=lambda pair: pair[0])


def _stolen(uses: Sequence[MachineUse]) -> float | None:
    known = [(one.stolen_seconds, one.busy_seconds) for one in uses]
    if any(None in pair for pair in known):
        return None
    stolen, busy = (math.fsum(pair[index] or 0.0 for pair in known) for index in (0, 1))
    return stolen / (stolen + busy) if stolen + busy > 0 else 0.0


def _waiting(uses: Sequence[MachineUse]) -> float | None:
    known = [one.waiting_share for one in uses]
    if None in known:
        return None
    return math.fsum((one.waiting_share or 0.0) * one.seconds for one in uses) / math.fsum(one.seconds for one in uses)


def worst_of(some: Sequence[Disturbance]) -> Disturbance:
    """Of the runs of one side: what is known of any of them, the largest."""
    stolen = max(some, key=lambda one: -1.0 if one.stolen is None else one.stolen)
    waiting = max(some, key=lambda one: -1.0 if one.waiting is None else one.waiting)
    return Disturbance(
        stolen=stolen.stolen,
        stolen_where=stolen.stolen_where,
        waiting=waiting.waiting,
        waiting_where=waiting.waiting_where,
    )


def disturbances(side: Side) -> Iterator[str]:
    """What a side lost that is worth a line."""
    lost = side.disturbance
    if lost.stolen is not None and lost.stolen >= MAX_STOLEN:
        yield f"{side.name} lost {lost.stolen:.1%} of its processors to other virtual machines ({lost.stolen_where})"
    if lost.waiting is not None and lost.waiting >= _MUCH_WAITING:
        yield f"{side.name}: some task waited for a processor {lost.waiting:.0%} of the time ({lost.waiting_where})"


def with_disturbance(reason: str, sides: Sequence[Side], figures: Sequence[ComparedFigure]) -> str:
    """The reason of a verdict, and what of it may be the host's: where a side lost more than the reference, or less."""
    for figure in figures:
        if figure.difference not in _UNCLEAR or figure.stolen is None:
            continue
        if None in figure.stolen:
            ends = (sides[0], sides[figure.side])
            known, unknown = ends if figure.stolen[1] is None else ends[::-1]
            share = max(one or 0.0 for one in figure.stolen)
            if share >= MAX_STOLEN:
                return (
                    f"{reason}; {known.name} lost {share:.1%} of its processors to other virtual machines, what "
                    f"{unknown.name} lost is unknown"
                )
        else:
            before, after = (share or 0.0 for share in figure.stolen)
            if abs(after - before) >= LEAST_CHANGE:
                other, first = sides[figure.side].name, sides[0].name
                return (
                    f"{reason}; {other} lost {after:.1%} of its processors to other virtual machines, {first} "
                    f"{before:.1%}"
                )
    return reason
