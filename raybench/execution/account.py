"""The driver's account of its run, kept message by message: with it the result can be made without the driver."""

import contextlib
import glob
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from diagnostics.agent.messages import Reading
from diagnostics.findings import Finding
from raybench.benchmarks.events import decode
from raybench.documents.run.facts import NodeFacts, typed
from raybench.execution.driver_channel import (
    AgentPiece,
    ClockRead,
    Ended,
    Failed,
    Heard,
    Logs,
    Mark,
    Message,
    Snapshot,
    Unreadable,
)
from raybench.execution.live.agents import HeardAgent
from raybench.execution.live.machine import Machine
from raybench.execution.live.tcp_paths import SOURCE as TCP_PATHS
from raybench.execution.live.tcp_paths import TcpPathWatch
from raybench.execution.live.warning import LiveWarning
from raybench.execution.log_files import ACTIVITY, capped_log
from raybench.execution.phases import AFTERWARDS, SEARCHING
from raybench.execution.record import Planned, RunRecord
from raybench.peers.tcp_paths import SLOW_PROCESSES
from raybench.timeline.keeper import SampleKeeper
from raybench.timeline.last_samples import last_samples_text
from raybench.units import parse_bytes

_START_SECONDS = 60.0  # until the driver says what it does


def _starting() -> Mark:
    return Mark(phase="starting", limit_seconds=_START_SECONDS, began=time.monotonic())


