"""A whole run: join or embed a cluster, place agents, compare nodes, launch the ranks, bring everything home."""

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

from raybench.benchmarks.job import RankJob
from raybench.benchmarks.spec import BenchmarkSpec, RankSamples
from raybench.cluster.agents import Agents, facts_of, place_agents
from raybench.cluster.bounded import HeadWatch
from raybench.cluster.collector import Collector
from raybench.cluster.consistency import differences, masked_devices
from raybench.cluster.incident import Incident, causes
from raybench.cluster.interrupt import Interrupt
from raybench.cluster.launch import Launch
from raybench.cluster.placement import Candidate, Plan, device_index, plan_of
from raybench.cluster.session import Session, open_session
from raybench.cluster.variables import common_variables, node_variables
from raybench.config import RunConfig
from raybench.errors import IncompleteRunError, ProblemFoundError, UsageError
from raybench.results import ClusterInfo, DroppedNode, NodeInfo, RunResult, Status
from raybench.units import format_bytes, parse_bytes

_LOG_SECONDS = 10.0


class Display(Protocol):
    """Where a person sees how far the run is."""

    def start(self, total_steps: int, title: str) -> None:
        """Begin a run of so many steps."""

    def step(self, benchmark: str, detail: str, rank_count: int) -> None:
        """Say what begins now."""

    def note(self, text: str) -> None:
        """Say something that stays."""


class Journal(Protocol):
    """Where raw samples go as soon as they are complete."""

    def record(self, entry: Mapping[str, Any]) -> None:
        """Keep one point."""


