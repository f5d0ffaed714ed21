"""The fewest nodes that a plan fits on: more of them are faster, not cheaper."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from raybench.documents.training_plan import FewestNodes
from raybench.errors import UsageError

if TYPE_CHECKING:
    from raybench.documents.training_plan import TrainingWay
    from raybench.services.planning.plan import PlanOptions

Best = Callable[["PlanOptions"], "TrainingWay | None"]  # a plan's best way; None: none fits


def fewest_nodes(options: "PlanOptions", per_step: int, best_of: Best) -> FewestNodes | None:
    """Of a half, a quarter, ... of the nodes the fewest that it fits on; None where it needs them all.

    ``per_step``: samples of all ranks, which stay the same.
    """
    found = None
    nodes = options.nodes
    while nodes % 2 == 0:
        nodes //= 2
        best = _best(replace(options, nodes=nodes, samples_per_step=per_step), best_of)
        if best is None:
            break
        found = FewestNodes(
            nodes=nodes,
            way=best.name,
            peak=best.peak,
            tokens_per_second=best.tokens_per_second,
            hours=best.hours,
            cost=best.cost,
        )
    return found


def _best(options: "PlanOptions", best_of: Best) -> "TrainingWay | None":
    try:
        return best_of(options)
    except UsageError:  # nothing is known of the links that fewer nodes need
        return None
