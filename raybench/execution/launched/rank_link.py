"""The process that a launcher started for one rank: it holds the rank, answers the run, and says what the rank says."""

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection

import msgspec

from raybench.execution.launched.messages import Call, Hello, Reply, Said, decode_call, encode
from raybench.execution.node_actors.answers import QUESTIONS, encode_answer
from raybench.execution.node_actors.node_actor import NodeActor

_POLL_SECONDS = 1.0
_CALLS_AT_ONCE = 4


class RankLink:
    """A connection to the run, and the node actor of one rank behind it."""

    def __init__(self, connection: Connection, hello: Hello) -> None:
        self._connection = connection
        self._sending = threading.Lock()
        self._send(hello)
        self._actor = NodeActor()
        self._over = threading.Event()

    def serve(self) -> None:
        """Answer until the run closes the connection; then end the rank and what belongs to it."""
        threading.Thread(target=self._pass_on, daemon=True, name="rank-events").start()
        with ThreadPoolExecutor(_CALLS_AT_ONCE, thread_name_prefix="rank-calls") as calls:
            with contextlib.suppress(OSError, EOFError, msgspec.MsgspecError):
                while True:
                    calls.submit(self._answer, decode_call(self._connection.recv_bytes()))
            self._over.set()
            self._actor.close()

    def _answer(self, call: Call) -> None:
        try:
            reply = Reply(number=call.number, data=self._asked(call))
        except Exception as error:  # noqa: BLE001 - whatever a question meets is its answer
            reply = Reply(number=call.number, error=f"{type(error).__name__}: {error}"[:2000])
        self._send(reply)

    def _asked(self, call: Call) -> bytes:
        if call.question not in QUESTIONS:
            raise ValueError(f"'{call.question}' is not a question; does rank 0 run another raybench?")
        return encode_answer(getattr(self._actor, call.question)(*call.arguments))

    def _pass_on(self) -> None:
        """What the rank says, and each second a sign of life."""
        while not self._over.is_set():
            try:
                said = Said(events=self._actor.poll(_POLL_SECONDS))
            except Exception as error:  # noqa: BLE001 - the run is told, whatever it is
                said = Said(problem=f"{type(error).__name__}: {error}"[:2000])
            if not self._send(said) or said.problem is not None:
                return

    def _send(self, message: Hello | Reply | Said) -> bool:
        try:
            with self._sending:
                self._connection.send_bytes(encode(message))
        except OSError:
            return False
        return True
