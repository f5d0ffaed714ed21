"""A whole run: join or embed a cluster, place node actors, compare nodes, launch the ranks, bring everything home."""

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from raybench.config import LAUNCHED
from raybench.errors import IncompleteRunError, ProblemFoundError
from raybench.execution.bring_home import bring_logs
from raybench.execution.channel import Channel
from raybench.execution.collector import Collector
from raybench.execution.consistency import differences
from raybench.execution.launch import START_SECONDS, Launch
from raybench.execution.launched.session import LaunchedSession, launched_session
from raybench.execution.live.clocks import reading_clocks
from raybench.execution.needs import check_embedded, check_launched, plan_over
from raybench.execution.node_actors.heartbeat import heartbeat
from raybench.execution.node_actors.node_actors import (
    NODE_ACTOR_SECONDS,
    PLACE_SECONDS,
    NodeActors,
    facts_of,
    place_node_actors,
)
from raybench.execution.phases import LEAVING, start_seconds
from raybench.execution.rank_assignments import assignments_of, variables_of
from raybench.execution.ranks.prestarted_rank_host import PrestartedRankHost
from raybench.execution.ray_cluster.lost_nodes import LostNodesError
from raybench.execution.ray_cluster.ray_calls import HeadWatch, NoHead
from raybench.execution.ray_cluster.session import Session, open_session
from raybench.execution.record import Planned, RunRecord
from raybench.execution.run_progress import RunProgress
from raybench.execution.variables import common_variables
from raybench.more_launches import pause_seconds, widest_spread
from raybench.processes.interrupt import Interrupt
from raybench.secret_values import recorded
from raybench.traffic import traffic_between
from raybench.units import parse_bytes

_TAKEN = "cannot be opened"  # as a node actor says of a port
_TRAFFIC_SECONDS = 3.0
_AGENT_SECONDS = 3.0
_PORT_SECONDS = 130.0  # the rank host answers once it has imported torch
_CLUSTER_SECONDS = 120.0  # Ray's own import, of a cold disk, and its own limits, of 30 s each; a second a node
_LEAVE_SECONDS = 15.0


