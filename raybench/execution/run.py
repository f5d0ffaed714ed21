"""A whole run: join or embed a cluster, place agents, compare nodes, launch the ranks, bring everything home."""

import contextlib
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from raybench.benchmarks.events import Record as RankRecord
from raybench.benchmarks.footprint.record import MemoryRecord
from raybench.benchmarks.registry import labels_of
from raybench.benchmarks.spec import BenchmarkSpec, RankSamples
from raybench.benchmarks.training.record import TrainingRecord
from raybench.errors import IncompleteRunError, ProblemFoundError
from raybench.execution.agents.agents import AGENT_SECONDS, PLACE_SECONDS, Agents, facts_of, place_agents
from raybench.execution.collector import Collector
from raybench.execution.consistency import differences, masked_devices, rank_differences
from raybench.execution.jobs import jobs_of, variables_of
from raybench.execution.launch import START_SECONDS, Launch
from raybench.execution.log_files import logs_of
from raybench.execution.needs import check_embedded, plan_over
from raybench.execution.omitted_traces import lost_logs_finding, trace_findings
from raybench.execution.ranks.prestarted_rank_host import PrestartedRankHost
from raybench.execution.ray_cluster.lost_nodes import LostNodesError
from raybench.execution.ray_cluster.ray_calls import HeadWatch
from raybench.execution.ray_cluster.session import Session, open_session
from raybench.execution.record import Planned, Record
from raybench.execution.variables import common_variables
from raybench.processes.interrupt import Interrupt
from raybench.secret_values import recorded
from raybench.traffic import traffic_between
from raybench.units import parse_bytes

MEASURING, SEARCHING, LEAVING = "measuring", "looking for the cause", "leaving the cluster"
AFTERWARDS = {SEARCHING, LEAVING}  # phases that nothing goes wrong in, but before

_TAKEN = "cannot be opened"  # as an agent says of a port
_LOG_SECONDS = 10.0
_TRAFFIC_SECONDS = 3.0
_PORT_SECONDS = 130.0  # the rank host answers once it has imported torch
_CLUSTER_SECONDS = 120.0  # Ray's own import, of a cold disk, and its own limits, of 30 s each; a second a node
_LEAST_START_SECONDS = 30.0
_CAUSE_SECONDS = 20.0
_LEAVE_SECONDS = 15.0


class Channel(Protocol):
    """Where the run says what it does. See ``driver_channel``."""

    def mark(self, phase: str, limit_seconds: float, record: Record) -> None:
        """A phase begins, which the run itself ends within that time."""

    def joining(self, address: str) -> None:
        """The cluster at HOST:PORT is joined next."""

    def consult(self, record: Record) -> None:
        """There is trouble, and all processes are still as they were."""

    def outliving(self, name: str, count: int) -> None:
        """So many agents, of a group of that name, do not end with this process."""

    def failed(self, raised: BaseException) -> None:
        """The run ends early, by this."""

    def keep(self, record: Record) -> None:
        """This is known by now."""

    def end(self) -> None:
        """Nothing more will be said."""

    def heard(self, launch: int, data: bytes) -> None:
        """An event of a rank that has to do with samples."""

    def logs(self, logs: dict[str, bytes]) -> None:
        """The ranks' logs."""

    def record(self, entry: Mapping[str, Any]) -> None:
        """One complete point of raw samples, for the journal."""

    def start(self, total_steps: int, title: str) -> None:
        """Begin a run of so many steps."""

    def step(self, benchmark: str, detail: str, rank_count: int) -> None:
        """Say what begins now."""

    def note(self, text: str) -> None:
        """Say something that stays."""


