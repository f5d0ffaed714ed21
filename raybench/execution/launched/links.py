"""The run's ends of the connections to the ranks' processes."""

import queue
import threading
import time
from multiprocessing.connection import Connection

import msgspec

from raybench.execution.launched.messages import Call, Hello, Reply, Said, decode_from_rank, encode
from raybench.execution.node_actors.calls import CallError

_LONGEST_BYTES = 2**30
_GONE = "the process that its launcher started has ended"


class Link:
    """The process of one rank. ``events`` gets what its rank says; ``problem`` why no more will come."""

    def __init__(self, connection: Connection, hello: Hello) -> None:
        self.hello = hello
        self.events: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self.heard = time.monotonic()
        self.problem: str | None = None
        self.gone = False  # its process has ended, or what it sends cannot be read
        self._connection = connection
        self._sending = threading.Lock()
        self._asked: dict[int, queue.SimpleQueue[Reply]] = {}
        self._number = 0
        threading.Thread(target=self._listen, daemon=True, name=f"rank-{hello.rank}").start()

    def ask(self, question: str, arguments: tuple[object, ...]) -> "queue.SimpleQueue[Reply]":
        """Send a question; the answer comes into the queue. Raises CallError where the process has gone."""
        waiting: queue.SimpleQueue[Reply] = queue.SimpleQueue()
        with self._sending:
            self._number += 1
            self._asked[self._number] = waiting
            if self.gone:
                raise CallError(self.problem or _GONE)
            try:
                self._connection.send_bytes(encode(Call(number=self._number, question=question, arguments=arguments)))
            except (OSError, ValueError) as error:
                raise CallError(f"{_GONE} ({error})") from error
        return waiting

    def silent_seconds(self) -> float:
        """Since its last sign of life."""
        return time.monotonic() - self.heard

    def close(self) -> None:
        """The process ends its rank when it sees this."""
        self._connection.close()

    def _listen(self) -> None:
        try:
            while True:
                self._take(decode_from_rank(self._connection.recv_bytes(_LONGEST_BYTES)))
        except (OSError, EOFError):
            self._lose(self.problem or _GONE)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            self._lose(f"what its process sent cannot be read ({error})")

    def _take(self, message: Hello | Reply | Said) -> None:
        self.heard = time.monotonic()
        match message:
            case Reply():
                waiting = self._asked.pop(message.number, None)
                if waiting is not None:
                    waiting.put(message)
            case Said():
                self.problem = message.problem or self.problem
                for data in message.events:
                    self.events.put(data)

    def _lose(self, why: str) -> None:
        with self._sending:
            self.problem, self.gone = why, True
            asked, self._asked = self._asked, {}
        for number, waiting in asked.items():
            waiting.put(Reply(number=number, error=why))
