"""An event that the handler of a signal may set."""

import queue
import threading


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
        """Until it is set, or for ``timeout`` seconds. Returns whether it is set."""
        if not self._over:
            try:
                self._woken.get(timeout=None if timeout is None else max(0.0, timeout))
            except queue.Empty:
                return self._over
            self._woken.put(None)  # for the next one that waits
        return self._over
