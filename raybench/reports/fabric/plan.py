"""A plan of fabric tests as text."""

from collections.abc import Iterator

from raybench.documents.fabric_plan import FabricPlan
from raybench.units import format_seconds


def plan_lines(report: FabricPlan) -> Iterator[str]:
    """Rounds and times by scope, then the simulation."""
    leaves = f", {report.leaves} leaves of {report.leaf_size}" if report.leaves else ""
    per_round = f"about {report.seconds_per_round:g} s"
    yield f"# {report.nodes} hosts{leaves}; a round measures both directions, {per_round}"
    yield f"# {'scope':<8} {'rounds':>7} {'pairs':>9} {'of all':>8}  time"
    for scope in report.scopes:
        time = format_seconds(scope.seconds)
        yield f"  {scope.scope:<8} {scope.rounds:>7} {scope.pairs:>9} {scope.of_all_pairs:>8.2%}  {time}"
    yield "# sample: every pair of leaves where leaves are given, else random matchings; rails: as ring, NIC by NIC"
    simulated = report.simulation
    if simulated:
        yield "#"
        yield (
            f"# simulated: {simulated.trials} trials of scope {report.scope}, {simulated.planted_hosts} bad "
            f"hosts and {simulated.planted_links} faulty paths planted (1 to 5 % of the hosts a trial)"
        )
        yield f"  found exactly  {simulated.exact} of {simulated.trials}"
        for rounds, number in simulated.extra_rounds.items():
            yield f"  {rounds} extra rounds  {number} trials"
        yield f"# {simulated.basis}"
