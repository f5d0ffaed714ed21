"""Other numbers of nodes: the fewest that a plan fits on, and those that meet its deadline."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING, TypeVar

from raybench.documents.training_plan import FewestNodes
from raybench.errors import UsageError

if TYPE_CHECKING:
    from raybench.documents.training_plan import TrainingWay
    from raybench.services.planning.options import PlanOptions

Found = TypeVar("Found")
_NEVER = (float("inf"), float("inf"))
_MOST_FASTER = 3.0  # a node of more, whose memory holds activations or larger micro-batches: 1.6 times at most seen
_MOST_TIMES = 64  # as many nodes at the most, in doublings
Best = Callable[["PlanOptions"], "TrainingWay | None"]  # a plan's best way; None: none fits


def fewest_nodes(
    options: "PlanOptions", per_step: int, best_of: Best, fits: Callable[["PlanOptions"], bool]
) -> FewestNodes | None:
    """Of a half, a quarter, ... of the nodes the fewest that it fits on; None where it needs them all.

    Those that may miss the deadline or the budget are not enough. ``per_step``: samples of all ranks, which stay the
    same. ``fits``: whether any way does, which is all that is asked of more than the fewest where there is no goal: a
    cluster of hundreds of nodes has many ways.
    """
    found, fewer = None, _halves(options, per_step)
    if options.deadline_seconds is None and options.budget is None:
        held = list(takewhile(lambda one: _known(one, fits), fewer))
        best = _known(held[-1], best_of) if held else None
        return _told(held[-1].nodes, best) if best else None
    for one in fewer:
        best = _known(one, best_of)
        if best is None or not _is_sure(best, options):
            break
        found = _told(one.nodes, best)
    return found


def _halves(options: "PlanOptions", per_step: int) -> Iterator["PlanOptions"]:
    nodes = options.nodes
    while nodes % 2 == 0:
        nodes //= 2
        yield replace(options, nodes=nodes, samples_per_step=per_step)


def _is_sure(best: "TrainingWay", options: "PlanOptions") -> bool:
    """Whether it meets what was asked for at its slowest."""
    in_time = options.deadline_seconds is None or (best.hours or _NEVER)[1] * 3600 <= options.deadline_seconds
    return in_time and (options.budget is None or (best.cost or _NEVER)[1] <= options.budget)


def nodes_in_time(options: "PlanOptions", best_of: Best, slowest_hours: float) -> FewestNodes | None:
    """Of double, four times, ... the nodes the fewest that are sure to meet the deadline; None where none of them is.

    Samples a step are as many where they were given, else what is assumed of so many ranks. ``slowest_hours``: of the
    nodes there are; so few more that each would have to be three times as fast are not tried.
    """
    if options.deadline_seconds is None:
        return None
    for power in range(1, _MOST_TIMES.bit_length()):
        nodes = options.nodes * 2**power
        if slowest_hours * 3600 > _MOST_FASTER * 2**power * options.deadline_seconds:
            continue
        best = _known(replace(options, nodes=nodes), best_of)
        if best is None or best.hours is None:
            return None
        if best.hours[1] * 3600 <= options.deadline_seconds:
            return _told(nodes, best)
    return None


def _told(nodes: int, best: "TrainingWay") -> FewestNodes:
    return FewestNodes(
        nodes=nodes,
        way=best.name,
        peak=best.peak,
        tokens_per_second=best.tokens_per_second,
        hours=best.hours,
        cost=best.cost,
    )


def _known(options: "PlanOptions", of: Callable[["PlanOptions"], Found]) -> Found | None:
    try:
        return of(options)
    except UsageError:  # nothing is known of the links that so many need, or ranks do not divide samples
        return None
