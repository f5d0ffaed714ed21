"""Messages on their way out: written by a thread, in a bounded queue, so that a reader who sleeps stops nothing."""

import threading
from collections import deque
from collections.abc import Callable

from diagnostics.agent.messages import Message, Reading, encode

MAX_WAITING = 512
_WORDS_KEPT = MAX_WAITING * 4  # messages other than readings, which are rare


class Outlet:
    """Gives lines to ``write``. Where they pile up, readings are dropped, the oldest first; warnings are kept longest.

    ``closed`` is set when nobody reads any more.
    """

    def __init__(self, write: Callable[[str], None], on_closed: Callable[[], None]) -> None:
        self._write, self._on_closed = write, on_closed
        self._readings: deque[tuple[int, Message]] = deque(maxlen=MAX_WAITING)
        self._words: deque[tuple[int, Message]] = deque(maxlen=_WORDS_KEPT)
        self._count = 0
        self._news = threading.Condition()
        self._ending = False
        self.dropped = 0
        self._thread = threading.Thread(target=self._run, name="agent-outlet", daemon=True)
        self._thread.start()

    def send(self, message: Message) -> None:
        """Hand over one message; never blocks."""
        with self._news:
            queue = self._readings if isinstance(message, Reading) else self._words
            self.dropped += len(queue) == queue.maxlen
            self._count += 1
            queue.append((self._count, message))
            self._news.notify()

    def close(self, seconds: float) -> None:
        """Write what is waiting, for so long at most."""
        with self._news:
            self._ending = True
            self._news.notify()
        self._thread.join(seconds)

    def _run(self) -> None:
        while (message := self._next()) is not None:
            try:
                self._write(encode(message) + "\n")
            except (OSError, ValueError):  # closed
                self._on_closed()
                return

    def _next(self) -> Message | None:
        with self._news:
            while not (self._readings or self._words):
                if self._ending:
                    return None
                self._news.wait()
            waiting = [queue for queue in (self._readings, self._words) if queue]
            return min(waiting, key=lambda queue: queue[0][0]).popleft()[1]