@dataclass(kw_only=True)
class Run:
    """One run. What it finds out is in ``record``, and said on ``channel``, whatever happens.

    ``early``: see ``open_session``. ``workplace``: a folder for sockets and files, removed after the run.
    """

    record: RunRecord
    channel: Channel
    interrupt: Interrupt
    workplace: Path
    early: PrestartedRankHost | None = None
    _progress: RunProgress = field(init=False)

    def __post_init__(self) -> None:
        self._progress = RunProgress(record=self.record, channel=self.channel)

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

    def _join(self, stack: contextlib.ExitStack) -> Session | LaunchedSession:
        config = self.record.config
        if config.address == LAUNCHED:
            check_launched(config)
            return self._take_in(stack)
        self._mark("starting the cluster", _CLUSTER_SECONDS + (config.nodes or 1))
        session = open_session(
            config.address,
            nodes=config.nodes,
            backend=config.backend,
            early=self.early,
            workplace=self.workplace,
            caller=self,
        )
        with self.record.timed("cluster"):
            return stack.enter_context(session)

    def _take_in(self, stack: contextlib.ExitStack) -> LaunchedSession:
        seconds = start_seconds(self.record.config.timeout, _CLUSTER_SECONDS)
        self._mark("waiting for the launcher's ranks", seconds)
        with self.record.timed("cluster"):
            joined = stack.enter_context(launched_session(os.environ, seconds))
        self.record.config = joined.config_for(self.record.config)
        return joined

    def _measure(self, stack: contextlib.ExitStack, joined: Session | LaunchedSession) -> None:
        try:
            self._place_and_launch(stack, joined)
        except Exception as raised:
            if isinstance(raised, LostNodesError):
                self.record.incidents += raised.incidents(share_a_host=joined.emulated)
            self.channel.consult(self.record)
            raise

    def _place_and_launch(self, stack: contextlib.ExitStack, joined: Session | LaunchedSession) -> None:
        config = self.record.config
        planned = self._plan(joined)
        self._mark("placement", PLACE_SECONDS)
        with self.record.timed("placement"):
            actors = self._placed(stack, joined, planned)
        head = NoHead() if isinstance(joined, LaunchedSession) else HeadWatch(joined.address)
        stack.enter_context(contextlib.closing(head))
        self._mark("starting the node actors", start_seconds(config.timeout, NODE_ACTOR_SECONDS))
        with self.record.timed("facts"):
            planned.facts = facts_of(actors, planned.plan, start_seconds(config.timeout, NODE_ACTOR_SECONDS))
        self._compare(planned)
        with self.interrupt.deferred():
            self._launch_all(actors, head)
            bring_logs(actors, self.record, self.channel)

    def _placed(self, stack: contextlib.ExitStack, joined: Session | LaunchedSession, planned: Planned) -> NodeActors:
        if isinstance(joined, LaunchedSession):
            actors = joined.actors(planned.plan)
            stack.callback(self._give_back, actors, joined)
            return actors
        actors = place_node_actors(joined, planned.plan, self.record.config.keep_warm, self.channel.outliving)
        stack.callback(self._give_back, actors, joined)
        stack.enter_context(contextlib.nullcontext() if joined.emulated else heartbeat(actors))
        return actors

    def _give_back(self, actors: NodeActors, joined: Session | LaunchedSession) -> None:
        """End the node actors. Those of an embedded cluster end with it in any case.

        Without a head there is nothing to leave: Ray would wait for it, and keep the command waiting.
        """
        problem = actors.close()
        if not joined.emulated and any(one.kind == "cluster-lost" for one in self.record.incidents):
            self.channel.keep(self.record)
            self.channel.end()
        if problem is not None and not joined.emulated and not self.record.incidents:
            self.channel.note(
                f"WARNING: the nodes could not be given back ({problem}); the node actors that are left there end by "
                "themselves within a minute"
            )

    def _mark(self, phase: str, limit_seconds: float) -> None:
        self.channel.mark(phase, limit_seconds, self.record)

    def joining(self, address: str) -> None:
        """A running cluster is joined next."""
        self.channel.joining(address)

    def troubled(self) -> None:
        """Something broke while the cluster started."""
        self._progress.troubled()

    def before_embedding(self) -> None:
        """All ranks will be on this machine."""
        check_embedded(self.record.config)

    def _plan(self, session: Session | LaunchedSession) -> Planned:
        config = self.record.config
        plan = plan_over(config, session.candidates())
        specs = config.plan(plan.backend)
        self.record.planned = Planned(
            plan=plan,
            emulated=session.emulated,
            found_by=session.found_by,
            launcher=session.launcher if isinstance(session, LaunchedSession) else "",
            specs=specs,
            collector=Collector(plan=specs, world_size=plan.world_size, all_sizes=config.sizes is not None),
            variables=common_variables(config.variables()),
        )
        return self.record.planned

    def _compare(self, planned: Planned) -> None:
        found = differences(planned.named_facts())
        if self.record.config.allow_mixed:  # who asks for it knows of it: worth a warning, no failed run
            found = [replace(finding, severity="warning") for finding in found]
        self.record.findings += found
        if found and not self.record.config.allow_mixed:
            what = "; ".join(finding.summary for finding in found)
            raise ProblemFoundError(
                f"the nodes differ: {what}. Make them equal, or measure all the same with --allow-mixed."
            )

    def _launch_all(self, actors: NodeActors, head: HeadWatch | NoHead) -> None:
        planned = self.record.need()
        self._progress.begin()
        with self._counting_traffic(actors, planned), self._hearing_agents(actors, planned):
            for number in self._launch_numbers(planned):
                planned.collector.launch, self.record.launches = number, number + 1
                self.record.benchmark = None
                with self.record.timed("ranks"):
                    self._launch(actors, head, planned)
                self._mark("counting the traffic", _TRAFFIC_SECONDS)
                if self.record.incidents:
                    return

    def _launch_numbers(self, planned: Planned) -> Iterator[int]:
        """Those that were asked for, then more while they lie too far apart, as far as the bounds let."""
        config, began = self.record.config, time.monotonic()
        yield from range(config.repeats)
        each, began = (time.monotonic() - began) / config.repeats, time.monotonic()
        for extra in range(config.most_launches - config.repeats if self._judges_spread(planned) else 0):
            worst, pause = widest_spread(planned.collector.results(self.record.launches, None)), pause_seconds(extra)
            if worst is None or pause + each > config.timeout - (time.monotonic() - began):
                return
            if not extra:
                self.channel.note(
                    f"launching again, {config.most_launches} times at most (--max-repeats): {worst.text}"
                )
            self._mark("waiting before another launch", pause + _TRAFFIC_SECONDS)
            self.interrupt.event.wait(pause)  # the launch itself says that it was stopped
            yield config.repeats + extra

    def _judges_spread(self, planned: Planned) -> bool:
        """Emulated nodes share a machine, and their launches differ whatever is done: only where that is asked for."""
        return self.record.config.max_repeats is not None or not planned.emulated

    def _launch(self, actors: NodeActors, head: HeadWatch | NoHead, planned: Planned) -> None:
        config = self.record.config
        self._mark("reserving the port", start_seconds(config.timeout, _PORT_SECONDS))
        launch = Launch(
            actors=actors,
            plan=planned.plan,
            specs=planned.specs,
            collector=planned.collector,
            watcher=self._progress,
            stopping=self.interrupt.event,
            timeout_seconds=config.timeout,
            head=head,
            incidents=self.record.incidents,
            machines=planned.machines if config.agent else (),
            started=self.record.clock,
        )
        assignments = assignments_of(planned, self._reserve_port(actors, planned), config.timeout)
        variables = variables_of(planned, self.record.run_id)
        for facts, own in zip(planned.facts, variables, strict=True):
            facts["variables"] = own | recorded({name: value for name, value in own.items() if value is not None})
        self._mark("starting the ranks", max(START_SECONDS, config.timeout))
        launch.run(assignments, variables, parse_bytes(config.log_limit))
        self.record.logs |= launch.activity

    @contextlib.contextmanager
    def _hearing_agents(self, actors: NodeActors, planned: Planned) -> Iterator[None]:
        """Read the clocks of their machines meanwhile, and at the end hear what they say last."""
        if not self.record.config.agent:
            yield
            return
        machines = () if planned.emulated else planned.machines
        with reading_clocks(actors, machines, self.channel.clock_read):
            yield
        if any(one.kind == "cluster-lost" for one in self.record.incidents):
            return
        answers, _ = actors.ask(_AGENT_SECONDS, "end_agent")
        for index, pieces in sorted(answers.items()):
            for data in pieces:
                self.channel.agent_said(index, data)

    @contextlib.contextmanager
    def _counting_traffic(self, actors: NodeActors, planned: Planned) -> Iterator[None]:
        """Keep what each node's network devices move meanwhile: the proof of which network was used."""
        before, _ = actors.ask(_TRAFFIC_SECONDS, "traffic")
        try:
            yield
        finally:
            after, _ = actors.ask(_TRAFFIC_SECONDS, "traffic")
            for index in before.keys() & after.keys():
                planned.facts[index]["traffic"] = traffic_between(before[index], after[index])

    def _reserve_port(self, actors: NodeActors, planned: Planned) -> int:
        first = replace(actors, handles=actors.handles[:1], lost=set())
        wanted = planned.plan.nodes[0].address, self.record.config.master_port
        seconds = start_seconds(self.record.config.timeout, _PORT_SECONDS)
        answers, silent = first.ask(seconds, "reserve_port", *wanted)
        if silent:
            name, why = planned.plan.nodes[0].name, silent[0]
            if _TAKEN in why:
                raise IncompleteRunError(f"no port for the rendezvous on {name}: {why}")
            raise LostNodesError({name: why}, phase="reserving the port")
        return int(answers[0])
