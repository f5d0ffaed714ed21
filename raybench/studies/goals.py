"""How many nodes for a deadline or a budget, from what was measured; what is beyond is called extrapolated. Pure."""

from collections.abc import Iterator, Sequence

from raybench.documents.study.scaling import ProjectedPoint, ScalingRow
from raybench.studies.costs import Costing
from raybench.units import format_seconds


def goal_advice(
    rows: Sequence[ScalingRow], projections: Sequence[ProjectedPoint], costing: Costing, base_nodes: int
) -> Iterator[str]:
    """One sentence where there is a goal: the cheapest measured number of nodes that reaches it.

    Where none does, the fewest nodes whose projection reaches it with its whole interval, marked as extrapolated.
    """
    measured = [(row.nodes, costing.epoch_samples / row.samples_per_s) for row in rows if row.samples_per_s]
    if not costing.has_goal or not measured:
        return
    goal, most = _goal(costing), max(nodes for nodes, _ in measured)
    reached = [one for one in measured if costing.reaches(*one)]
    if reached:
        nodes, seconds = min(reached, key=lambda one: (one[0] * one[1] if costing.price else one[0], one[0]))
        yield f"{goal}: {_counted(nodes)}, measured: {_needs(nodes, seconds, costing)}"
        return
    base = dict(measured).get(base_nodes)
    for one in sorted(projections, key=lambda point: point.nodes):
        taken = base / one.speedup if base and one.speedup else None
        if not one.is_projection or taken is None:
            continue
        slow = taken * one.high_seconds / one.step_seconds
        if costing.reaches(one.nodes, slow):
            yield (
                f"{goal}: no number of nodes measured (up to {most}) reaches it. EXTRAPOLATED, not measured: "
                f"{_counted(one.nodes)} would by the fit: {_needs(one.nodes, taken, costing)}, up to "
                f"{_lasting(slow)} by its interval; measure them before you rely on it"
            )
            return
    by_fit = ", nor does the fit's projection for certain" if projections else "; without a fit more are not judged"
    yield f"{goal}: no number of nodes measured (up to {most}) reaches it{by_fit}"


def _goal(costing: Costing) -> str:
    parts = [f"{costing.epoch_samples} samples"]
    if costing.deadline_seconds is not None:
        parts.append(f"within {_lasting(costing.deadline_seconds)}")
    if costing.budget is not None and costing.price is not None:
        parts.append(f"for at most {costing.budget:.6g} {costing.price.currency}")
    return " ".join(parts)


def _needs(nodes: int, seconds: float, costing: Costing) -> str:
    cost = costing.cost_of(nodes, seconds)
    price = "" if cost is None or costing.price is None else f", {cost:.4g} {costing.price.currency}"
    return f"{_lasting(seconds)}{price}"


def _lasting(seconds: float) -> str:
    return f"{seconds / 3600:.4g} h" if seconds >= 2 * 3600 else format_seconds(seconds)


def _counted(nodes: int) -> str:
    return f"{nodes} node{'s' if nodes > 1 else ''}"
