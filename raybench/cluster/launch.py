"""One launch of a run's ranks, from the rendezvous to their end, watched all the while."""

import re
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import msgspec

from raybench.benchmarks.events import (
    BenchmarkFinished,
    BenchmarkStarted,
    Event,
    PointMeasured,
    RankExited,
    RankFailed,
    RankFinished,
    RankReady,
    Record,
    WorkloadMeasured,
)
from raybench.benchmarks.job import RankJob
from raybench.benchmarks.spec import BenchmarkSpec, RankSamples
from raybench.cluster.activity_text import activity_text, explanation_of
from raybench.cluster.agents import Agent, Agents, Deadline, reason_of
from raybench.cluster.answers import AnswerError, decode_answer
from raybench.cluster.bounded import HeadWatch
from raybench.cluster.collector import Collector
from raybench.cluster.doing import Seen
from raybench.cluster.ending import at_work_text, ending_text
from raybench.cluster.event_check import EventError, event_of
from raybench.cluster.flight_file import flight_records
from raybench.cluster.hang import hang, is_stalled, mismatches
from raybench.cluster.incident import Incident, culprits, failure_kind, next_step, step_text, stopped
from raybench.cluster.messages import RankPosition
from raybench.cluster.placement import Plan
from raybench.cluster.rank_host_process import RankHostError
from raybench.errors import UsageError

POLL_SECONDS = 1.0
SILENCE_SECONDS = 10.0
_ABSENCE_SECONDS = 3.0
_GATHER_SECONDS = 1.5  # after the first sign of trouble: the cause may speak later than its victims
_LOOK_SECONDS = 5.0  # a node that takes longer to say what its ranks do is not waited for
_ANSWER_SECONDS = 4.0  # a node that takes longer to say where its ranks are is lost
START_SECONDS = 60.0  # until every rank has joined, or the benchmark's limit where that is longer
_RANK_HOST_ERROR = re.compile(rf"(?:[\w.]*\.)?{RankHostError.__name__}: ")  # as the last line of a traceback


class Watcher(Protocol):
    """What a launch tells while it runs."""

    def ready(self, rank: int, facts: Mapping[str, str]) -> None:
        """A rank has joined the process group."""

    def heard(self, data: bytes) -> None:
        """An event, encoded, that has samples or says that they are complete."""

    def troubled(self) -> None:
        """Something broke; nothing has been ended yet."""

    def started(self, benchmark: int) -> None:
        """The ranks turn to a benchmark of the plan."""

    def measured(self, benchmark: int, samples: Mapping[int, RankSamples]) -> None:
        """All ranks have measured a point."""

    def worked(self, benchmark: int, records: Mapping[int, Record]) -> None:
        """All ranks have measured a point of a workload."""

    def told(self, benchmark: int, rank: int, part: Record) -> None:
        """A rank goes on with a point of a workload, and says what it has by now."""