@dataclass(kw_only=True)
class Run:
    """One run. What it finds out is in ``record``, and said on ``channel``, whatever happens.

    ``early``: see ``open_session``. ``workplace``: a folder for sockets and files, removed after the run.
    """

    record: Record
    channel: Channel
    interrupt: Interrupt
    workplace: Path
    early: PrestartedRankHost | None = None
    _done: Counter[tuple[int, int]] = field(default_factory=Counter)  # points, by launch and benchmark

    def measure(self) -> None:
        """Do the run. Raises UsageError and ProblemFoundError before anything is measured; later trouble is kept."""
        with contextlib.ExitStack() as stack:
            try:
                self._measure(stack, self._join(stack))
            except BaseException as raised:
                self.channel.failed(raised)  # leaving may hang
                raise
            finally:
                self.channel.mark(LEAVING, _LEAVE_SECONDS, self.record)

    def _join(self, stack: contextlib.ExitStack) -> Session:
        config = self.record.config
        self._mark("starting the cluster", _CLUSTER_SECONDS + (config.nodes or 1))
        session = open_session(
            config.address,
            nodes=config.nodes,
            backend=config.backend,
            early=self.early,
            workplace=self.workplace,
            caller=self,
        )
        with self._phase("cluster"):
            return stack.enter_context(session)

    def _measure(self, stack: contextlib.ExitStack, joined: Session) -> None:
        try:
            self._place_and_launch(stack, joined)
        except Exception as raised:
            if isinstance(raised, LostNodesError):
                self.record.incidents += raised.incidents(share_a_host=joined.emulated)
            self.channel.consult(self.record)
            raise

    def _place_and_launch(self, stack: contextlib.ExitStack, joined: Session) -> None:
        config = self.record.config
        planned = self._plan(joined)
        self._mark("placement", PLACE_SECONDS)
        with self._phase("placement"):
            agents = place_agents(joined, planned.plan, config.keep_warm, self.channel.outliving)
            stack.callback(self._give_back, agents, joined)
        head = stack.enter_context(contextlib.closing(HeadWatch(joined.address)))
        self._mark("starting the agents", start_seconds(config.timeout, AGENT_SECONDS))
        with self._phase("facts"):
            planned.facts = facts_of(agents, planned.plan, start_seconds(config.timeout, AGENT_SECONDS))
        self._compare(planned)
        with self.interrupt.deferred():
            self._launch_all(agents, head)
            self._bring_logs(agents)

    def _give_back(self, agents: Agents, joined: Session) -> None:
        """End the agents. Those of an embedded cluster end with it in any case.

        Without a head there is nothing to leave: Ray would wait for it, and keep the command waiting.
        """
        problem = agents.close()
        if not joined.emulated and any(one.kind == "cluster-lost" for one in self.record.incidents):
            self.channel.keep(self.record)
            self.channel.end()
        if problem is not None and not joined.emulated and not self.record.incidents:
            self.channel.note(
                f"WARNING: the nodes could not be given back ({problem}); the agents that are left there end by "
                "themselves within four minutes"
            )

    def _mark(self, phase: str, limit_seconds: float) -> None:
        self.channel.mark(phase, limit_seconds, self.record)

    def joining(self, address: str) -> None:
        """A running cluster is joined next."""
        self.channel.joining(address)

    def before_embedding(self) -> None:
        """All ranks will be on this machine."""
        check_embedded(self.record.config)

    def _plan(self, session: Session) -> Planned:
        config = self.record.config
        plan = plan_over(config, session.candidates())
        specs = config.plan(plan.backend)
        self.record.planned = Planned(
            plan=plan,
            emulated=session.emulated,
            found_by=session.found_by,
            specs=specs,
            collector=Collector(plan=specs, world_size=plan.world_size, all_sizes=config.sizes is not None),
            variables=common_variables(config.variables()),
        )
        return self.record.planned

    def _compare(self, planned: Planned) -> None:
        found = differences(planned.named_facts())
        if self.record.config.allow_mixed:  # who asks for it knows of it: worth a warning, no failed run
            found = [finding | {"severity": "warning"} for finding in found]
        self.record.findings += found
        if found and not self.record.config.allow_mixed:
            what = "; ".join(str(finding["summary"]) for finding in found)
            raise ProblemFoundError(
                f"the nodes are not alike: {what}. Make them equal, or measure all the same with --allow-mixed."
            )

    def _launch_all(self, agents: Agents, head: HeadWatch) -> None:
        planned, repeats = self.record.need(), self.record.config.repeats
        steps = sum(steps_of(spec, planned.plan.world_size) for spec in planned.specs) * repeats
        self.channel.start(steps, _title(planned))
        with self._counting_traffic(agents, planned):
            for number in range(repeats):
                planned.collector.launch, self.record.launches = number, number + 1
                self.record.benchmark = None
                with self._phase("ranks"):
                    self._launch(agents, head, planned)
                self._mark("counting the traffic", _TRAFFIC_SECONDS)
                if self.record.incidents:
                    return

    def _launch(self, agents: Agents, head: HeadWatch, planned: Planned) -> None:
        config = self.record.config
        self._mark("reserving the port", start_seconds(config.timeout, _PORT_SECONDS))
        launch = Launch(
            agents=agents,
            plan=planned.plan,
            specs=planned.specs,
            collector=planned.collector,
            watcher=self,
            stopping=self.interrupt.event,
            timeout_seconds=config.timeout,
            head=head,
            incidents=self.record.incidents,
        )
        jobs = jobs_of(planned, self._reserve_port(agents, planned), config.timeout)
        variables = variables_of(planned, self.record.run_id)
        for facts, own in zip(planned.facts, variables, strict=True):
            facts["variables"] = own | recorded({name: value for name, value in own.items() if value is not None})
        self._mark("starting the ranks", max(START_SECONDS, config.timeout))
        launch.run(jobs, variables, parse_bytes(config.log_limit))
        self.record.logs |= launch.activity

    @contextlib.contextmanager
    def _counting_traffic(self, agents: Agents, planned: Planned) -> Iterator[None]:
        """Keep what each node's network devices move meanwhile: the proof of which network was used."""
        before, _ = agents.ask(_TRAFFIC_SECONDS, "traffic")
        try:
            yield
        finally:
            after, _ = agents.ask(_TRAFFIC_SECONDS, "traffic")
            for index in before.keys() & after.keys():
                planned.facts[index]["traffic"] = traffic_between(before[index], after[index])

    def _reserve_port(self, agents: Agents, planned: Planned) -> int:
        first = Agents(agents=agents.agents[:1], group=agents.group)
        wanted = planned.plan.nodes[0].address, self.record.config.master_port
        seconds = start_seconds(self.record.config.timeout, _PORT_SECONDS)
        answers, silent = first.ask(seconds, "reserve_port", *wanted)
        if silent:
            name, why = planned.plan.nodes[0].name, silent[0]
            if _TAKEN in why:
                raise IncompleteRunError(f"no port for the rendezvous on {name}: {why}")
            raise LostNodesError({name: why}, phase="reserving the port")
        return int(answers[0])

    def _bring_logs(self, agents: Agents) -> None:
        self._mark("bringing the logs", _LOG_SECONDS + _TRAFFIC_SECONDS)
        with self._phase("logs"):
            answers, silent = agents.ask(_LOG_SECONDS, "logs")
        for index, found in sorted(answers.items()):
            own = logs_of(self.record.need().plan.ranks_of(index), found)
            self.record.logs |= own
            if len(own) < len(found):
                node = agents.agents[index].node.name
                self.channel.note(
                    f"{len(found) - len(own)} logs of {node} are left out: they are of no rank of its own"
                )
        self._say_left_out(agents)
        for index, why in silent.items():
            ranks = self.record.need().plan.ranks_of(index)
            self.record.findings.append(lost_logs_finding(agents.agents[index].node.name, ranks, why))
            self.channel.note(f"WARNING: {self.record.findings[-1]['summary']}")
        self.channel.logs(self.record.logs)

    def _say_left_out(self, agents: Agents) -> None:
        if not any(spec.training is not None and spec.training.profile for spec in self.record.need().specs):
            return
        answers, _ = agents.ask(_TRAFFIC_SECONDS, "long_traces")
        for index, left_out in sorted(answers.items()):
            for finding in trace_findings(agents.agents[index].node.name, left_out):
                self.record.findings.append(finding)
                self.channel.note(f"WARNING: {finding['summary']}")

    def ready(self, rank: int, facts: Mapping[str, str]) -> None:
        """A rank has joined."""
        planned = self.record.need()
        planned.rank_facts[rank] = facts
        if len(planned.rank_facts) == planned.plan.world_size:
            self.record.timings.setdefault("until_all_ranks_joined", self.record.elapsed_seconds)
            self._judge_ranks(planned)

    def _judge_ranks(self, planned: Planned) -> None:
        """Say before anything is timed what makes the ranks' figures doubtful, and keep it whatever happens then."""
        found = rank_differences(planned.named_rank_facts())
        if not planned.emulated:  # an emulated node has a share of the machine's GPUs, and its ranks see that share
            found += masked_devices(planned.named_facts(), planned.named_rank_facts())
        for finding in found:
            if finding not in self.record.findings:
                self.record.findings.append(finding)
                self.channel.note(f"{finding['severity'].upper()}: {finding['summary']}")

    def troubled(self) -> None:
        """Something broke, or the time is over: who is at fault is looked for, and then the ranks are ended."""
        self.channel.consult(self.record)
        self._mark(SEARCHING, _CAUSE_SECONDS)

    def heard(self, data: bytes) -> None:
        """An event of a rank that has to do with samples."""
        self.channel.heard(self.record.launches - 1, data)

    def started(self, benchmark: int) -> None:
        """The ranks turn to a benchmark."""
        self.record.benchmark = benchmark
        self._mark(MEASURING, self.record.config.timeout)
        self._show(benchmark, 0)

    def measured(self, benchmark: int, samples: Mapping[int, RankSamples]) -> None:
        """A point is complete: into the journal, and on to the next size."""
        self.record.timings.setdefault("until_first_point", self.record.elapsed_seconds)
        spec = self.record.need().specs[benchmark]
        self.channel.record(_journal_entry(self.record.launches - 1, spec, samples))
        key = self.record.launches, benchmark  # the last point of one may come after another has started
        self._done[key] += 1
        self._show(benchmark, self._done[key])

    def on_record(self, benchmark: int, records: Mapping[int, RankRecord]) -> None:
        """The same for a point of a workload."""
        self.record.timings.setdefault("until_first_point", self.record.elapsed_seconds)
        spec = self.record.need().specs[benchmark]
        self.channel.record(
            {
                "launch": self.record.launches - 1,
                "benchmark": spec.name,
                "parameters": spec.parameters(),
                "ranks": {str(rank): record for rank, record in sorted(records.items())},
            }
        )
        key = self.record.launches, benchmark
        self._done[key] += 1
        self._show(benchmark, self._done[key])

    def on_partial(self, benchmark: int, rank: int, part: RankRecord) -> None:
        """Steps of a training into the journal, but for the last ones: the whole record has them all.

        Of a search for the largest batch, how far it is.
        """
        if isinstance(part, MemoryRecord) and rank == 0:
            self.channel.note(part.text)
        spec = self.record.need().specs[benchmark]
        if not isinstance(part, TrainingRecord) or spec.training is None or part.marks is None:
            return
        if part.first_step + len(part.losses) < spec.training.steps:
            entry = {"launch": self.record.launches - 1, "benchmark": spec.name, "interim": True}
            self.channel.record(entry | {"ranks": {str(rank): part}})

    def _show(self, benchmark: int, done: int) -> None:
        planned = self.record.need()
        spec, world_size = planned.specs[benchmark], planned.plan.world_size
        labels = labels_of(spec, world_size)
        if done < len(labels):
            self.channel.step(spec.name, labels[done].removeprefix(f"{spec.name} "), world_size)

    @contextlib.contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            self.record.timings[name] = self.record.timings.get(name, 0.0) + time.monotonic() - began


