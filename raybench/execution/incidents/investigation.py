"""What the ranks of a launch that breaks, or comes to its limit, are doing, and who of them is to blame."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from raybench.benchmarks.spec import BenchmarkSpec
from raybench.execution.incidents.activity_text import activity_text, explanation_of
from raybench.execution.incidents.doing import Seen
from raybench.execution.incidents.flight_file import flight_records, ras_files
from raybench.execution.incidents.hang import hang, is_stalled, mismatches
from raybench.execution.incidents.incident import Incident, culprits
from raybench.execution.log_files import ACTIVITY
from raybench.execution.node_actors.messages import RankPosition
from raybench.execution.node_actors.node_actors import NodeActors
from raybench.execution.placement import PlacementPlan
from raybench.execution.ranks.ending import at_work_text

_LOOK_SECONDS = 7.0  # a node that takes longer to say what its ranks do is not waited for
ANSWER_SECONDS = 4.0  # a node that takes longer to say where its ranks are is lost

Positions = list[tuple[str, RankPosition]]  # of ranks, each with the name of its node


@dataclass(kw_only=True)
class Investigation:
    """Questions to the node actors of a launch, and what follows from their answers."""

    actors: NodeActors
    plan: PlacementPlan
    specs: Sequence[BenchmarkSpec]
    activity: dict[str, bytes] = field(default_factory=dict)  # files that say what every rank did, by the last look
    answered: set[int] = field(default_factory=set)  # nodes that could say where their ranks were

    def positions(self) -> tuple[Positions, dict[int, str]]:
        """Where the ranks are of every node that answers, and why the other nodes are lost, by index."""
        answers, silent = self.actors.ask(ANSWER_SECONDS, "positions")
        lost = dict(silent)
        for index, found in list(answers.items()):
            if not {one.rank for one in found} <= set(self.plan.ranks_of(index)):
                lost[index] = "it speaks for ranks of other nodes"
                del answers[index]
        self.answered |= set(answers)
        return [(self.plan.nodes[index].name, one) for index, found in sorted(answers.items()) for one in found], lost

    def look(self, positions: Positions) -> list[Seen]:
        """What every rank that can be reached is doing. Takes two to five seconds, ``_LOOK_SECONDS`` at most."""
        answers, _ = self.actors.ask(_LOOK_SECONDS, "activities", True)
        found = {one.rank: one for node in answers.values() for one in node}
        seen = [
            Seen(node=node, position=position, activity=found[position.rank])
            for node, position in positions
            if position.rank in found
        ]
        self.activity = {ACTIVITY: activity_text(seen).encode()} | flight_records(seen, self.plan.backend)
        self.activity |= ras_files(seen)
        return seen

    def missing(self, positions: Positions) -> list[Incident]:
        """Who keeps the others from coming together, where no rank has said anything of it."""
        world_size = self.plan.world_size
        found = culprits(positions, self.specs, world_size=world_size)
        return found or hang(self.look(positions), self.specs, world_size=world_size)

    def blamed(self, incidents: Sequence[Incident], positions: Positions, seen: Sequence[Seen]) -> list[Incident]:
        """Who is stopped, or has ended without a word, whatever was noticed first: the others wait for it.

        Else who held up a run that came to its limit, or lost a connection; else whose operation broke the others'.
        """
        world_size = self.plan.world_size
        spoken = {one.rank for one in incidents if one.rank is not None}
        found = culprits(positions, self.specs, spoken, world_size=world_size)
        if incidents[0].kind not in ("time-limit", "connection-lost"):
            return found + mismatches(seen, self.specs, world_size=world_size)
        return found or hang(seen, self.specs, world_size=world_size)

    def without_culprit(
        self, limit: Incident, seen: Sequence[Seen], *, spec: BenchmarkSpec | None, points: int, limit_seconds: float
    ) -> Incident:
        """The limit where nobody is to blame: the ranks were slow for it, or what holds them up is unknown."""
        if is_stalled(seen):
            text = f"{limit.reason}; whether the ranks hang or are slow is unknown"
            return replace(limit, reason=text, explanation=explanation_of(seen), confidence="possible")
        iterations = [one.position.iteration for one in seen if one.position.phase == "timing"]
        text = at_work_text(
            spec,
            points=points,
            steps=min(iterations, default=0),
            world_size=self.plan.world_size,
            limit_seconds=limit_seconds,
        )
        return replace(limit, reason=f"{limit.reason}, {text}")