@dataclass(kw_only=True)
class Launch:
    """One launch. ``stopping`` is set from outside to end it early."""

    agents: Agents
    plan: Plan
    specs: Sequence[BenchmarkSpec]
    collector: Collector
    watcher: Watcher
    stopping: threading.Event
    timeout_seconds: float
    head: HeadWatch
    incidents: list[Incident] = field(default_factory=list)
    activity: dict[str, bytes] = field(default_factory=dict)  # files that say what every rank did when it broke
    _ready: set[int] = field(default_factory=set)
    _finished: set[int] = field(default_factory=set)
    _benchmark: int = -1
    _deadline: Deadline = field(default_factory=lambda: Deadline(START_SECONDS))
    _last_heard: float = field(default_factory=time.monotonic)
    # While ranks join: when to look for one that is stopped.
    _join_limit: Deadline = field(default_factory=lambda: Deadline(START_SECONDS))
    _answered: set[int] = field(default_factory=set)  # nodes that could say where their ranks were
    _polls: dict[Any, tuple[Agent, float]] = field(default_factory=dict)  # by reference: who, and asked when

    def run(
        self, jobs: Sequence[Sequence[RankJob]], variables: Sequence[Mapping[str, str | None]], log_limit: int
    ) -> None:
        """Start the ranks, ``jobs`` and ``variables`` by node, and stay until they are through or something breaks.

        What broke is in ``incidents``, cause and victims; the ranks are then ended.
        """
        self._deadline = Deadline(max(START_SECONDS, self.timeout_seconds))
        self._join_limit = Deadline(self.timeout_seconds)
        for agent in self.agents.agents:
            encoded = msgspec.msgpack.encode((tuple(jobs[agent.index]), tuple(self.specs)))
            agent.actor.start.remote(encoded, dict(variables[agent.index]), log_limit)
            self._poll(agent)
        while len(self._finished) < self.plan.world_size and not self._trouble():
            self._hear(0.25)
        if self.incidents:
            self.watcher.troubled()
            self._investigate()
        _, silent = self.agents.ask(_ANSWER_SECONDS, "stop")
        for index, why in silent.items():
            if self.incidents and index not in self._answered:  # one that answered may take its time to end its ranks
                self._node_lost(self.plan.nodes[index].name, index, why)

    def _poll(self, agent: Agent) -> None:
        self._polls[agent.actor.poll.remote(POLL_SECONDS)] = agent, time.monotonic()

    def _trouble(self) -> bool:
        if self.stopping.is_set() and not self.incidents:
            self.incidents.append(Incident(kind="interrupted", reason="stopped by you", step=self._step()))
        elif (problem := self.head.problem()) is not None and not self.incidents:
            reason = f"the head of the Ray cluster does not answer any more ({problem})"
            node = self._node_at(self.head.address)
            self.incidents.append(Incident(kind="cluster-lost", node=node, reason=reason, step=self._step()))
        elif self._deadline.passed and not self.incidents:
            joined = f"{len(self._ready)} of {self.plan.world_size} ranks had joined"
            limit = f"the time limit of {self.timeout_seconds:.0f} s is over"
            reason = limit if self._benchmark >= 0 else f"the ranks did not come together in time: {joined}"
            self.incidents.append(Incident(kind="time-limit", reason=reason, step=self._step()))
        elif self._benchmark < 0 and self._join_limit.passed and not self.incidents:
            self._join_limit = Deadline(self.timeout_seconds)
            self.incidents += self._missing()
        return bool(self.incidents)

    def _missing(self) -> list[Incident]:
        """Who keeps the others from coming together: found at the limit, though a start may take longer than it."""
        positions, world_size = self._positions(), self.plan.world_size
        found = stopped(positions, self.specs, world_size=world_size)
        return found or hang(self._look(positions), self.specs, world_size=world_size)

    def _node_at(self, address: str) -> str | None:
        """The name of the only node of the plan with the host of HOST:PORT; None where there is none, or several."""
        host = address.rpartition(":")[0].strip("[]")
        names = [node.name for node in self.plan.nodes if node.address == host]
        return names[0] if len(names) == 1 else None

    def _step(self) -> str:
        if self._benchmark < 0:
            return "joining the process group"
        measured = self.collector.measured(self._benchmark)
        return next_step(self.specs[self._benchmark], measured, self.plan.world_size)

    def _hear(self, seconds: float) -> None:
        """Take in what the agents have to say within that time."""
        import ray  # noqa: PLC0415

        if not self._polls:
            time.sleep(seconds)
            return
        self._forgive_absence()
        polls = list(self._polls)
        ready, _ = ray.wait(polls, num_returns=len(polls), timeout=0)
        if not ready:
            ready, _ = ray.wait(polls, num_returns=1, timeout=seconds)
        for reference in ready:
            agent, _ = self._polls.pop(reference)
            try:
                self._take_all(agent, decode_answer("poll", ray.get(reference)))
            except (ray.exceptions.RayError, AnswerError, EventError) as error:
                self._node_lost(agent.node.name, agent.index, reason_of(error))
                continue
            self._poll(agent)
        self._miss_silent()
        self._last_heard = time.monotonic()

    def _forgive_absence(self) -> None:
        """Where it was us who were away (a stopped terminal, a stalled disk), nobody's silence counts yet."""
        now = time.monotonic()
        if now - self._last_heard > _ABSENCE_SECONDS:
            self._polls = {reference: (agent, now) for reference, (agent, _) in self._polls.items()}
        self._last_heard = now

    def _miss_silent(self) -> None:
        """A poll is answered within POLL_SECONDS; Ray itself takes up to a minute to see that a machine has gone."""
        now = time.monotonic()
        for reference, (agent, asked) in list(self._polls.items()):
            if now - asked > SILENCE_SECONDS:
                del self._polls[reference]
                self._node_lost(agent.node.name, agent.index, f"silent for {SILENCE_SECONDS:.0f} s")

    def _take_all(self, agent: Agent, events: Sequence[bytes]) -> None:
        ranks = self.plan.ranks_of(agent.index)
        for data in events:
            event = event_of(data, ranks, self.specs, self.plan.world_size)
            self._take(event)
            if isinstance(event, PointMeasured | WorkloadMeasured | BenchmarkFinished):
                self.watcher.heard(data)

    def _take(self, event: Event) -> None:
        match event:
            case RankReady():
                self._ready.add(event.rank)
                self.watcher.ready(event.rank, event.facts)
            case BenchmarkStarted() if event.benchmark > self._benchmark:
                self._benchmark = event.benchmark
                self._deadline = Deadline(self.timeout_seconds)
                self.watcher.started(event.benchmark)
            case PointMeasured():
                complete = self.collector.add(event.benchmark, event.rank, event.samples)
                if complete is not None:
                    self.watcher.measured(event.benchmark, complete)
            case WorkloadMeasured():
                self._take_record(event)
            case BenchmarkFinished():
                self.collector.finish(event.benchmark, event.rank, event.skipped)
            case RankFinished():
                self._finished.add(event.rank)
            case RankFailed() | RankExited():
                self._rank_ended(event)

    def _take_record(self, event: WorkloadMeasured) -> None:
        if event.record.interim:
            self.collector.add_part(event.benchmark, event.rank, event.record)
            self.watcher.told(event.benchmark, event.rank, event.record)
            return
        records = self.collector.add_record(event.benchmark, event.rank, event.record)
        if records is not None:
            self.watcher.worked(event.benchmark, records)

    def _rank_ended(self, event: RankFailed | RankExited) -> None:
        node = self.plan.node_of(event.rank).name
        if isinstance(event, RankFailed):
            kind = failure_kind(event.error)
            reason = event.error.splitlines()[0][:300].replace(f"{UsageError.__name__}: ", "wrong use: ", 1)
        elif event.rank in self._finished or any(one.rank == event.rank for one in self.incidents):
            return
        else:
            kind, reason = "rank-died", ending_text(event)
        self.incidents.append(Incident(kind=kind, reason=reason, node=node, rank=event.rank, step=self._step()))

    def _node_lost(self, name: str, index: int, why: str) -> None:
        host = _RANK_HOST_ERROR.match(why)
        if host is not None:
            self._rank_host_lost(name, why[host.end() :])
            return
        self.agents.lost.add(index)
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

    def _rank_host_lost(self, name: str, reason: str) -> None:
        """The node itself answers. The nodes of an embedded cluster share one rank host, and none is to blame."""
        node = None if self.agents.share_a_host else name
        if any(one.kind == "rank-host-lost" and one.node == node for one in self.incidents):
            return
        self.incidents.append(
            Incident(kind="rank-host-lost", reason=reason, node=node, step=self._step(), component="rank host")
        )

    def _investigate(self) -> None:
        """Hear the rest, then look where every rank is and which nodes still answer."""
        if self.incidents[0].kind in ("interrupted", "cluster-lost", "rank-host-lost"):
            return
        until = Deadline(_GATHER_SECONDS)
        while not until.passed:
            self._hear(min(until.left, 0.25))
        positions = self._positions()
        seen = self._look(positions)
        self._sharpen_steps(positions)
        self.incidents += self._blamed(positions, seen)

    def _blamed(self, positions: Sequence[tuple[str, RankPosition]], seen: Sequence[Seen]) -> list[Incident]:
        """Who held up a run that came to its limit, or lost a connection; whose operation broke the others'."""
        world_size = self.plan.world_size
        if self.incidents[0].kind not in ("time-limit", "connection-lost"):
            return mismatches(seen, self.specs, world_size=world_size)
        spoken = {one.rank for one in self.incidents if one.rank is not None}
        found = culprits(positions, self.specs, spoken, world_size=world_size)
        found = found or hang(seen, self.specs, world_size=world_size)
        if not found and self.incidents[0].kind == "time-limit":
            self._say_at_work(seen)
        return found

    def _look(self, positions: Sequence[tuple[str, RankPosition]]) -> list[Seen]:
        """What every rank that can be reached is doing. Takes two seconds, and never longer than ``_LOOK_SECONDS``."""
        answers, _ = self.agents.ask(_LOOK_SECONDS, "activities")
        found = {one.rank: one for node in answers.values() for one in node}
        seen = [
            Seen(node=node, position=position, activity=found[position.rank])
            for node, position in positions
            if position.rank in found
        ]
        self.activity = {"activity.txt": activity_text(seen).encode()} | flight_records(seen, self.plan.backend)
        return seen

    def _positions(self) -> list[tuple[str, RankPosition]]:
        """Where the ranks are of every node that answers; the others are lost."""
        answers, silent = self.agents.ask(_ANSWER_SECONDS, "positions")
        for index, why in silent.items():
            self._node_lost(self.plan.nodes[index].name, index, why)
        for index, found in list(answers.items()):
            if not {one.rank for one in found} <= set(self.plan.ranks_of(index)):
                self._node_lost(self.plan.nodes[index].name, index, "it speaks for ranks of other nodes")
                del answers[index]
        self._answered |= set(answers)
        return [(self.plan.nodes[index].name, one) for index, found in sorted(answers.items()) for one in found]

    def _say_at_work(self, seen: Sequence[Seen]) -> None:
        """Nobody is to blame: the ranks were slow for their limit, or it cannot be told what holds them up."""
        first = self.incidents[0]
        if is_stalled(seen):
            text = f"{first.reason}; whether the ranks hang or are slow cannot be told"
            self.incidents[0] = replace(first, reason=text, explanation=explanation_of(seen), confidence="possible")
            return
        spec = self.specs[self._benchmark] if self._benchmark >= 0 else None
        measured = self.collector.measured(self._benchmark) if spec is not None else 0
        iterations = [one.position.iteration for one in seen if one.position.phase == "timing"]
        text = at_work_text(
            spec,
            points=measured,
            steps=min(iterations, default=0),
            world_size=self.plan.world_size,
            limit_seconds=self.timeout_seconds,
        )
        self.incidents[0] = replace(first, reason=f"{first.reason}, {text}")

    def _sharpen_steps(self, positions: Sequence[tuple[str, RankPosition]]) -> None:
        steps = {position.rank: step_text(position, self.specs, self.plan.world_size) for _, position in positions}
        self.incidents[:] = [replace(one, step=steps[one.rank]) if one.rank in steps else one for one in self.incidents]
