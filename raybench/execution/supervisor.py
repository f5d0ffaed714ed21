"""The command's side of a run: it watches the driver, a process of its own, and ends it when it must.

Nothing that happens in Ray can hold this process: it imports none of it. The driver says which phase it is in and for
how long at most, and beats every second. Where a signal comes, a process of the run is stopped or has ended, or a phase
is over and the driver does not say so, the driver is asked to end in order, and after some seconds killed. The record
is complete either way.
"""

import contextlib
import queue
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Protocol

import msgspec

from diagnostics.agent.messages import Reading
from raybench.documents.live_run import WRITING
from raybench.errors import RaybenchError
from raybench.execution.account import Account, logs_below, tell_phase
from raybench.execution.decision import Situation, decide
from raybench.execution.driver import Driver
from raybench.execution.driver_channel import (
    AgentPiece,
    Consulted,
    Heard,
    Joining,
    JournalLine,
    Mark,
    Marked,
    Message,
    Outliving,
    Shown,
    message_of,
)
from raybench.execution.incidents.explanation import DriverEnd, explain
from raybench.execution.incidents.lookout import Lookout
from raybench.execution.incidents.process_watch import ProcessWatch
from raybench.execution.live.state import LiveState
from raybench.execution.live.told_warnings import ToldWarnings
from raybench.execution.live.warning import LiveWarning
from raybench.execution.node_actors.farewell import say_farewell
from raybench.execution.phases import LEAVING, MEASURING
from raybench.execution.record import RunRecord
from raybench.execution.run_guard import RunGuard
from raybench.processes.interrupt import Interrupt

_END_SECONDS = 5.0
_TICK_SECONDS = 0.25
_AWAY_SECONDS = 3.0  # since the last tick: this process was stopped, or starved


class Display(Protocol):
    """Where a person sees how far the run is."""

    def start(self, total_steps: int, title: str) -> None:
        """Begin a run of so many steps."""

    def step(self, benchmark: str, detail: str, rank_count: int) -> None:
        """Say what begins now."""

    def progress(self, done: int, total: int, text: str, left_seconds: float | None) -> None:
        """Say how far the step is that runs: so many of its own steps, figures of now, and what is left of it."""

    def note(self, text: str) -> None:
        """Say something that stays."""

    def close(self) -> None:
        """End the display. May be called more than once."""


class Journal(Protocol):
    """Where raw samples go as soon as they are complete."""

    def append(self, line: bytes) -> None:
        """Keep one point."""

    def warn(self, line: bytes) -> None:
        """Keep one warning."""

    def write_state(self, content: bytes) -> None:
        """Say how the run stands now, in place of what was said before."""


class Listener(Protocol):
    """Who follows the run from afar, such as an experiment tracker. Nothing of it may take time here, or raise."""

    def planned(self, record: RunRecord) -> None:
        """The plan is known."""

    def heard(self, launch: int, data: bytes) -> None:
        """An event of a rank, encoded, that has to do with samples."""

    def warned(self, line: str) -> None:
        """A warning, as it stands on the terminal."""

    def sampled(self, machine: str, reading: Reading) -> None:
        """What the agent of a machine read."""

    def complaints(self) -> Iterable[str]:
        """What a person is to be told of it, each once."""