@dataclass(kw_only=True)
class Account:
    """What the driver has said by now. ``record`` is its last snapshot, and complete after ``rebuild``."""

    record: RunRecord
    mark: Mark = field(default_factory=_starting)
    step: str | None = None  # the phase in which what broke the run happened
    failed: Failed | None = None  # the first word on it counts
    unreadable: str | None = None
    ended: bool = False
    gone: bool = False  # the driver, without a last word
    broke: float | None = None  # when the run did: the cause was looked for from then on
    events: list[Heard] = field(default_factory=list)
    logs: dict[str, bytes] = field(default_factory=dict)
    agents: dict[int, HeardAgent] = field(default_factory=dict)  # by the node that speaks for its machine

    samples: SampleKeeper = field(init=False)
    on_reading: Callable[[str, Reading], None] | None = None  # who follows what the agents read, by machine
    _paths: TcpPathWatch | None = None
    _slow: set[str] = field(default_factory=set)  # nodes with a rank that is slow by itself

    def __post_init__(self) -> None:
        record = self.record
        started = record.started.isoformat(timespec="seconds")
        self.samples = SampleKeeper(run_id=record.run_id, started_at=started, start_seconds=record.clock)

    def hear_agent(self, piece: AgentPiece) -> list[LiveWarning]:
        """Take in what the agent of a machine said. Returns what of it a person is told."""
        heard = self._known_agent(piece.node)
        if heard is None:
            return []
        now = time.monotonic()
        messages, told = heard.take(piece.data, now)
        for message in messages:
            self.samples.take(heard.machine, message, now)
            if isinstance(message, Reading) and self.on_reading is not None:
                self.on_reading(heard.machine, message)
            if isinstance(message, Reading) and message.source == TCP_PATHS:
                told += self._tcp_paths().take(heard.machine, message, now, self._with_slow_processes())
        return told

    def _tcp_paths(self) -> TcpPathWatch:
        """What compares the paths of all nodes; of emulated ones there are none."""
        if self._paths is None:
            planned = self.record.need()
            apart = [] if planned.emulated else [one for one in planned.machines if len(one.nodes) == 1]
            infos = {
                one.name: planned.node_info(index, planned.plan.nodes[index]) for one in apart for index in one.nodes
            }
            self._paths = TcpPathWatch(
                nodes={machine: info.name for machine, info in infos.items()},
                addresses={address: info.name for info in infos.values() for address in info.addresses},
                ranks={info.name: info.ranks for info in infos.values()},
                started=self.record.clock,
            )
        return self._paths

    def hear_warning(self, warning: LiveWarning) -> None:
        """Keep which nodes have a rank that is slow by itself."""
        if warning.rule in SLOW_PROCESSES and not warning.over:
            self._slow.update(warning.hosts)

    def _with_slow_processes(self) -> set[str]:
        """Nodes that are slow for another reason than their links: by their ranks, or since others use them."""
        findings = (one for heard in self.agents.values() for one in heard.findings)
        return self._slow.union(host for one in findings if one.rule in SLOW_PROCESSES for host in one.hosts)

    def _known_agent(self, node: int) -> HeardAgent | None:
        heard = self.agents.get(node) or self._agent_of(node)
        if heard is not None and node not in self.agents:
            self.agents[node] = heard
            self.samples.machine(heard.machine, tuple(heard.nodes), is_here=self._is_here(node))
        return heard

    def _hear_clock(self, read: ClockRead) -> None:
        heard = self._known_agent(read.node)
        if heard is not None:
            self.samples.answered(
                heard.machine,
                asked_seconds=read.asked_seconds,
                there_seconds=read.there_seconds,
                answered_seconds=read.answered_seconds,
            )

    def _is_here(self, node: int) -> bool:
        """Whether this command is on the machine of a node: there is one clock then."""
        planned = self.record.need()
        return planned.emulated or typed(NodeFacts, planned.facts[node]).early_rank_host is True

    def _agent_of(self, node: int) -> HeardAgent | None:
        planned = self.record.planned
        if planned is None or len(planned.facts) < len(planned.plan.nodes):
            return None  # which nodes share a machine is told a moment after the plan is
        # Only the first node of a machine was told to start an agent; what another says of it, it has made up.
        machine = next((one for one in planned.machines if node == one.nodes[0]), None)
        return None if machine is None else self._heard_agent(planned, machine)

    def _heard_agent(self, planned: Planned, machine: Machine) -> HeardAgent:
        return HeardAgent(
            machine=machine.name,
            nodes=[planned.plan.nodes[index].name for index in machine.nodes],
            ranks=frozenset(rank for index in machine.nodes for rank in planned.plan.ranks_of(index)),
            started=self.record.clock,
        )

    def take(self, message: Message | None) -> None:
        """Keep what a message says of the run; None where no more will come."""
        match message:
            case None:
                self.gone = not self.ended
            case Mark():
                self.mark = message
                self.step = self.step if message.phase in AFTERWARDS else message.phase
                self.broke = message.began if message.phase == SEARCHING else self.broke
            case Snapshot():
                self.record = message.record
            case ClockRead():
                self._hear_clock(message)
            case Heard():
                self.events.append(message)
            case Logs():
                self.logs = message.logs
            case Failed():
                self.failed = self.failed or message
            case Unreadable():
                self.unreadable = self.unreadable or message.reason
            case Ended():
                self.ended = True

    @property
    def over(self) -> bool:
        """Whether nothing more will be said."""
        return self.ended or self.gone

    @property
    def was_interrupted(self) -> bool:
        """Whether a signal ended the run in the driver: ours where we asked it to end, else somebody else's."""
        said = self.failed is not None and self.failed.interrupted
        return said or any(one.kind == "interrupted" for one in self.record.incidents)

    def rebuild(self) -> None:
        """Put together what the driver said in pieces."""
        self.record.logs = self.logs
        self.record.samples = self.samples.samples()
        self._tell_last_samples()
        self.record.findings += [finding for heard in self.agents.values() for finding in heard.findings]
        self.record.findings += self._silent_agents()
        if self.record.planned is not None:
            for heard in self.events:
                event = decode(heard.data, self.record.planned.specs)
                self.record.planned.collector.take(heard.launch, event, heard.at - self.record.clock)

    def _silent_agents(self) -> list[Finding]:
        """The machines that nobody watched while the ranks went on: no warning of them says nothing."""
        planned = self.record.planned
        if planned is None or not self.events or not self.record.config.agent:
            return []
        agents = [self.agents.get(one.nodes[0]) or self._heard_agent(planned, one) for one in planned.machines]
        found = [one.missing(self.events[0].at, self.events[-1].at) for one in agents]
        return [one for one in found if one is not None]

    def _tell_last_samples(self) -> None:
        """Put what the agents saw when the run broke below what its ranks did then."""
        if self.broke is None or self.record.samples is None or ACTIVITY not in self.record.logs:
            return
        at = self.broke - self.record.clock
        blamed = {one.node for one in self.record.incidents if one.node is not None}
        self.record.logs[ACTIVITY] += last_samples_text(self.record.samples, at, blamed).encode()


def logs_below(workplace: Path, record: RunRecord) -> dict[str, bytes]:
    """Logs of ranks whose node actors had their files in the run's own folder, as those of an embedded cluster have."""
    limit = parse_bytes(record.config.log_limit)
    found = {}
    names = glob.glob("*/*-rank-*.log", root_dir=workplace)
    for path in sorted(workplace / name for name in names):
        with contextlib.suppress(OSError):
            found[path.name] = capped_log(path, limit)
    return found


def tell_phase(phase: str) -> None:
    """Append the phase that begins to the file named by RAYBENCH_PHASES, for whoever injects faults."""
    path = os.environ.get("RAYBENCH_PHASES")
    if path:
        with contextlib.suppress(OSError), Path(path).open("a", encoding="utf-8") as file:
            file.write(f"{time.monotonic():.3f} {phase}\n")
