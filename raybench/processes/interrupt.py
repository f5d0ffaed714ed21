"""Ctrl-C, SIGTERM and SIGHUP: at once while nothing is measured, and in an orderly way while something is."""

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType

from diagnostics.signal_event import SignalEvent


class Interrupt:
    """Handles these signals while installed. While ``deferred``, the first sets ``event`` instead of raising.

    SIGHUP, a lost ssh session, is one of them unless it was ignored when the run began, as under nohup.
    """

    def __init__(self) -> None:
        self.event = SignalEvent()
        self.received = 0
        self._deferred = False
        self._counting = False
        self._numbers: tuple[signal.Signals, ...] = (signal.SIGINT, signal.SIGTERM)

    @contextlib.contextmanager
    def installed(self) -> Iterator["Interrupt"]:
        """Take over the signals, and give them back."""
        hangup = () if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN else (signal.SIGHUP,)
        self._numbers = (signal.SIGINT, signal.SIGTERM, *hangup)
        before = {number: signal.signal(number, self._received) for number in self._numbers}
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextlib.contextmanager
    def deferred(self) -> Iterator[None]:
        """Within it the first signal only sets ``event``; a second one raises KeyboardInterrupt."""
        for number in self._numbers:
            signal.signal(number, self._received)  # Ray put its own in place when it was joined
        self._deferred = True
        try:
            yield
        finally:
            self._deferred = False

    @contextlib.contextmanager
    def counting(self) -> Iterator[None]:
        """Within it signals are only counted in ``received``."""
        self._counting = True
        try:
            yield
        finally:
            self._counting = False

    def _received(self, _number: int, _frame: FrameType | None) -> None:
        self.received += 1
        if self._counting:
            self.event.set()
            return
        if self._deferred and not self.event.is_set():
            self.event.set()
            return
        self.event.set()
        raise KeyboardInterrupt
