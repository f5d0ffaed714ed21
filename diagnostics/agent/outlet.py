"""Messages on their way out: written by a thread, in a bounded queue, so that a reader who sleeps stops nothing."""

import threading
from collections import deque
from collections.abc import Callable
from operator import itemgetter

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
        while messages := self._next():
            try:
                self._write("".join(encode(message) + "\n" for message in messages))
            except (OSError, ValueError):  # closed
                self._on_closed()
                return

    def _next(self) -> list[Message]:
        """All that is waiting, in the order in which it came; empty at the end."""
        with self._news:
            while not (self._readings or self._words):
                if self._ending:
                    return []
                self._news.wait()
            waiting = sorted((*self._readings, *self._words), key=itemgetter(0))
            self._readings.clear()
            self._words.clear()
            return [message for _, message in waiting]
