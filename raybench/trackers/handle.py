"""A tracker's process as the command has it: told without waiting, heard, and ended within a limit."""

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import msgspec

from raybench.documents.run.tracking import TrackedRun, TrackingStatus
from raybench.trackers.base import Answer, Begun, Closed, Figures, Message, Started, Taken
from raybench.trackers.registry import KINDS

MOST_WAITING = 20_000  # messages that a tracker has not taken; above, figures are left out
_END_SECONDS = 3.0


class TrackerProcess:
    """One tracker. It is started before the run's driver is forked, which ends what this process starts after it."""

    def __init__(self, name: str) -> None:
        self.name, self.title = name, KINDS[name].title
        self._sent = self._taken = self._lost = self._left_out = 0
        self._error = self._where = self._remark = ""
        self._omitted: tuple[str, ...] = ()
        self._started = self._closed = self._ended = False
        self._told: str | None = None
        self._waiting: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._over = threading.Event()
        self._process = self._begin()

    def _begin(self) -> "subprocess.Popen[bytes] | None":
        command = [sys.executable, "-P", "-m", "raybench.trackers.process", self.name]
        try:
            return subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # a terminal's Ctrl-C is for the run, which then tells it the end
            )
        except OSError as error:
            self._error = f"its process could not be started: {error.strerror}"
            self._over.set()
            return None

    def begin(self, begun: Begun) -> None:
        """Tell it the run, and listen from then on. Once the driver has been forked."""
        if self._process is not None:
            threading.Thread(target=self._write, daemon=True, name=f"to-{self.name}").start()
            threading.Thread(target=self._hear, daemon=True, name=f"from-{self.name}").start()
            self.send(begun)

    def send(self, message: Message) -> None:
        """Tell it something; nothing is waited for."""
        if self._over.is_set():
            return
        if isinstance(message, Figures) and self._sent - self._taken >= MOST_WAITING:
            self._left_out += 1
            return
        self._sent += 1
        self._waiting.put(msgspec.json.encode(message) + b"\n")

    def complaint(self) -> str | None:
        """The first thing that went wrong, once."""
        if self._told is not None or not self._error:
            return None
        self._told = self._error
        return f"{self.title}: {self._error}; the run goes on without it" + ("" if self._over.is_set() else " there")

    def fail(self, error: str) -> None:
        """Something on our side went wrong: what it is told is not all."""
        self._error = self._error or error
        self._lost += 1

    def finish(self, deadline: float, stopping: Callable[[], bool]) -> None:
        """Wait until it has ended, or the time (monotonic) is over or ``stopping()`` is true, and end it."""
        self._waiting.put(None)
        while self._process is not None and not self._over.is_set():
            if time.monotonic() > deadline or stopping():
                self._error = self._error or "its server did not take all within the time limit"
                break
            self._over.wait(0.1)
        self._end()

    def _end(self) -> None:
        """Its session: a client may have processes of its own."""
        self._ended = True
        if self._process is None:
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            if self._closed:
                self._process.wait(_END_SECONDS)
        with contextlib.suppress(OSError):
            os.killpg(self._process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_SECONDS)

    def outcome(self) -> TrackedRun:
        """What became of it, for the result."""
        whole = self._closed and not self._lost and not self._left_out
        return TrackedRun(
            tracker=self.name,
            status=self._status(whole=whole),
            where=self._where,
            remark=self._remark,
            problem=self._problem(),
        )

    def _status(self, *, whole: bool) -> TrackingStatus:
        if not (self._over.is_set() or self._ended):
            return "logging"
        if not self._started:
            return "failed"
        return "logged" if whole else "partial"

    def _problem(self) -> str:
        parts = [self._error]
        if self._lost or self._left_out:
            parts.append(f"{self._lost + self._left_out} of {self._sent + self._left_out} messages are not there")
        return "; ".join(part for part in (*parts, *self._omitted) if part)

    def _write(self) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        with contextlib.suppress(OSError), self._process.stdin as pipe:  # it has ended
            while (line := self._waiting.get()) is not None:
                pipe.write(line)
                pipe.flush()

    def _hear(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        decoder = msgspec.json.Decoder(Answer)
        try:
            for line in self._process.stdout:
                self._take(decoder.decode(line))
        except (OSError, ValueError):
            pass
        finally:
            if not self._closed and not self._error:
                self._error = "its process ended without a word"
            self._over.set()

    def _take(self, answer: Answer) -> None:
        match answer:
            case Started():
                self._started, self._where, self._remark = True, answer.where, answer.remark
            case Taken():
                self._taken += answer.count
                self._lost += answer.lost
                self._error = self._error or answer.error
            case Closed():
                self._closed, self._where, self._omitted = True, answer.where or self._where, answer.omitted
                self._over.set()
