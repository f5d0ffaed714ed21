"""When a launch has the agents of its machines watch its ranks: once they measure, and so are past their start."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from raybench.execution.live.machine import Machine
from raybench.execution.node_actors.node_actors import NodeActorHandle, NodeActors
from raybench.execution.placement import PlacementPlan

_PATIENCE_SECONDS = 1.5  # after all ranks have joined: a first point may take long
_LONGEST_SECONDS = 10.0  # ranks that do not come together are worth watching


@dataclass(kw_only=True)
class AgentStart:
    """Of one launch. Without ``machines`` there are no agents."""

    actors: NodeActors
    plan: PlacementPlan
    machines: Sequence[Machine]
    emulated: bool
    _began: float = field(default_factory=time.monotonic)
    _joined: float | None = None
    _done: bool = False

    def attend(self, *, joined: bool, measured: bool, pids: Mapping[int, int]) -> None:
        """Start them once it is time; ``pids`` of the ranks that have joined."""
        now = time.monotonic()
        self._joined = now if joined and self._joined is None else self._joined
        waited = self._joined is not None and now - self._joined > _PATIENCE_SECONDS
        if self._done or not (measured or waited or now - self._began > _LONGEST_SECONDS):
            return
        self._done = True
        for machine in self.machines:
            ranks = [rank for index in machine.nodes for rank in self.plan.ranks_of(index)]
            known = [pids[rank] for rank in ranks if rank in pids]
            self._first_of(machine).actor.answer.remote("start_agent", machine.name, known, self.emulated)

    def _first_of(self, machine: Machine) -> NodeActorHandle:
        return next(one for one in self.actors.handles if one.index == machine.nodes[0])
