"""An event that the handler of a signal may set."""

import queue
import threading
import time

_LONGEST_WAIT = 0.5  # seconds


class SignalEvent(threading.Event):
    """As ``threading.Event``, and may be set by a signal handler while the main thread waits for it.

    ``Event.wait`` takes a lock that is not reentrant: a signal in that moment, whose handler sets the event, stops the
    process for ever. ``SimpleQueue.put`` is reentrant. It is set once and never cleared.
    """

    def __init__(self) -> None:
        super().__init__()
        self._over = False
        self._woken: queue.SimpleQueue[None] = queue.SimpleQueue()

    def is_set(self) -> bool:
        """Whether it was set."""
        return self._over

    def set(self) -> None:
        """Wake who waits, and who will."""
        self._over = True
        self._woken.put(None)

    def clear(self) -> None:
        """Not for an end that was asked for."""
        raise NotImplementedError("a stop that was asked for is not taken back")

    def wait(self, timeout: float | None = None) -> bool:
        """Until it is set, or for ``timeout`` seconds. Returns whether it is set.

        A signal that comes just before the thread waits, or that the system gives to another thread, wakes nobody; its
        handler runs when the main thread does. So nobody waits longer than half a second without a look.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while not self._over:
            left = _LONGEST_WAIT if end is None else min(_LONGEST_WAIT, end - time.monotonic())
            try:
                self._woken.get(timeout=max(0.0, left))
            except queue.Empty:
                if end is None or time.monotonic() < end:
                    continue
                break
            self._woken.put(None)  # for the next one that waits
        return self._over