@dataclass(kw_only=True)
class Run:
    """One run. ``measure`` does it all; what was found until an error is in ``result()`` at any time."""

    config: RunConfig
    run_id: str
    display: Display
    journal: Journal
    interrupt: Interrupt
    logs: dict[str, bytes] = field(default_factory=dict)
    timings: dict[str, float] = field(default_factory=dict)
    _started: datetime = field(default_factory=lambda: datetime.now(UTC))
    _clock: float = field(default_factory=time.monotonic)
    _plan: Plan | None = None
    _emulated: bool = False
    _specs: tuple[BenchmarkSpec, ...] = ()
    _collector: Collector | None = None
    _facts: list[dict[str, Any]] = field(default_factory=list)
    _rank_facts: dict[int, Mapping[str, str]] = field(default_factory=dict)
    _variables: dict[str, str] = field(default_factory=dict)
    _incidents: list[Incident] = field(default_factory=list)
    _findings: list[dict[str, Any]] = field(default_factory=list)
    _launches: int = 0
    _done: int = 0

    def measure(self) -> None:
        """Do the run. Raises UsageError and ProblemFoundError before anything is measured; later trouble is kept."""
        with self._phase("cluster"), contextlib.ExitStack() as stack:
            session = stack.enter_context(
                open_session(self.config.address, nodes=self.config.nodes, backend=self.config.backend)
            )
            whole = stack.pop_all()
        with whole:
            self._prepare(session)
            with self._phase("placement"):
                agents = place_agents(session, self._need_plan(), self.config.keep_warm)
            with contextlib.closing(agents), contextlib.closing(HeadWatch(session.address)) as head:
                self._compare(agents)
                with self.interrupt.deferred():
                    self._launch_all(agents, head)
                    self._bring_logs(agents)

    def _prepare(self, session: Session) -> None:
        config = self.config
        self._emulated = session.emulated
        self._plan = plan_of(
            session.candidates(), nodes=config.nodes, ranks_per_node=config.gpus_per_node, backend=config.backend
        )
        if config.root >= self._plan.world_size:
            raise UsageError(f"--root is {config.root}, and the run has ranks 0 to {self._plan.world_size - 1}")
        self._specs = config.plan(self._plan.backend)
        self._collector = Collector(plan=self._specs, world_size=self._plan.world_size)
        self._variables = common_variables(config.variables())

    def _compare(self, agents: Agents) -> None:
        plan = self._need_plan()
        with self._phase("facts"):
            self._facts = facts_of(agents, plan)
        named = [(node.name, facts) for node, facts in zip(plan.nodes, self._facts, strict=True)]
        found = differences(named)
        self._findings += found
        if found and not self.config.allow_mixed:
            what = "; ".join(str(finding["summary"]) for finding in found)
            raise ProblemFoundError(
                f"the nodes are not alike: {what}. Make them equal, or measure all the same with --allow-mixed."
            )

    def _launch_all(self, agents: Agents, head: HeadWatch) -> None:
        collector = self._need_collector()
        steps = sum(_steps(spec, collector.world_size) for spec in self._specs) * self.config.repeats
        self.display.start(steps, self._title())
        for number in range(self.config.repeats):
            collector.launch, self._launches = number, number + 1
            self._launch(agents, collector, head)
            if self._incidents:
                return
        if self._emulated:
            return  # an emulated node has a share of the machine's GPUs, and its ranks see that share
        plan = self._need_plan()
        ranks = [(plan.node_of(rank).name, facts) for rank, facts in sorted(self._rank_facts.items())]
        self._findings += masked_devices(list(zip((node.name for node in plan.nodes), self._facts, strict=True)), ranks)

    def _launch(self, agents: Agents, collector: Collector, head: HeadWatch) -> None:
        plan = self._need_plan()
        launch = Launch(
            agents=agents,
            plan=plan,
            specs=self._specs,
            collector=collector,
            watcher=self,
            stopping=self.interrupt.event,
            timeout_seconds=self.config.timeout,
            head=head,
        )
        with self._phase("ranks"):
            try:
                jobs = self._jobs(agents)
            except Exception as error:
                raise IncompleteRunError(f"no port for the rendezvous: {error}") from error
            variables = [
                node_variables(self._variables, facts, node.address, self._host_id(index))
                for index, (node, facts) in enumerate(zip(plan.nodes, self._facts, strict=True))
            ]
            for facts, own in zip(self._facts, variables, strict=True):
                facts["variables"] = own
            launch.run(jobs, variables, parse_bytes(self.config.log_limit))
        self._incidents += launch.incidents

    def _host_id(self, index: int) -> str | None:
        plan = self._need_plan()
        split = self._emulated and plan.backend == "nccl" and len(plan.nodes) > 1
        return f"{self.run_id}-node-{index + 1}" if split else None

    def _jobs(self, agents: Agents) -> list[list[RankJob]]:
        import ray  # noqa: PLC0415

        plan = self._need_plan()
        address = plan.nodes[0].address
        port = ray.get(agents.agents[0].actor.reserve_port.remote(address, self.config.master_port), timeout=130)
        return [
            [self._job(index, local, rank, address, port) for local, rank in enumerate(plan.ranks_of(index))]
            for index in range(len(plan.nodes))
        ]

    def _job(self, index: int, local_rank: int, rank: int, address: str, port: int) -> RankJob:
        plan, facts = self._need_plan(), self._facts[index]
        device = None
        if plan.backend == "nccl":
            ids = facts["gpu_ids"] or [str(number) for number in range(len(facts["gpus"]))]
            device = device_index(ids[local_rank % len(ids)], facts["visible_devices"])
        return RankJob(
            rank=rank,
            local_rank=local_rank,
            world_size=plan.world_size,
            ranks_on_machine=plan.world_size if self._emulated else plan.ranks_per_node,
            backend=plan.backend,
            master_address=address,
            master_port=port,
            timeout_seconds=self.config.timeout + 60.0,  # ours comes first, and knows more
            device_index=device,
        )

    def _bring_logs(self, agents: Agents) -> None:
        with self._phase("logs"):
            answers, silent = agents.ask(_LOG_SECONDS, lambda agent: agent.actor.logs.remote())
        for found in answers.values():
            self.logs |= found
        for index, why in silent.items():
            self.display.note(f"the logs of {self._need_plan().nodes[index].name} could not be fetched: {why}")

    def ready(self, rank: int, facts: Mapping[str, str]) -> None:
        """A rank has joined."""
        self._rank_facts[rank] = facts
        if len(self._rank_facts) == self._need_plan().world_size:
            self.timings.setdefault("until_all_ranks_joined", self._elapsed())

    def started(self, benchmark: int) -> None:
        """The ranks turn to a benchmark."""
        self._show(benchmark, 0)
        self._done = 0

    def measured(self, benchmark: int, samples: Mapping[int, RankSamples]) -> None:
        """A point is complete: into the journal, and on to the next size."""
        self.timings.setdefault("until_first_point", self._elapsed())
        first = next(iter(samples.values()))
        self.journal.record(
            {
                "launch": self._launches - 1,
                "benchmark": self._specs[benchmark].name,
                "parameters": self._specs[benchmark].parameters(),
                "message_bytes": first.message_bytes,
                "source_rank": first.source_rank,
                "destination_rank": first.destination_rank,
                "wrong_elements": {
                    str(rank): one.wrong_elements for rank, one in samples.items() if one.wrong_elements
                },
                "rank_completion_seconds": {str(rank): one.stamps for rank, one in sorted(samples.items())},
            }
        )
        self._done += 1
        self._show(benchmark, self._done)

    def _show(self, benchmark: int, done: int) -> None:
        spec, world_size = self._specs[benchmark], self._need_plan().world_size
        if done < _steps(spec, world_size):
            sizes = sorted(set(spec.sizes))
            detail = format_bytes(sizes[min(done, len(sizes) - 1)])
            self.display.step(spec.name, detail, world_size)

    def _title(self) -> str:
        plan = self._need_plan()
        kind = "EMULATED nodes on this machine" if self._emulated else "nodes"
        return f"{len(plan.nodes)} {kind}, {plan.world_size} ranks, {plan.backend}"

    @contextlib.contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            self.timings[name] = self.timings.get(name, 0.0) + time.monotonic() - began

    def _elapsed(self) -> float:
        return time.monotonic() - self._clock

    def _need_plan(self) -> Plan:
        if self._plan is None:
            raise RuntimeError("the run has no plan yet")
        return self._plan

    def _need_collector(self) -> Collector:
        if self._collector is None:
            raise RuntimeError("the run has no plan yet")
        return self._collector

    def result(self, trouble: Sequence[Incident] = ()) -> RunResult:
        """What is known now. ``trouble`` from outside the launches counts like theirs."""
        incidents = [*self._incidents, *trouble]
        blamed = causes(incidents)
        reason = blamed[0].text() if blamed else None
        benchmarks = self._collector.results(max(self._launches, 1), reason) if self._collector else ()
        findings = [_cause_finding(cause, incidents) for cause in blamed] + self._findings
        return RunResult(
            run_id=self.run_id,
            status=_status(bool(incidents), benchmarks),
            started_at=self._started.isoformat(timespec="seconds"),
            finished_at=datetime.now(UTC).isoformat(timespec="seconds"),
            cluster=self._cluster(incidents),
            versions=_versions(self._facts, self._rank_facts),
            variables=self._variables,
            config=self.config.to_json(),
            benchmarks=benchmarks,
            findings=tuple(findings),
            timings={**self.timings, "total": self._elapsed()},
        )

    def _cluster(self, incidents: Sequence[Incident]) -> ClusterInfo:
        plan = self._plan
        if plan is None:
            return ClusterInfo(nodes=(), world_size=0, backend=self.config.backend or "none", emulated=self._emulated)
        return ClusterInfo(
            nodes=tuple(self._node(index, node) for index, node in enumerate(plan.nodes)),
            world_size=plan.world_size,
            backend=plan.backend,
            emulated=self._emulated,
            dropped=tuple(
                DroppedNode(node=one.node, reason=one.reason)
                for one in incidents
                if one.kind == "node-lost" and one.node is not None
            ),
        )

    def _node(self, index: int, node: Candidate) -> NodeInfo:
        ranks = self._need_plan().ranks_of(index)
        facts = dict(self._facts[index]) if index < len(self._facts) else {}
        facts["ranks"] = {str(rank): dict(self._rank_facts[rank]) for rank in ranks if rank in self._rank_facts}
        return NodeInfo(name=node.name, address=node.address, ranks=ranks, gpu_count=node.gpu_count, facts=facts)


