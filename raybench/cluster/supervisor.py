"""The command's side of a run: it starts the driver in a process of its own, watches it, and ends it when it must.

Nothing that happens in Ray can hold this process: it imports none of it. The driver says which phase it is in and for
how long at most, and beats every second. Where a signal comes, a process of the run is stopped or has ended, or a phase
is over and the driver does not say so, the driver is asked to end in order, and after some seconds killed. The record
is complete either way.
"""

import contextlib
import os
import queue
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from raybench.benchmarks.events import decode
from raybench.cluster.bounded import HeadWatch
from raybench.cluster.decision import SILENT_SECONDS, Situation, decide
from raybench.cluster.driver import Driver
from raybench.cluster.driver_channel import (
    Consulted,
    Ended,
    Failed,
    Heard,
    Joining,
    JournalLine,
    Logs,
    Mark,
    Message,
    Outliving,
    Shown,
    Snapshot,
    Unreadable,
    message_of,
)
from raybench.cluster.farewell import say_farewell
from raybench.cluster.incident import Incident
from raybench.cluster.interrupt import Interrupt
from raybench.cluster.log_files import capped_log
from raybench.cluster.lost_nodes import head_incident
from raybench.cluster.process_watch import ProcessWatch
from raybench.cluster.record import Record
from raybench.cluster.run import AFTERWARDS, LEAVING, MEASURING
from raybench.cluster.sighting import Sighting, at_fault, conclusion, overdue
from raybench.errors import ClusterUnavailableError, ProblemFoundError, RaybenchError, UsageError
from raybench.units import parse_bytes

_START_SECONDS = 60.0  # until the driver says what it does
_END_SECONDS = 5.0
_TICK_SECONDS = 0.25
_LOOK_SECONDS = 1.0
_EAGER_SECONDS = (
    0.2  # while the cluster starts: of a process that has ended, nobody can tell any more whose node it was
)
_LOOK_SHARE = 0.1  # of one processor, at most, on a machine with many processes
_AWAY_SECONDS = 3.0  # since the last tick: this process was stopped, or starved


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

    def append(self, line: bytes) -> None:
        """Keep one point."""


