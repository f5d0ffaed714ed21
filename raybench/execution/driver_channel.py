"""What the driver, the process with Ray in it, tells the command that supervises it. Pickled: it is our own child.

Ray's C++ may hold the driver's interpreter lock for minutes. So the command imports no Ray, and keeps for itself what
it hears: with the last snapshot of the record and the ranks' events it can write the result without the driver.
"""

import contextlib
import pickle
import queue
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import msgspec

from raybench.benchmarks.events import RankMark
from raybench.benchmarks.workload import Progress
from raybench.errors import ClusterUnavailableError, IncompleteRunError, ProblemFoundError, RaybenchError, UsageError
from raybench.execution.live.warning import LiveWarning
from raybench.execution.record import RunRecord

BEAT_SECONDS = 1.0
_CONSULT_SECONDS = 3.0
_KINDS = (ClusterUnavailableError, UsageError, ProblemFoundError, IncompleteRunError)  # of errors, the narrow one first
# What unpickling raises for a message that is damaged, or of a type that does not come back.
_UNPICKLING_ERRORS = (pickle.UnpicklingError, AttributeError, EOFError, ImportError, LookupError, TypeError, ValueError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A phase of the run begins. The driver itself ends it within ``limit_seconds``, unless something holds it."""

    phase: str
    limit_seconds: float
    began: float  # time.monotonic(), which all processes of a machine share


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """The driver's interpreter runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The record as it is now, without samples and logs."""

    record: RunRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """An event of a rank, encoded, that has to do with samples. ``at``: when it came, time.monotonic()."""

    launch: int
    data: bytes
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Logs:
    """Log files of the ranks, by name."""

    logs: dict[str, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalLine:
    """One point for samples.jsonl."""

    line: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Marked:
    """How far the ranks of a node have come."""

    marks: tuple[RankMark, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPiece:
    """A piece of what the agent of the machine of a node, by its index, said."""

    node: int
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockRead:
    """What the monotonic clock of a node's machine said between a question and its answer, both by our clock."""

    node: int
    asked_seconds: float
    there_seconds: float
    answered_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A call of the progress display."""

    method: str
    arguments: tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """What ended the run early: said before the cluster is left, since leaving may hang."""

    error: RaybenchError | None = None
    interrupted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The driver is through."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """In place of a message that could not be unpickled: what the driver said with it is lost."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Consulted:
    """The driver is in trouble, and goes on once the command has looked at the processes, all still as they were."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Joining:
    """The run is about to join the cluster at HOST:PORT, some of whose daemons may be on this machine."""

    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outliving:
    """Node actors that do not end with the driver: the name of their group, and how many there are."""

    name: str
    count: int


Message = (
    LiveWarning
    | AgentPiece
    | ClockRead
    | Marked
    | Consulted
    | Joining
    | Mark
    | Beat
    | Snapshot
    | Heard
    | Logs
    | JournalLine
    | Shown
    | Failed
    | Ended
    | Unreadable
    | Outliving
)


class DriverChannel:
    """The driver's end. It is the run's display and journal as well: both are the command's.

    One thread sends, so that a signal in the main thread leaves no half message behind; and it beats.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._waiting: queue.SimpleQueue[bytes | threading.Event | None] = queue.SimpleQueue()
        self._sender = threading.Thread(target=self._send_all, daemon=True, name="driver-channel")
        self._sender.start()

    def mark(self, phase: str, limit_seconds: float, record: RunRecord) -> None:
        """Say that a phase begins, and what is known by now."""
        self.keep(record)
        self._put(Mark(phase=phase, limit_seconds=limit_seconds, began=time.monotonic()))

    def keep(self, record: RunRecord) -> None:
        """Say what is known by now."""
        self._put(Snapshot(record=record.without_samples()))

    def heard(self, launch: int, data: bytes) -> None:
        """Pass an event of a rank on."""
        self._put(Heard(launch=launch, data=data, at=time.monotonic()))

    def logs(self, logs: dict[str, bytes]) -> None:
        """Pass the ranks' logs on."""
        self._put(Logs(logs=logs))

    def record(self, entry: Mapping[str, Any]) -> None:
        """One line of the journal."""
        self._put(JournalLine(line=msgspec.json.encode(entry)))

    def start(self, total_steps: int, title: str) -> None:
        """Begin a run of so many steps."""
        self._put(Shown(method="start", arguments=(total_steps, title)))

    def step(self, benchmark: str, detail: str, rank_count: int) -> None:
        """Say what begins now."""
        self._put(Shown(method="step", arguments=(benchmark, detail, rank_count)))

    def warned(self, warning: LiveWarning) -> None:
        """Pass a warning on."""
        self._put(warning)

    def marked(self, marks: Sequence[RankMark]) -> None:
        """Pass on how far the ranks of a node have come."""
        self._put(Marked(marks=tuple(marks)))

    def agent_said(self, node: int, data: bytes) -> None:
        """Pass on what the agent of the machine of a node said."""
        self._put(AgentPiece(node=node, data=data))

    def clock_read(self, node: int, asked_seconds: float, there_seconds: float, answered_seconds: float) -> None:
        """Pass on what the clock of a node's machine said between a question and its answer."""
        read = ClockRead(
            node=node,
            asked_seconds=asked_seconds,
            there_seconds=there_seconds,
            answered_seconds=answered_seconds,
        )
        self._put(read)

    def progress(self, progress: Progress) -> None:
        """Say how far the point is that is measured now."""
        done = progress.done, progress.total, progress.text, progress.left_seconds
        self._put(Shown(method="progress", arguments=done))

    def note(self, text: str) -> None:
        """Say something that stays."""
        self._put(Shown(method="note", arguments=(text,)))

    def joining(self, address: str) -> None:
        """Say which cluster is about to be joined."""
        self._put(Joining(address=address))

    def outliving(self, name: str, count: int) -> None:
        """Say which node actors do not end with this process."""
        self._put(Outliving(name=name, count=count))

    def consult(self, record: RunRecord) -> None:
        """Have the command look at the processes of the run before anything of it is ended."""
        self.keep(record)
        self._put(Consulted())
        with contextlib.suppress(OSError, EOFError):
            if self._connection.poll(_CONSULT_SECONDS):
                self._connection.recv_bytes()

    def failed(self, raised: BaseException) -> None:
        """Say what ended the run early, and wait until it is said: what comes next may end us."""
        sent = threading.Event()
        self._put(_failure(raised))
        self._waiting.put(sent)
        sent.wait(_CONSULT_SECONDS)

    def end(self) -> None:
        """The last message; returns when all are sent."""
        self._put(Ended())
        self._waiting.put(None)
        self._sender.join()

    def _put(self, message: Message) -> None:
        self._waiting.put(pickle.dumps(message))

    def _send_all(self) -> None:
        beat = pickle.dumps(Beat())
        with contextlib.suppress(OSError):  # the command has gone, and the kernel ends us
            while True:
                try:
                    item = self._waiting.get(timeout=BEAT_SECONDS)
                except queue.Empty:
                    item = beat
                if item is None:
                    return
                if isinstance(item, threading.Event):
                    item.set()
                else:
                    self._connection.send_bytes(item)


def message_of(data: bytes) -> Message:
    """A message of our own child, which may still be of a type that does not unpickle: an error of some library."""
    try:
        message: Message = pickle.loads(data)  # noqa: S301 - our own child
    except _UNPICKLING_ERRORS as error:
        return Unreadable(reason=f"{type(error).__name__}: {error}")
    return message


def _failure(raised: BaseException) -> Failed:
    """What the command hears of an exception. One that no command raises is a bug of the driver's."""
    if isinstance(raised, KeyboardInterrupt):
        return Failed(interrupted=True)
    kind = next((kind for kind in _KINDS if isinstance(raised, kind)), None)
    if kind is not None:
        return Failed(error=kind(str(raised)))
    traceback.print_exception(raised)  # into the driver's log
    return Failed(error=IncompleteRunError(f"the driver failed, which is a bug: {type(raised).__name__}: {raised}"))