def _steps(spec: BenchmarkSpec, world_size: int) -> int:
    return world_size * (world_size - 1) if spec.name == "p2p_matrix" else len(set(spec.sizes))


def _status(broken: bool, benchmarks: Sequence[Any]) -> Status:
    if any(point.wrong_elements for benchmark in benchmarks for point in benchmark.points):
        return "failed"
    measured = any(benchmark.points for benchmark in benchmarks)
    if broken:
        return "partial" if measured else "failed"
    return "complete" if benchmarks else "failed"


def _cause_finding(cause: Incident, incidents: Sequence[Incident]) -> dict[str, Any]:
    finding = cause.to_finding()
    victims = [one.text() for one in incidents if one.kind != cause.kind]
    return finding | {"victims": victims}


def _versions(facts: Sequence[Mapping[str, Any]], ranks: Mapping[int, Mapping[str, str]]) -> dict[str, str]:
    versions = {}
    if facts:
        versions = {
            name: str(facts[0][name]) for name in ("raybench", "python", "ray", "torch", "nccl", "driver", "kernel")
        }
    if ranks:
        first = ranks[min(ranks)]
        versions |= {name: first[name] for name in ("torch", "nccl", "cuda") if name in first}
    return {name: version for name, version in versions.items() if version != "None"}