@dataclass(kw_only=True)
class Supervisor:
    """Watches one run. ``record`` is replaced by what the driver says, and complete after ``watch``."""

    record: Record
    driver: Driver
    display: Display
    journal: Journal
    interrupt: Interrupt
    _watch: ProcessWatch = field(init=False)
    _mark: Mark = field(init=False)
    _waiting: queue.SimpleQueue[Message | None] = field(default_factory=queue.SimpleQueue)
    _sightings: tuple[Sighting, ...] = ()
    _guilty: list[Sighting] = field(default_factory=list)
    _events: list[Heard] = field(default_factory=list)
    _logs: dict[str, bytes] = field(default_factory=dict)
    _step: str | None = None  # the phase in which what broke the run happened
    _failed: Failed | None = None  # the first word on it counts
    _unreadable: str | None = None
    _ended: bool = False
    _gone: bool = False  # the driver, without a last word
    _asked: float | None = None
    _consulted: bool = False
    _head: HeadWatch | None = None  # of a cluster that is joined: it may be on another machine
    _head_problem: str | None = None
    _outliving: Outliving | None = None
    _heard: float = field(default_factory=time.monotonic)
    _ticked: float = field(default_factory=time.monotonic)
    _looked: float = 0.0
    _look_seconds: float = 0.0  # that the last look took

    def __post_init__(self) -> None:
        self._watch = ProcessWatch(self.driver.pid, self.driver.spared, self.driver.others)
        self._mark = Mark(phase="starting", limit_seconds=_START_SECONDS, began=time.monotonic())

    def watch(self) -> RaybenchError | None:
        """Stay until the driver is through or ended. Returns the error by which it refused the run, if it did."""
        reader = threading.Thread(target=self._read, daemon=True, name="driver-channel")
        reader.start()
        over = False
        while not (self._ended or self._gone or over):
            self._hear()
            self._look()
            match decide(self._situation()):
                case "ask":
                    self._asked = time.monotonic()
                    self.driver.interrupt()
                case "kill":
                    over = True
        self._logs = self._logs or logs_below(self.driver.workplace, self.record)
        self.driver.end()
        reader.join(_END_SECONDS)
        self._drain()
        self._rebuild()
        if not self._ended:
            self._end_outliving()
        return self._conclude(over=over)

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
            self._mark = replace(self._mark, began=self._mark.began + away)
            self._watch.forgive(away)
        self._ticked = now

    def _drain(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                self._take(self._waiting.get_nowait())

    def _take(self, message: Message | None) -> None:
        self._heard = time.monotonic()
        match message:
            case None:
                self._gone = not self._ended
            case Mark():
                self._mark = message
                self._step = self._step if message.phase in AFTERWARDS else message.phase
                self._look(at_once=True)
                tell_phase(message.phase)
            case Snapshot():
                self._know(message.record)
            case Heard():
                self._events.append(message)
            case Logs():
                self._logs = message.logs
            case JournalLine():
                self.journal.append(message.line)
            case Shown():
                getattr(self.display, message.method)(*message.arguments)
            case Joining() | Consulted() | Outliving():
                self._look_closer(message)
            case Failed() | Unreadable() | Ended():
                self._take_end(message)

    def _take_end(self, message: Failed | Unreadable | Ended) -> None:
        match message:
            case Failed():
                self._failed = self._failed or message
            case Unreadable():
                self._unreadable = self._unreadable or message.reason
            case Ended():
                self._ended = True

    def _know(self, record: Record) -> None:
        if self.record.planned is None and record.planned is not None:
            self._watch.name_nodes({node.node_id: node.name for node in record.planned.plan.nodes})
        self.record = record

    def _look_closer(self, message: Joining | Consulted | Outliving) -> None:
        match message:
            case Joining():
                self._watch.join(message.address)
                self._head = HeadWatch(message.address)
            case Outliving():
                self._outliving = message
            case Consulted():
                self._consult()

    def _consult(self) -> None:
        """Look while all is as it was, and not again: from here on the driver ends what it started."""
        self._look(at_once=True)
        self._consulted = True
        self._guilty = self._guilty or at_fault(self._sightings)
        self._head_problem = self._head_problem or (self._head.problem(in_trouble=True) if self._head else None)
        with contextlib.suppress(OSError):
            self.driver.connection.send_bytes(b"looked")

    def _look(self, *, at_once: bool = False) -> None:
        """See how the processes are, until the driver is told, or begins by itself, to end them."""
        if self._mark.phase == LEAVING or self._asked is not None or self._consulted or self._gone or self._ended:
            return
        measuring = self._mark.phase == MEASURING
        now = time.monotonic()
        pause = _LOOK_SECONDS if self.record.planned else max(_EAGER_SECONDS, self._look_seconds / _LOOK_SHARE)
        if at_once or now - self._looked > min(pause, _LOOK_SECONDS):
            self._sightings = self._watch.look(find=at_once or not measuring)
            self._looked = time.monotonic()
            self._look_seconds = self._looked - now

    def _situation(self) -> Situation:
        now = time.monotonic()
        overdue_ones = overdue(self._sightings, now, measuring=self._mark.phase == MEASURING)
        if self._asked is None:
            self._guilty = self._guilty or overdue_ones
            self._head_problem = self._head_problem or (self._head.problem() if self._head else None)
        return Situation(
            signals=self.interrupt.received,
            suspects=bool(overdue_ones),
            headless=bool(self._head_problem) and not self._consulted,
            deaf=any(one.component == "driver" and one.stopped for one in overdue_ones),
            leaving=self._mark.phase == LEAVING,
            silent=now - self._heard,
            over=now - self._mark.began - self._mark.limit_seconds,
            asked=None if self._asked is None else now - self._asked,
        )

    def _rebuild(self) -> None:
        """Put together what the driver said in pieces."""
        self.record.logs = self._logs
        if self.record.planned is not None:
            for heard in self._events:
                self.record.planned.collector.take(heard.launch, decode(heard.data))

    def _conclude(self, *, over: bool) -> RaybenchError | None:
        """Put on record what ended the run, whoever noticed it. Returns the error where the run was refused."""
        error = self._failed.error if self._failed else None
        refused = isinstance(error, UsageError | ProblemFoundError)
        if refused and not (self._guilty and isinstance(error, ClusterUnavailableError)):
            return error
        if self._mark.phase == LEAVING and not (
            self._asked or self._failed or self._unreadable or self.record.incidents
        ):
            return None  # all was brought home
        if (self._gone or over) and self._failed is None:
            self._guilty = self._guilty or at_fault(self._sightings)
        self.record.incidents = conclusion(
            [*self.record.incidents, *self._head_lost()],
            self._guilty if self._broken(over=over) else (),
            by_user=bool(self.interrupt.received) or (self._asked is None and self._was_interrupted()),
            error=None if error is None else str(error),
            unexplained=self._unexplained(over=over),
            step=self.record.step or self._step,
        )
        return None

    def _head_lost(self) -> Iterator[Incident]:
        """The head that does not answer, unless the driver said so, or a process of the run explains it."""
        said = any(one.kind == "cluster-lost" for one in self.record.incidents)
        if self._head is not None and self._head_problem is not None and not self._guilty and not said:
            nodes = self.record.planned.plan.nodes if self.record.planned else ()
            yield head_incident(self._head.address, self._head_problem, nodes, self.record.step or self._step)

    def _end_outliving(self) -> None:
        """End the agents that the driver, which has gone without a word, left on a cluster."""
        if self._outliving is None or self._head is None or self._head.problem() is not None:
            return
        if not say_farewell(self._head.address, self._outliving.name, self._outliving.count):
            self.display.note(
                f"the agents of this run on the cluster at {self._head.address} could not be ended; they end by "
                "themselves within four minutes"
            )

    def _was_interrupted(self) -> bool:
        """Whether a signal ended the run in the driver: ours where we asked it to end, else somebody else's."""
        said = self._failed is not None and self._failed.interrupted
        return said or any(one.kind == "interrupted" for one in self.record.incidents)

    def _broken(self, *, over: bool) -> bool:
        """Whether the run ended otherwise than by itself: else a process may have ended as it likes."""
        return bool(self.record.incidents or self._asked or self._gone or over or self._failed)

    def _unexplained(self, *, over: bool) -> str | None:
        """How the driver ended that did not say why; None where it came to its end."""
        driver = f"the driver (process {self.driver.pid})"
        if self._unreadable is not None:
            return f"a message of {driver} cannot be read, and what it said with it is lost ({self._unreadable})"
        if not over:
            return f"{driver} {self.driver.ending()}" if self._gone else None
        silent = time.monotonic() - self._heard
        held = f"; it has not run for {silent:.0f} s, most likely inside Ray" if silent > SILENT_SECONDS else ""
        return (
            f"{driver} did not come to an end within {self._mark.limit_seconds:.0f} s of {self._mark.phase}{held}; no "
            "process of the run on this machine was seen to be stopped or to have ended"
        )


def tell_phase(phase: str) -> None:
    """Append the phase that begins to the file named by RAYBENCH_PHASES, for whoever injects faults."""
    path = os.environ.get("RAYBENCH_PHASES")
    if path:
        with contextlib.suppress(OSError), Path(path).open("a", encoding="utf-8") as file:
            file.write(f"{time.monotonic():.3f} {phase}\n")


def logs_below(workplace: Path, record: Record) -> dict[str, bytes]:
    """Logs of ranks whose agents had their files in the run's own folder, as those of an embedded cluster have."""
    limit = parse_bytes(record.config.log_limit)
    found = {}
    for path in sorted(workplace.glob("*/*-rank-*.log")):
        with contextlib.suppress(OSError):
            found[path.name] = capped_log(path, limit)
    return found