def start_seconds(timeout_seconds: float, most: float) -> float:
    """How long a step of the start may take: as long as a benchmark may, but no shorter than a loaded machine needs."""
    return min(max(timeout_seconds, _LEAST_START_SECONDS), most)


def steps_of(spec: BenchmarkSpec, world_size: int) -> int:
    """Points that a benchmark measures: its sizes, the ordered pairs of ranks, or the parts of a workload."""
    return len(labels_of(spec, world_size))


def _title(planned: Planned) -> str:
    plan, emulated = planned.plan, planned.emulated
    nodes = f"{len(plan.nodes)} {'EMULATED ' * emulated}node{'s' * (len(plan.nodes) > 1)}"
    ranks = f"{plan.world_size} rank{'s' * (plan.world_size > 1)}"
    cluster = f"; Ray cluster {planned.found_by}" if planned.found_by else ""
    return f"{nodes}{' on this machine' * emulated}, {ranks}, {plan.backend}{cluster}"


def _journal_entry(launch: int, spec: BenchmarkSpec, samples: Mapping[int, RankSamples]) -> dict[str, Any]:
    first = next(iter(samples.values()))
    return {
        "launch": launch,
        "benchmark": spec.name,
        "parameters": spec.parameters(),
        "message_bytes": first.message_bytes,
        "source_rank": first.source_rank,
        "destination_rank": first.destination_rank,
        "wrong_elements": {str(rank): one.wrong_elements for rank, one in samples.items() if one.wrong_elements},
        "rank_completion_seconds": {str(rank): one.stamps for rank, one in sorted(samples.items())},
    }
