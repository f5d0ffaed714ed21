"""Progress on standard error: a live bar on a terminal, plain lines elsewhere."""

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Protocol, Self

from raybench.reports.text import count_of, format_left, printable
from raybench.units import format_seconds

LINE_SECONDS = 5.0  # between two plain lines of one benchmark
_LINE_SHARE, _LONGEST_LINE_SECONDS = 0.02, 60.0  # of one step: done since the last line, or so old is that


class Display(Protocol):
    """What the run reports to while it measures."""

    def start(self, total_steps: int, title: str) -> None:
        """Begin; ``total_steps`` calls of ``step`` are to come."""

    def step(self, benchmark: str, detail: str, rank_count: int) -> None:
        """Say what begins now; the step before it has ended. ``detail`` is a size such as ``64K``."""

    def progress(self, done: int, total: int, text: str, left_seconds: float | None) -> None:
        """Say how far the step is that runs: so many of its own steps, figures of now, and what is left of it."""

    def note(self, text: str) -> None:
        """Say something that stays on the screen: a warning, a lost node."""

    def close(self) -> None:
        """End the display and leave the cursor on a fresh line. May be called more than once."""


class ProgressDisplay:
    """Progress that suits the stream: live on a terminal, plain lines in a pipe, a file or a dumb terminal.

    A stream that is closed, full or gone ends the display, not the run. A context manager too. ``clock`` returns
    seconds and is replaced in tests.
    """

    def __init__(self, stream: IO[str] | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        given = stream if stream is not None else sys.stderr
        self._stream: IO[str] = given if given is not None else _nowhere()
        live = self._stream.isatty() and os.environ.get("TERM", "") not in {"dumb", "unknown", ""}
        self._painter = _live_painter(self._stream) if live else PlainPainter(self._stream, clock)
        self._clock = clock
        self._total = 0
        self._began: list[tuple[str, float]] = []

    def start(self, total_steps: int, title: str) -> None:
        """Begin; ``total_steps`` calls of ``step`` are to come."""
        self._total = total_steps
        self._began = []
        with self._bearing_loss():
            self._painter.begin(total_steps, printable(title))

    def step(self, benchmark: str, detail: str, rank_count: int) -> None:
        """Say what begins now; the step before it has ended."""
        now = self._clock()
        self._began.append((benchmark, now))
        left = estimate_left_seconds(self._began, self._total, now)
        what = f"{printable(benchmark)} {printable(detail)}".rstrip()
        text = f"{what}, {count_of(rank_count, 'rank')}"
        with self._bearing_loss():
            self._painter.paint(len(self._began) - 1, benchmark, text, left)

    def progress(self, done: int, total: int, text: str, left_seconds: float | None) -> None:
        """Say how far the step is that runs."""
        if self._began:
            what = f"{printable(self._began[-1][0])} step {done} of {total}, {printable(text)}"
            with self._bearing_loss():
                self._painter.advance(len(self._began) - 1, done / max(total, 1), what, left_seconds)

    def note(self, text: str) -> None:
        """Say something that stays on the screen."""
        with self._bearing_loss():
            self._painter.note(printable(text))

    def close(self) -> None:
        """End the display. May be called more than once."""
        with self._bearing_loss():
            self._painter.end()

    @contextlib.contextmanager
    def _bearing_loss(self) -> Iterator[None]:
        """From the first failure on, such as EIO of a terminal that went with its ssh session, paint to /dev/null."""
        try:
            yield
        except (OSError, SystemExit):  # SystemExit is what rich makes of a broken pipe
            self._stream = _nowhere()
            self._painter = PlainPainter(self._stream, self._clock)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _nowhere() -> IO[str]:
    return Path(os.devnull).open("w", encoding="utf-8")


class Painter(Protocol):
    """How progress is shown. Texts are made printable."""

    def begin(self, total_steps: int, title: str) -> None:
        """Say that measuring begins."""

    def paint(self, done: int, benchmark: str, text: str, left_seconds: float | None) -> None:
        """Say that ``done`` steps have ended and which one runs."""

    def advance(self, done: int, share: float, text: str, left_seconds: float | None) -> None:
        """Say how far the step is that runs, ``share`` of it."""

    def note(self, text: str) -> None:
        """Say something that stays."""

    def end(self) -> None:
        """Leave the stream on a fresh line."""


def _live_painter(stream: IO[str]) -> Painter:
    from raybench.reports.live import LivePainter  # rich's live display, which a pipe does without

    return LivePainter(stream)


def estimate_left_seconds(began: Sequence[tuple[str, float]], total_steps: int, now: float) -> float | None:
    """Seconds until the end, from (benchmark, second at which it began) of each step so far; None before one ended.

    Steps of a sweep take longer as messages grow, so the mean over the steps of whole benchmarks is used once one has
    ended; until then the mean over all, which guesses too low.
    """
    ended = len(began) - 1
    if ended < 1:
        return None
    current = began[-1][0]
    whole = next((index for index in range(ended, 0, -1) if began[index - 1][0] != current), 0)
    counted = whole or ended
    mean = (began[counted][1] - began[0][1]) / counted
    elapsed_in_step = now - began[-1][1]
    return max(0.0, mean * (total_steps - ended) - elapsed_in_step)


class PlainPainter:
    """One line when a benchmark begins, then at most one each ``LINE_SECONDS``."""

    def __init__(self, stream: IO[str], clock: Callable[[], float]) -> None:
        self._stream = stream
        self._clock = clock
        self._total = 0
        self._last: tuple[str, float] | None = None
        self._started = clock()
        self._advanced = (-1, 0.0, 0.0)  # step, share of it, and when

    def begin(self, total_steps: int, title: str) -> None:
        """Write the title."""
        self._total = total_steps
        self._started = self._clock()
        self._write(title)

    def paint(self, done: int, benchmark: str, text: str, left_seconds: float | None) -> None:
        """Write a line, unless the last one is too recent."""
        now = self._clock()
        if self._last is not None and self._last[0] == benchmark and now - self._last[1] < LINE_SECONDS:
            return
        self._last = (benchmark, now)
        left = f", {format_left(left_seconds)} left" if left_seconds is not None else ""
        width = len(str(self._total))
        self._write(f"[{done + 1:>{width}}/{self._total}] {text}, after {format_seconds(now - self._started)}{left}")

    def advance(self, done: int, share: float, text: str, left_seconds: float | None) -> None:
        """Write a line where the last one is old enough, and enough has been done since, or it is a minute old."""
        now = self._clock()
        last = self._advanced if self._advanced[0] == done else (done, 0.0, self._started)
        if now - last[2] < LINE_SECONDS or (share - last[1] < _LINE_SHARE and now - last[2] < _LONGEST_LINE_SECONDS):
            return
        self._advanced = done, share, now
        left = f", {format_left(left_seconds)} left" if left_seconds is not None else ""
        width = len(str(self._total))
        self._write(f"[{done + 1:>{width}}/{self._total}] {text}, after {format_seconds(now - self._started)}{left}")

    def note(self, text: str) -> None:
        """Write the text."""
        self._write(text)

    def end(self) -> None:
        """Push out what is buffered."""
        self._stream.flush()

    def _write(self, text: str) -> None:
        encoding = getattr(self._stream, "encoding", None) or "utf-8"
        self._stream.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
        self._stream.flush()
