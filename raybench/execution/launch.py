"""One launch of a run's ranks, from the rendezvous to their end, watched all the while."""

import contextlib
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from raybench.benchmarks.events import (
    AgentSaid,
    BenchmarkFinished,
    BenchmarkStarted,
    Event,
    OwnSpeedMeasured,
    PointMeasured,
    RankExited,
    RankFailed,
    RankFinished,
    RankReady,
    RanksMarked,
    WorkloadMeasured,
)
from raybench.benchmarks.rank.assignment import RankAssignment
from raybench.benchmarks.spec import BenchmarkSpec
from raybench.documents.run.facts import RankFacts, typed
from raybench.errors import UsageError
from raybench.execution.collector import Collector
from raybench.execution.event_check import EventError, event_of
from raybench.execution.incidents.doing import Seen
from raybench.execution.incidents.incident import Incident, failure_kind, has_ended, next_step, step_text
from raybench.execution.incidents.investigation import ANSWER_SECONDS, Investigation, Positions
from raybench.execution.live.agent_start import AgentStart
from raybench.execution.live.interruption_watch import InterruptionWatch
from raybench.execution.live.machine import Machine
from raybench.execution.live.slow_ranks import SlowRankWatch
from raybench.execution.live.stall_watch import StallWatch
from raybench.execution.node_actors.answers import AnswerError, decode_answer
from raybench.execution.node_actors.node_actors import Deadline, NodeActorHandle, NodeActors, reason_of
from raybench.execution.placement import PlacementPlan
from raybench.execution.ranks.ending import ending_text
from raybench.execution.ray_cluster.lost_nodes import head_incident, rank_host_incident
from raybench.execution.ray_cluster.ray_calls import HeadWatch, NoHead
from raybench.execution.watcher import Watcher

POLL_SECONDS = 1.0
SILENCE_SECONDS = 10.0
_ABSENCE_SECONDS = 3.0
_GATHER_SECONDS = 1.5  # after the first sign of trouble: the cause may speak later than its victims
START_SECONDS = 60.0  # until every rank has joined, or the benchmark's limit where that is longer
_OF_SAMPLES = BenchmarkStarted | PointMeasured | OwnSpeedMeasured | WorkloadMeasured | BenchmarkFinished