@dataclass(kw_only=True)
class Supervisor:
    """Watches one run. ``record`` is what its driver has said, and complete after ``watch``."""

    account: Account
    driver: Driver
    display: Display
    journal: Journal
    interrupt: Interrupt
    guard: RunGuard
    listener: Listener | None = None
    _lookout: Lookout = field(init=False)
    _state: LiveState = field(default_factory=LiveState)
    _told: ToldWarnings = field(default_factory=ToldWarnings)
    _waiting: queue.SimpleQueue[Message | None] = field(default_factory=queue.SimpleQueue)
    _asked: float | None = None
    _outliving: Outliving | None = None
    _heard: float = field(default_factory=time.monotonic)
    _ticked: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        nodes = self.record.config.nodes or 1
        if self.listener is not None:
            self.account.on_reading = self.listener.sampled
        self._lookout = Lookout(watch=ProcessWatch(self.driver.pid, self.driver.spared, self.driver.others, nodes))

    @property
    def record(self) -> RunRecord:
        """What is known of the run."""
        return self.account.record

    def watch(self) -> RaybenchError | None:
        """Stay until the driver is through or ended. Returns the error by which it refused the run, if it did."""
        reader = threading.Thread(target=self._read, daemon=True, name="driver-channel")
        reader.start()
        killed = self._attend()
        self._write_state(WRITING)
        self.account.logs = self.account.logs or logs_below(self.driver.workplace, self.record)
        self.driver.end()
        reader.join(_END_SECONDS)
        self._drain()
        self.account.rebuild()
        if not self.account.ended:
            self._end_outliving()
        self.guard.node_actors_may_stay()
        return explain(self.account, self._lookout, self._end(killed=killed))

    def _attend(self) -> bool:
        """Listen and look until the driver is through. Returns whether it has to be killed instead."""
        while not self.account.over:
            self._hear()
            self._look()
            self._complain()
            self._write_state(self.account.mark.phase)
            match decide(self._situation()):
                case "ask":
                    self._asked = time.monotonic()
                    self.driver.interrupt()
                case "kill":
                    return True
        return False

    def _read(self) -> None:
        """In a thread of its own: half a message, of a driver that was stopped, keeps only this thread."""
        try:
            with contextlib.suppress(OSError, EOFError):
                while True:
                    self._waiting.put(message_of(self.driver.connection.recv_bytes()))
        finally:
            self._waiting.put(None)

    def _hear(self) -> None:
        """Take in what the driver says, for a moment at least."""
        with contextlib.suppress(queue.Empty):
            self._take(self._waiting.get(timeout=_TICK_SECONDS))
            self._drain()
        now = time.monotonic()
        if (away := now - self._ticked) > _AWAY_SECONDS:  # it was us: nobody's silence counts
            self._heard += away
            self.account.mark = replace(self.account.mark, began=self.account.mark.began + away)
            self._lookout.watch.forgive(away)
        self._ticked = now

    def _drain(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                self._take(self._waiting.get_nowait())

    def _take(self, message: Message | None) -> None:
        self._heard = time.monotonic()
        unplanned = self.record.planned is None
        self.account.take(message)
        if unplanned and self.record.planned is not None:
            self._lookout.name_nodes(self.record.planned.plan)
        self._pass_on(message, unplanned=unplanned)
        match message:
            case Mark():
                self._look(at_once=True)
                tell_phase(message.phase)
            case JournalLine():
                self.journal.append(message.line)
            case LiveWarning() | AgentPiece():
                self._warn(message)
            case Marked():
                self._state.marked(message.marks)
            case Shown():
                self._state.shown(message.method, message.arguments)
                getattr(self.display, message.method)(*message.arguments)
            case Joining():
                self._lookout.join(message.address)
            case Outliving():
                self._know_outliving(message)
            case Consulted():
                self._consult()

    def _pass_on(self, message: Message | None, *, unplanned: bool) -> None:
        if self.listener is None:
            return
        if unplanned and self.record.planned is not None:
            self.listener.planned(self.record)
        if isinstance(message, Heard):
            self.listener.heard(message.launch, message.data)

    def _write_state(self, phase: str) -> None:
        page = self._state.page(self.record, phase, self.account.agents.values())
        if page is not None:
            self.journal.write_state(page)

    def _complain(self) -> None:
        for text in self.listener.complaints() if self.listener is not None else ():
            self.display.note(f"WARNING: {text}")

    def _warn(self, message: LiveWarning | AgentPiece) -> None:
        """Said and kept at once: the run may be killed before its end."""
        told = [message] if isinstance(message, LiveWarning) else self.account.hear_agent(message)
        for warning in told:
            self.account.hear_warning(warning)
            self._state.warned(warning)
            if line := self._told.line(warning):
                self.display.note(line)
                if self.listener is not None:
                    self.listener.warned(line)
            self.journal.warn(msgspec.json.encode(warning))

    def _know_outliving(self, message: Outliving) -> None:
        self._outliving = message
        if self._lookout.head is not None:
            self.guard.node_actors_outlive(self._lookout.head.address, message.name, message.count)

    def _consult(self) -> None:
        """Look while all is as it was, and not again."""
        self._look(at_once=True)
        self._lookout.consult()
        with contextlib.suppress(OSError):
            self.driver.connection.send_bytes(b"looked")

    @property
    def _measuring(self) -> bool:
        return self.account.mark.phase == MEASURING

    @property
    def _leaving(self) -> bool:
        return self.account.mark.phase == LEAVING

    def _look(self, *, at_once: bool = False) -> None:
        """See how the processes are, until the driver is told, or begins by itself, to end them."""
        if not (self._leaving or self._asked is not None or self._lookout.consulted or self.account.over):
            self._lookout.look(eager=self.record.planned is None, measuring=self._measuring, at_once=at_once)

    def _situation(self) -> Situation:
        now, lookout, mark = time.monotonic(), self._lookout, self.account.mark
        overdue = lookout.overdue(now, measuring=self._measuring)
        if self._asked is None:
            lookout.guilty = lookout.guilty or overdue
            lookout.ask_head()
        return Situation(
            signals=self.interrupt.received,
            suspects=bool(overdue),
            headless=bool(lookout.head_problem) and not lookout.consulted,
            deaf=any(one.component == "driver" and one.stopped for one in overdue),
            leaving=self._leaving,
            silent=now - self._heard,
            over=now - mark.began - mark.limit_seconds,
            asked=None if self._asked is None else now - self._asked,
        )

    def _end(self, *, killed: bool) -> DriverEnd:
        return DriverEnd(
            driver=f"the driver (process {self.driver.pid})",
            how=self.driver.ending(),
            silent=time.monotonic() - self._heard,
            signals=self.interrupt.received,
            asked=self._asked is not None,
            killed=killed,
        )

    def _end_outliving(self) -> None:
        """End the node actors that the driver, which has gone without a word, left on a cluster."""
        head = self._lookout.head
        if self._outliving is None or head is None or head.problem() is not None:
            return
        if not say_farewell(head.address, self._outliving.name, self._outliving.count):
            self.display.note(
                f"the node actors of this run on the cluster at {head.address} could not be ended; they end by "
                "themselves within a minute"
            )
