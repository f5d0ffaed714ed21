"""Progress of a fabric test, round by round, on standard error: a bar on a terminal, plain lines elsewhere."""

import contextlib
import os
import sys
import time
from types import TracebackType
from typing import IO, Self

from raybench.reports.progress import Painter, PlainPainter
from raybench.reports.text import count_of

_PHASES = {"scan": "scan", "confirm": "looking for the cause"}


class RoundProgress:
    """Shows which round is over. A stream that is gone ends the display, not the run. ``quiet`` shows nothing."""

    def __init__(self, *, quiet: bool = False, stream: IO[str] | None = None) -> None:
        self._stream = stream or sys.stderr
        self._painter: Painter | None = None if quiet else self._suited()
        self._began = time.monotonic()

    def begin(self, hosts: int) -> None:
        """Say that hosts are looked at, which comes before any round."""
        self._paint(lambda painter: painter.note(f"looking at {count_of(hosts, 'host')}"))

    def show(self, phase: str, done: int, total: int, hosts: int) -> None:
        """Say that so many rounds of a phase are over."""
        title = f"{_PHASES.get(phase, phase)}: {count_of(total, 'round')} of {count_of(hosts, 'host')}"
        if done == 0:
            self._began = time.monotonic()
            self._paint(lambda painter: painter.begin(total, title))
            return
        left = (time.monotonic() - self._began) / done * (total - done)
        last = done >= total
        text = f"{_PHASES.get(phase, phase)}, round {min(done + 1, total)} of {total}"
        if not last:
            self._paint(lambda painter: painter.paint(done, f"round {done}", text, left))
        else:
            self._paint(lambda painter: painter.end())

    def close(self) -> None:
        """End the display."""
        self._paint(lambda painter: painter.end())

    def _suited(self) -> Painter:
        if self._stream.isatty() and os.environ.get("TERM", "") not in {"dumb", "unknown", ""}:
            from raybench.reports.live import LivePainter  # rich's live display

            return LivePainter(self._stream)
        return PlainPainter(self._stream, time.monotonic)

    def _paint(self, action: object) -> None:
        if self._painter is not None and callable(action):
            with contextlib.suppress(OSError, SystemExit):
                action(self._painter)
                return
            self._painter = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
