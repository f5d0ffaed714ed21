"""One source and its thread: opened, read at each tick, and never waited for."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue

from diagnostics.agent.sources.base import OpenSource, Sample, SourceUnavailableError

REOPEN_SECONDS = 60.0  # after which a source that was not available is tried again
SILENT_SECONDS = 5.0

Open = Callable[[], OpenSource]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a source gave: a sample, or the reason why there is none."""

    source: str
    monotonic_seconds: float
    sample: Sample | None = None
    reason: str = ""


class Sampler(threading.Thread):
    """Reads one source at each tick of the machine's monotonic clock, and puts what it gave into a queue.

    Ticks are multiples of the interval, the same for all sources. One that takes longer than the interval misses ticks.
    """

    def __init__(self, name: str, open_source: Open, answers: SimpleQueue[Answer], interval_seconds: float) -> None:
        super().__init__(name=f"agent-{name}", daemon=True)
        self.source = name
        self._open_source = open_source
        self._answers = answers
        self._interval = interval_seconds
        self._stop_asked = threading.Event()
        self._asked: float | None = None  # since when an answer is due

    def silent_seconds(self, now: float) -> float:
        """For how long the source has owed an answer."""
        asked = self._asked
        return 0.0 if asked is None else now - asked

    def stop(self) -> None:
        """Ask the thread to end. One that is stuck in the kernel does not, and is not waited for."""
        self._stop_asked.set()

    def run(self) -> None:
        """Open, read until it ends, and open again after a while."""
        while not self._stop_asked.is_set():
            try:
                self._read_on()
            except SourceUnavailableError as error:
                self._say(Answer(source=self.source, monotonic_seconds=time.monotonic(), reason=str(error)))
            except Exception as error:  # noqa: BLE001 - one source that breaks leaves the others, and says so
                reason = f"reading it failed: {type(error).__name__}: {error}"
                self._say(Answer(source=self.source, monotonic_seconds=time.monotonic(), reason=reason))
            self._stop_asked.wait(REOPEN_SECONDS)

    def _read_on(self) -> None:
        self._asked = time.monotonic()
        source = self._open_source()
        try:
            while not self._stop_asked.is_set():
                self._asked = now = time.monotonic()
                self._say(Answer(source=self.source, monotonic_seconds=now, sample=source.read()))
                self._stop_asked.wait(self._interval - time.monotonic() % self._interval)
        finally:
            source.close()

    def _say(self, answer: Answer) -> None:
        self._asked = None
        self._answers.put(answer)