@dataclass(kw_only=True)
class Launch:
    """One launch. ``stopping`` is set from outside to end it early."""

    actors: NodeActors
    plan: PlacementPlan
    specs: Sequence[BenchmarkSpec]
    collector: Collector
    watcher: Watcher
    stopping: threading.Event
    timeout_seconds: float
    head: HeadWatch | NoHead
    incidents: list[Incident] = field(default_factory=list)
    _ready: set[int] = field(default_factory=set)
    _finished: set[int] = field(default_factory=set)
    _benchmark: int = -1
    _deadline: Deadline = field(default_factory=lambda: Deadline(START_SECONDS))
    _last_heard: float = field(default_factory=time.monotonic)
    # While ranks join: when to look for one that is stopped.
    _join_limit: Deadline = field(default_factory=lambda: Deadline(START_SECONDS))
    _investigation: Investigation = field(init=False)
    machines: Sequence[Machine] = ()  # that have an agent
    started: float = field(default_factory=time.monotonic)  # the run
    _stalls: StallWatch = field(init=False)
    _interruptions: InterruptionWatch = field(init=False)
    _slow: SlowRankWatch = field(init=False)
    _agents: AgentStart = field(init=False)
    _measured: bool = False  # a point, by all ranks
    _pids: dict[int, int] = field(default_factory=dict)
    _polls: dict[Any, tuple[NodeActorHandle, float]] = field(default_factory=dict)  # by reference: who, and asked when

    def __post_init__(self) -> None:
        self._investigation = Investigation(actors=self.actors, plan=self.plan, specs=self.specs)
        self._stalls = StallWatch(
            actors=self.actors, plan=self.plan, specs=self.specs, watcher=self.watcher, started=self.started
        )
        self._interruptions = InterruptionWatch(
            plan=self.plan, specs=self.specs, watcher=self.watcher, started=self.started
        )
        shared = self.actors.share_a_host
        self._slow = SlowRankWatch(plan=self.plan, watcher=self.watcher, started=self.started, emulated=shared)
        self._agents = AgentStart(actors=self.actors, plan=self.plan, machines=self.machines, emulated=shared)

    @property
    def activity(self) -> dict[str, bytes]:
        """Files that say what every rank did when it broke."""
        return self._investigation.activity

    def run(
        self,
        assignments: Sequence[Sequence[RankAssignment]],
        variables: Sequence[Mapping[str, str | None]],
        log_limit: int,
    ) -> None:
        """Start the ranks, ``assignments`` and ``variables`` by node; return when they are through or something breaks.

        What broke is in ``incidents``, cause and victims; the ranks are then ended.
        """
        self._deadline = Deadline(max(START_SECONDS, self.timeout_seconds))
        self._join_limit = Deadline(self.timeout_seconds)
        for handle in self.actors.handles:
            encoded = msgspec.msgpack.encode((tuple(assignments[handle.index]), tuple(self.specs)))
            handle.actor.answer.remote("start", encoded, dict(variables[handle.index]), log_limit)
            self._poll(handle)
        while len(self._finished) < self.plan.world_size and not self._trouble():
            self._hear(0.25)
            self._stalls.attend(self._deadline.left)
            self._agents.attend(
                joined=len(self._ready) == self.plan.world_size, measured=self._measured, pids=self._pids
            )
        self._stalls.end_look()
        if self.incidents:
            self.watcher.troubled()
            self._investigate()
        self._stalls.end(self.incidents)  # who is at fault is known by now, and said once
        self._interruptions.end()
        _, silent = self.actors.ask(ANSWER_SECONDS, "stop")
        for index, why in silent.items():
            # one that answered may take its time to end its ranks
            if self.incidents and index not in self._investigation.answered:
                self._node_lost(self.plan.nodes[index].name, index, why)
        self._hear_agents_last()

    def _poll(self, handle: NodeActorHandle) -> None:
        self._polls[handle.actor.answer.remote("poll", POLL_SECONDS)] = handle, time.monotonic()

    def _trouble(self) -> bool:
        if self.stopping.is_set() and not self.incidents:
            self.incidents.append(Incident(kind="interrupted", reason="stopped by you", step=self._step()))
        elif (problem := self.head.problem()) is not None and not self.incidents:
            self.incidents.append(head_incident(self.head.address, problem, self.plan.nodes, self._step()))
        elif self._deadline.passed and not self.incidents:
            joined = f"{len(self._ready)} of {self.plan.world_size} ranks had joined"
            limit = f"the time limit of {self.timeout_seconds:.0f} s is over"
            reason = limit if self._benchmark >= 0 else f"the ranks did not come together in time: {joined}"
            self.incidents.append(Incident(kind="time-limit", reason=reason, step=self._step()))
        elif self._benchmark < 0 and self._join_limit.passed and not self.incidents:
            self._join_limit = Deadline(self.timeout_seconds)  # a start may take longer than the limit
            positions = self._positions()
            if not self.incidents:
                self.incidents += self._investigation.missing(positions)
        return bool(self.incidents)

    def _step(self) -> str:
        if self._benchmark < 0:
            return "joining the process group"
        measured = self.collector.measured(self._benchmark)
        return next_step(self.specs[self._benchmark], measured, self.plan.world_size)

    def _hear(self, seconds: float) -> None:
        """Take in what the node actors have to say within that time."""
        calls = self.actors.calls
        failures: tuple[type[Exception], ...] = (*calls.errors, AnswerError, EventError)
        if not self._polls:
            time.sleep(seconds)
            return
        self._forgive_absence()
        polls = list(self._polls)
        ready, _ = calls.wait(polls, len(polls), 0)
        if not ready:
            ready, _ = calls.wait(polls, 1, seconds)
        for reference in ready:
            handle, _ = self._polls.pop(reference)
            try:
                self._take_all(handle, decode_answer("poll", calls.result(reference)))
            except failures as error:
                self._node_lost(handle.node.name, handle.index, reason_of(error))
                continue
            self._poll(handle)
        self._miss_silent()
        self._last_heard = time.monotonic()

    def _forgive_absence(self) -> None:
        """Where it was us who were away (a stopped terminal, a stalled disk), nobody's silence counts yet."""
        now = time.monotonic()
        if now - self._last_heard > _ABSENCE_SECONDS:
            self._polls = {reference: (handle, now) for reference, (handle, _) in self._polls.items()}
            self._stalls.forgive(now - self._last_heard)
        self._last_heard = now

    def _miss_silent(self) -> None:
        """A poll is answered within POLL_SECONDS; Ray itself takes up to a minute to see that a machine has gone."""
        now = time.monotonic()
        for reference, (handle, asked) in list(self._polls.items()):
            if now - asked > SILENCE_SECONDS:
                del self._polls[reference]
                self._node_lost(handle.node.name, handle.index, f"silent for {SILENCE_SECONDS:.0f} s")

    def _take_all(self, handle: NodeActorHandle, events: Sequence[bytes]) -> None:
        ranks = self.plan.ranks_of(handle.index)
        for data in events:
            event = event_of(data, ranks, self.specs, self.plan.world_size)
            if isinstance(event, RanksMarked):
                self._stalls.take(event.marks)
                self._interruptions.take(event.marks, time.monotonic())
                self.watcher.marked(event.marks)
            elif isinstance(event, AgentSaid):
                self.watcher.agent_said(handle.index, event.data)
            else:
                self._take(event)
            if isinstance(event, _OF_SAMPLES):
                self.watcher.heard(data)

    def _hear_agents_last(self) -> None:
        """What agents said since the last poll that was heard. Polls are answered at once where ranks are stopped."""
        calls = self.actors.calls
        polls = [one for one, (handle, _) in self._polls.items() if handle.index not in self.actors.lost]
        ready = calls.wait(polls, len(polls), POLL_SECONDS)[0] if polls else []
        for reference in ready:
            handle, _ = self._polls.pop(reference)
            ranks = self.plan.ranks_of(handle.index)
            with contextlib.suppress(*calls.errors, AnswerError, EventError):
                for data in decode_answer("poll", calls.result(reference)):
                    event = event_of(data, ranks, self.specs, self.plan.world_size)
                    if isinstance(event, AgentSaid):
                        self.watcher.agent_said(handle.index, event.data)

    def _take(self, event: Event) -> None:
        match event:
            case RankReady():
                self._ready.add(event.rank)
                self._pids[event.rank] = int(typed(RankFacts, event.facts).pid or 0)
                self.watcher.ready(event.rank, event.facts)
            case BenchmarkStarted() if event.benchmark > self._benchmark:
                self._benchmark = event.benchmark
                self._deadline = Deadline(self.timeout_seconds)
                self.watcher.started(event.benchmark)
            case PointMeasured():
                complete = self.collector.add(event.benchmark, event.rank, event.samples)
                if complete is not None:
                    self._measured = True
                    self.watcher.measured(event.benchmark, complete)
                self._slow.take(event.rank, event.samples.own_seconds, time.monotonic())
            case OwnSpeedMeasured():
                self.collector.add_own_speed(event.benchmark, event.rank, event.speed)
                self._slow.take(event.rank, event.speed.seconds, time.monotonic())
            case WorkloadMeasured():
                self._take_record(event)
            case BenchmarkFinished():
                self.collector.finish(event.benchmark, event.rank, event.skipped, event.machine)
            case RankFinished():
                self._finished.add(event.rank)
            case RankFailed() | RankExited():
                self._rank_ended(event)

    def _take_record(self, event: WorkloadMeasured) -> None:
        if event.record.interim:
            self.collector.add_part(event.benchmark, event.rank, event.record)
            self.watcher.on_partial(event.benchmark, event.rank, event.record)
            return
        records = self.collector.add_record(event.benchmark, event.rank, event.record)
        if records is not None:
            self._measured = True
            self.watcher.on_record(event.benchmark, records)

    def _rank_ended(self, event: RankFailed | RankExited) -> None:
        node = self.plan.node_of(event.rank).name
        if isinstance(event, RankFailed):
            kind = failure_kind(event.error)
            reason = event.error.splitlines()[0][:300].replace(f"{UsageError.__name__}: ", "invalid usage: ", 1)
        elif event.rank in self._finished or any(one.rank == event.rank for one in self.incidents):
            return
        else:
            kind, reason = "rank-died", ending_text(event)
        self.incidents.append(Incident(kind=kind, reason=reason, node=node, rank=event.rank, step=self._step()))

    def _node_lost(self, name: str, index: int, why: str) -> None:
        host = rank_host_incident(name, why, self._step(), share_a_host=self.actors.share_a_host)
        if host is not None:
            if not any(one.kind == host.kind and one.node == host.node for one in self.incidents):
                self.incidents.append(host)
            return
        self.actors.lost.add(index)
        if any(one.kind == "node-lost" and one.node == name for one in self.incidents):
            return
        ranks = self.plan.ranks_of(index)
        text = f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {ranks[0]} to {ranks[-1]}"
        self.incidents.append(
            Incident(
                kind="node-lost",
                reason=f"the node, with {text}, is lost ({why})",
                node=name,
                rank=ranks[0] if len(ranks) == 1 else None,
                step=self._step(),
            )
        )

    def _investigate(self) -> None:
        """Hear the rest, then look where every rank is and which nodes still answer."""
        if self.incidents[0].kind in ("interrupted", "cluster-lost", "rank-host-lost"):
            return
        until = Deadline(_GATHER_SECONDS)
        while not until.passed:
            self._hear(min(until.left, 0.25))
        positions = self._positions()
        seen = self._investigation.look(positions)
        self._sharpen_steps(positions)
        found = self._investigation.blamed(self.incidents, positions, seen)
        if not found and self.incidents[0].kind == "time-limit":
            self.incidents[0] = self._without_culprit(seen)
        self.incidents += found

    def _positions(self) -> Positions:
        positions, lost = self._investigation.positions()
        for index, why in lost.items():
            self._node_lost(self.plan.nodes[index].name, index, why)
        self._hear_of(ended={one.rank for _, one in positions if has_ended(one)})
        return positions

    def _hear_of(self, ended: set[int]) -> None:
        """Hear why ranks have ended before anybody judges that they have: what they said of it is on its way."""
        until = Deadline(_GATHER_SECONDS)
        while ended - {one.rank for one in self.incidents} - self._finished and not until.passed:
            self._hear(min(until.left, 0.25))

    def _without_culprit(self, seen: Sequence[Seen]) -> Incident:
        spec = self.specs[self._benchmark] if self._benchmark >= 0 else None
        return self._investigation.without_culprit(
            self.incidents[0],
            seen,
            spec=spec,
            points=self.collector.measured(self._benchmark) if spec is not None else 0,
            limit_seconds=self.timeout_seconds,
        )

    def _sharpen_steps(self, positions: Positions) -> None:
        steps = {position.rank: step_text(position, self.specs, self.plan.world_size) for _, position in positions}
        self.incidents[:] = [replace(one, step=steps[one.rank]) if one.rank in steps else one for one in self.incidents]
