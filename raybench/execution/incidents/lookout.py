"""What the command sees of a run by itself: its processes on this machine, and the head of the cluster it joined."""

import time
from dataclasses import dataclass, field

from raybench.execution.incidents.process_watch import ProcessWatch
from raybench.execution.incidents.sighting import Sighting, at_fault, overdue
from raybench.execution.placement import PlacementPlan
from raybench.execution.ray_cluster.ray_calls import HeadWatch

_LOOK_SECONDS = 1.0
_EAGER_SECONDS = (
    0.2  # while the cluster starts: of a process that has ended, nobody can tell any more whose node it was
)
_LOOK_SHARE = 0.1  # of one processor, at most, on a machine with many processes


@dataclass(kw_only=True)
class Lookout:
    """``guilty``: processes to which the run's end is due, kept from when they were first seen to be at fault."""

    watch: ProcessWatch
    head: HeadWatch | None = None  # of a cluster that is joined: it may be on another machine
    guilty: list[Sighting] = field(default_factory=list)
    head_problem: str | None = None
    consulted: bool = False
    _sightings: tuple[Sighting, ...] = ()
    _looked: float = 0.0
    _look_seconds: float = 0.0  # that the last look took

    def join(self, address: str) -> None:
        """The run is about to join the cluster at HOST:PORT."""
        self.watch.join(address)
        self.head = HeadWatch(address)

    def name_nodes(self, plan: PlacementPlan) -> None:
        """The nodes have names from now on."""
        self.watch.name_nodes({node.node_id: node.name for node in plan.nodes})

    def look(self, *, eager: bool, measuring: bool, at_once: bool = False) -> None:
        """See how the processes are, where the last look is long enough ago."""
        now = time.monotonic()
        pause = max(_EAGER_SECONDS, self._look_seconds / _LOOK_SHARE) if eager else _LOOK_SECONDS
        if at_once or now - self._looked > min(pause, _LOOK_SECONDS):
            self._sightings = self.watch.look(find=at_once or not measuring)
            self._looked = time.monotonic()
            self._look_seconds = self._looked - now

    def consult(self) -> None:
        """Keep what is seen now for what broke the run: from here on the driver ends what it started."""
        self.consulted = True
        self.accuse()
        self.ask_head(in_trouble=True)

    def accuse(self) -> None:
        """Keep whoever is stopped or has ended, unless somebody has been accused before."""
        self.guilty = self.guilty or at_fault(self._sightings)

    def overdue(self, now: float, *, measuring: bool) -> list[Sighting]:
        """Those at fault for so long that the run need not wait any more."""
        return overdue(self._sightings, now, measuring=measuring)

    def ask_head(self, *, in_trouble: bool = False) -> None:
        """Keep that the head has not answered for some seconds."""
        self.head_problem = self.head_problem or (self.head.problem(in_trouble=in_trouble) if self.head else None)
