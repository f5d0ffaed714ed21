"""The process of one tracker: ``python -P -m raybench.trackers.process NAME``.

Messages come as JSON lines on standard input, answers go as JSON lines to standard output. A client may hang, print,
install handlers and end the interpreter: nobody waits for this process beyond the limits of whoever started it.
"""

import contextlib
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import IO, NoReturn

import msgspec

from raybench.secret_values import RECORDED, without_secrets
from raybench.trackers.base import (
    MOST_FILE_BYTES,
    Answer,
    Begun,
    Closed,
    Concluded,
    Figures,
    Message,
    Remark,
    Started,
    Taken,
    Tracker,
    documents,
)
from raybench.trackers.registry import KINDS, tracker_of

_MOST_AT_ONCE = 500
_MOST_ERROR = 300
_NICENESS = 19  # ranks may share the machine: a client takes what they leave
_LOST_SECONDS = 30.0  # after the command has gone without a word


def main() -> NoReturn:
    """Serve until the run is over, or the command has gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(_NICENESS)
    name, answers = sys.argv[1], _own_output()
    waiting: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(sys.stdin.buffer, waiting), daemon=True, name="messages").start()
    server = Server(name=name, answer=lambda one: answers.write(msgspec.json.encode(one) + b"\n"))
    server.load()
    server.serve(waiting)
    answers.close()
    os._exit(0)  # a client's clean-up at exit was done by its own end


def _own_output() -> IO[bytes]:
    """Standard output for answers alone: what a client prints goes nowhere."""
    own = os.fdopen(os.dup(1), "wb", buffering=0)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for number in (1, 2):
        os.dup2(nowhere, number)
    return own


def _read(source: IO[bytes], waiting: "queue.SimpleQueue[Message | None]") -> None:
    decoder = msgspec.json.Decoder(Message)
    try:
        for line in source:
            waiting.put(decoder.decode(line))
    finally:
        waiting.put(None)


class Server:
    """One tracker and what it is told. ``answer`` takes what the command hears of it."""

    def __init__(self, *, name: str, answer: Callable[[Answer], object], tracker: Tracker | None = None) -> None:
        self._name, self._answer, self._tracker = name, answer, tracker
        self._exit_code: int | None = None
        self._omitted: tuple[str, ...] = ()

    def load(self) -> None:
        """Import the client, while the cluster starts and nothing is timed; what fails now fails again, and is told."""
        with contextlib.suppress(Exception):
            self._tracker = self._tracker or tracker_of(self._name)

    def serve(self, waiting: "queue.SimpleQueue[Message | None]") -> None:
        """Until the run is concluded, or nothing more comes."""
        for batch in _batches(waiting):
            if not self._take(batch):
                return
            if isinstance(batch[-1], Concluded):
                break
        else:
            _end_soon()
        self._close()

    def _take(self, batch: list[Message]) -> bool:
        """Whether to go on: without a beginning there is nothing to log to."""
        error = self._tried(batch)
        with contextlib.suppress(OSError):  # the command has gone
            self._answer(Taken(count=len(batch), lost=len(batch) if error else 0, error=error))
            if isinstance(batch[0], Begun) and not error and self._tracker is not None:
                self._answer(Started(where=_plain(self._tracker.where), remark=_plain(self._tracker.remark)))
        return not (error and isinstance(batch[0], Begun))

    def _tried(self, batch: list[Message]) -> str:
        """What went wrong; empty where nothing did."""
        try:
            self._do(batch)
        except Exception as error:  # noqa: BLE001 - a client may raise anything, and the run goes on
            return self._told(error)
        return ""

    def _do(self, batch: list[Message]) -> None:
        first = batch[0]
        if isinstance(first, Begun):
            self._tracker = self._tracker or tracker_of(self._name)
            self._tracker.begin(first)
        elif self._tracker is None:
            raise RuntimeError("it was not begun")
        elif isinstance(first, Figures):
            self._tracker.log(one for one in batch if isinstance(one, Figures))
        elif isinstance(first, Remark):
            self._tracker.remark_on(first)
        else:
            self._exit_code = first.exit_code
            self._omitted = _omitted(first)
            self._tracker.conclude(first)

    def _close(self) -> None:
        if self._tracker is None:
            return
        try:
            self._tracker.close(self._exit_code)
        except Exception as error:  # noqa: BLE001 - the same
            with contextlib.suppress(OSError):
                self._answer(Taken(count=0, lost=1, error=self._told(error)))
        with contextlib.suppress(OSError):
            self._answer(Closed(where=_plain(self._tracker.where), omitted=self._omitted))

    def _told(self, error: Exception) -> str:
        return _plain(f"{type(error).__name__}: {error}", KINDS[self._name].secrets)


def _plain(text: str, secrets: tuple[str, ...] = (), environment: Mapping[str, str] = os.environ) -> str:
    """One line without secrets, however a client puts them."""
    for name in secrets:
        value = environment.get(name, "")
        if value:
            text = text.replace(value, RECORDED)
    told: str = without_secrets(" ".join(text.split()))
    return told if len(told) <= _MOST_ERROR else f"{told[:_MOST_ERROR]}..."


def _omitted(concluded: Concluded) -> tuple[str, ...]:
    taken = set(map(str, documents(concluded)))
    most = MOST_FILE_BYTES // 2**20
    return tuple(f"{path} is not there, or has more than {most} MiB" for path in concluded.files if path not in taken)


def _batches(waiting: "queue.SimpleQueue[Message | None]") -> Iterator[list[Message]]:
    """Figures together, as many as there are; all else alone."""
    batch: list[Message] = []
    while True:
        try:
            message = waiting.get_nowait() if batch else waiting.get()
        except queue.Empty:
            yield batch
            batch = []
            continue
        if batch and (not isinstance(message, Figures) or len(batch) >= _MOST_AT_ONCE):
            yield batch
            batch = []
        if message is None:
            return
        batch.append(message)
        if not isinstance(message, Figures):
            yield batch
            batch = []


def _end_soon() -> None:
    """The command has gone without a verdict: what the client does until then is all that is done."""
    timer = threading.Timer(_LOST_SECONDS, os._exit, (1,))
    timer.daemon = True
    timer.start()


if __name__ == "__main__":
    main()
