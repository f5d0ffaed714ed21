"""A plan of fabric tests: rounds and times by scope, then the simulation. Pure."""

from collections.abc import Iterator

from raybench.documents.fabric_plan import FabricPlan, FabricSimulation
from raybench.reports.builders.asked import Asked
from raybench.reports.model import Block, Cell, Grid, Heading, Report, Table, Text
from raybench.units import format_seconds

_SCOPES = "sample: every pair of leaves where leaves are given, else random matchings; rails: as ring, NIC by NIC"


def plan_tables(plan: FabricPlan, _: Asked) -> Report:
    """The report."""
    leaves = f", {plan.leaves} leaves of {plan.leaf_size}" if plan.leaves else ""
    name = f"raybench fabric plan: {plan.nodes} hosts{leaves}"
    return Report(
        name=name,
        title=name,
        verdict=plan.verdict or "",
        reason=_found(plan.simulation) if plan.simulation else "",
        lead=f"a round measures both directions, about {plan.seconds_per_round:g} s",
        when="",
        blocks=tuple(_blocks(plan)),
    )


def _found(simulation: FabricSimulation) -> str:
    return f"simulated faults were found exactly in {simulation.exact} of {simulation.trials} trials"


def _blocks(plan: FabricPlan) -> Iterator[Block]:
    rows = tuple(
        (
            Cell(text=one.scope),
            Cell(text=str(one.rounds)),
            Cell(text=str(one.pairs)),
            Cell(text=f"{one.of_all_pairs:.2%}"),
            Cell(text=format_seconds(one.seconds)),
        )
        for one in plan.scopes
    )
    yield Table(grid=Grid(headings=("scope", "rounds", "pairs", "of all", "time"), rows=rows))
    yield Text(text=_SCOPES)
    yield from _simulated(plan.simulation, plan.scope) if plan.simulation else ()


def _simulated(simulation: FabricSimulation, scope: str) -> Iterator[Block]:
    yield Heading(text="Simulated")
    yield Text(
        text=f"{simulation.trials} trials of scope {scope}, {simulation.planted_hosts} bad hosts and "
        f"{simulation.planted_links} faulty paths planted (1 to 5 % of the hosts a trial)"
    )
    rows = [("found exactly", f"{simulation.exact} of {simulation.trials}")]
    rows += [(f"{rounds} extra rounds", f"{number} trials") for rounds, number in simulation.extra_rounds.items()]
    cells = tuple((Cell(text=what), Cell(text=figure)) for what, figure in rows)
    yield Table(grid=Grid(headings=("trials", "number"), rows=cells), text_columns=2)
    yield Text(text=simulation.basis)
