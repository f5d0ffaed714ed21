"""Tells of ranks that stand still, while the run goes on: who, where, in what, since when; and when they move again."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from diagnostics.findings import Finding
from raybench.benchmarks.events import RankMark
from raybench.benchmarks.spec import BenchmarkSpec
from raybench.execution.incidents.doing import Seen
from raybench.execution.incidents.hang import hang
from raybench.execution.incidents.incident import Incident, step_text
from raybench.execution.live.stalls import Moved, Stalls, has_pace
from raybench.execution.live.stood_still import RULE, SEVERITY, stood_still
from raybench.execution.live.warning import LiveWarning
from raybench.execution.node_actors.answers import AnswerError, decode_answer
from raybench.execution.node_actors.messages import RankActivity, RankPosition
from raybench.execution.node_actors.node_actors import NodeActorHandle, NodeActors
from raybench.execution.placement import PlacementPlan
from raybench.execution.watcher import Watcher
from raybench.units import format_seconds

_LOOK_SECONDS = 5.0  # a node that takes longer to say what its ranks do is not waited for
_STOPPED = "its process is stopped (SIGSTOP or a debugger)"
_COMPILING = ("/torch/_inductor/", "/torch/_dynamo/", "/triton/")


@dataclass(kw_only=True)
class StallWatch:
    """Of one launch. ``started``: the run's start on this machine's monotonic clock."""

    actors: NodeActors
    plan: PlacementPlan
    specs: Sequence[BenchmarkSpec]
    watcher: Watcher
    started: float
    _stalls: Stalls = field(init=False)
    _open: dict[int, tuple[Finding, float]] = field(default_factory=dict)
    _look: dict[Any, NodeActorHandle] = field(default_factory=dict)  # by reference: who was asked
    _asked: float = 0.0

    def __post_init__(self) -> None:
        self._stalls = Stalls(world_size=self.plan.world_size)

    def take(self, marks: Sequence[RankMark]) -> None:
        """The marks of a node's ranks have come."""
        for moved in self._stalls.take(marks, time.monotonic()):
            self._tell_moved(moved)

    def forgive(self, seconds: float) -> None:
        """It was the driver who was away for so long."""
        self._stalls.forgive(seconds)

    def attend(self, left_seconds: float) -> None:
        """Tell what has come to light. ``left_seconds``: until the limit of the benchmark, which looks by itself."""
        now = time.monotonic()
        for rank, since in self._stalls.stopped(now):
            self._tell_stopped(rank, since, now)
        if self._look:
            self._hear_look(now)
        elif left_seconds > 2 * _LOOK_SECONDS and self._stalls.calls_for_a_look(now):
            self._asked = now
            self._look = {one.actor.answer.remote("activities"): one for one in self.actors.handles}

    def end_look(self) -> None:
        """The launch is over, or broken: a look that goes on is waited for, since the next question comes after it."""
        if self._look:
            self.actors.calls.wait(list(self._look), len(self._look), _LOOK_SECONDS)
            self._look = {}

    def end(self, incidents: Sequence[Incident]) -> None:
        """What still stands still is kept where nothing else says it: ``incidents``, with who was found at fault."""
        blamed = {one.rank for one in incidents} | {rank for one in incidents for rank, _ in one.others}
        for rank, (finding, _) in self._open.items():
            if rank not in blamed:
                self.watcher.found(finding)
        self._open = {}

    def _hear_look(self, now: float) -> None:
        calls = self.actors.calls
        failures: tuple[type[Exception], ...] = (*calls.errors, AnswerError)
        ready, waiting = calls.wait(list(self._look), len(self._look), 0)
        if waiting and now - self._asked < _LOOK_SECONDS:
            return
        found: dict[int, RankActivity] = {}
        for reference in ready:
            try:
                found |= {one.rank: one for one in decode_answer("activities", calls.result(reference))}
            except failures:
                continue  # the launch itself hears that a node is lost
        self._look = {}
        self._judge(found, now)

    def _judge(self, activities: Mapping[int, RankActivity], now: float) -> None:
        seen = [
            Seen(node=self.plan.node_of(rank).name, position=_position(mark), activity=activities[rank])
            for rank, mark in sorted(self._stalls.marks().items())
            if rank in activities
        ]
        for incident in hang(seen, self.specs, world_size=self.plan.world_size):
            if incident.rank is not None and _is_told(incident, seen, self.specs):
                since = self._stalls.since(incident.rank)
                self._stalls.tell(incident.rank, since)
                self._tell(incident.rank, since, now, incident.reason, incident.step or "")

    def _tell_stopped(self, rank: int, since: float, now: float) -> None:
        step = step_text(_position(self._stalls.marks()[rank]), self.specs, self.plan.world_size)
        self._tell(rank, since, now, _STOPPED, step)

    def _tell(self, rank: int, since: float, now: float, reason: str, step: str) -> None:
        node = self.plan.node_of(rank).name
        text = f"rank {rank} on {node} has stood still for {format_seconds(now - since)}: {reason}; {step}"
        self._open[rank] = (
            self._finding(rank, f"rank {rank} on {node} stood still: {reason}; {step}", since, None),
            since,
        )
        self._say(rank, since, now, text)

    def _tell_moved(self, moved: Moved) -> None:
        if moved.rank not in self._open:
            return
        finding, since = self._open.pop(moved.rank)
        now, took = time.monotonic(), format_seconds(moved.seconds)
        node = self.plan.node_of(moved.rank).name
        self._say(moved.rank, since, now, f"rank {moved.rank} on {node} moves again after {took}", over=True)
        summary = finding.summary.replace("stood still:", f"stood still for {took}:", 1)
        self.watcher.found(self._finding(moved.rank, summary, since, now))

    def _finding(self, rank: int, summary: str, since: float, until: float | None) -> Finding:
        end = None if until is None else until - self.started
        return stood_still(rank, self.plan.node_of(rank).name, summary, since - self.started, end)

    def _say(self, rank: int, since: float, now: float, text: str, *, over: bool = False) -> None:
        self.watcher.warned(
            LiveWarning(
                at_seconds=now - self.started,
                since_seconds=since - self.started,
                rule=RULE,
                severity=SEVERITY,
                text=text,
                ranks=(rank,),
                hosts=(self.plan.node_of(rank).name,),
                over=over,
            )
        )


def _position(mark: RankMark) -> RankPosition:
    where = mark.position
    return RankPosition(
        rank=mark.rank,
        state=mark.state,
        phase=where.phase,
        benchmark=where.benchmark,
        point=where.point,
        block=where.block,
        iteration=where.iteration,
    )


def _is_told(incident: Incident, seen: Sequence[Seen], plan: Sequence[BenchmarkSpec]) -> bool:
    """Whether what the limit would say may be said now: somebody waits for the rank, and nothing long is under way."""
    if incident.kind == "collective-mismatch":
        return incident.confidence == "certain"
    one = next(one for one in seen if one.rank == incident.rank)
    kind = plan[one.position.benchmark].kind if one.position.benchmark < len(plan) else ""
    compiles = any(part in frame.file for frame in one.activity.stack for part in _COMPILING)
    sleeps = incident.kind == "rank-behind" and incident.confidence == "certain"
    return sleeps and has_pace(one.position, kind) and not compiles
