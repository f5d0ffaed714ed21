"""The machines of a run: several of its nodes may be on one, which then has one agent. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from raybench.execution.placement import PlacementPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A machine of the run: its name, its nodes by index, the first of whose actors starts the agent."""

    name: str
    nodes: tuple[int, ...]


def machines_of(plan: PlacementPlan, hostnames: Sequence[str], *, emulated: bool) -> tuple[Machine, ...]:
    """The machines that the nodes of a plan are on, ``hostnames`` by node. Emulated nodes are all on one."""
    if emulated:
        return (Machine(name=hostnames[0], nodes=tuple(range(len(plan.nodes)))),)
    groups: dict[tuple[str, str], list[int]] = {}
    for index, node in enumerate(plan.nodes):
        groups.setdefault((hostnames[index], node.address), []).append(index)
    return tuple(Machine(name=plan.nodes[nodes[0]].name, nodes=tuple(nodes)) for nodes in groups.values())
