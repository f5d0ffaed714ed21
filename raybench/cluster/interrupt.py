"""Ctrl-C and SIGTERM: at once while nothing is measured, and in an orderly way while something is."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


class Interrupt:
    """Handles SIGINT and SIGTERM while installed. While ``deferred``, the first sets ``event`` instead of raising."""

    def __init__(self) -> None:
        self.event = threading.Event()
        self._deferred = False

    @contextlib.contextmanager
    def installed(self) -> Iterator["Interrupt"]:
        """Take over both signals, and give them back."""
        numbers = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self._received) for number in numbers}
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextlib.contextmanager
    def deferred(self) -> Iterator[None]:
        """Within it the first signal only sets ``event``; a second one raises KeyboardInterrupt."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._received)  # Ray put its own in place when it was joined
        self._deferred = True
        try:
            yield
        finally:
            self._deferred = False

    def _received(self, _number: int, _frame: FrameType | None) -> None:
        if self._deferred and not self.event.is_set():
            self.event.set()
            return
        self.event.set()
        raise KeyboardInterrupt
