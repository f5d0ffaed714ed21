"""PyTorch's flight recorder of this rank, told to the rank's parent when it asks.

The recorder keeps the last collectives of every process group, with those that PyTorch starts below Python (DDP's
gradients) and, on a GPU, those that are queued and not complete. A thread waits for the question, so the rank may be
inside an operation; where the interpreter is held by other code there is no answer, and the parent goes on without.
"""

import pickle
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import msgspec
from torch._C import _distributed_c10d

from raybench.benchmarks.rank.recorded import recorded_of


def answer_questions(connection: Connection) -> None:
    """Start the thread that answers every message on ``connection`` with the encoded record."""
    threading.Thread(target=_serve, args=(connection,), name="raybench-flight-record", daemon=True).start()


def _serve(connection: Connection) -> None:
    try:
        while True:
            connection.recv_bytes()
            connection.send_bytes(msgspec.msgpack.encode(recorded_of(_dump())))
    except (EOFError, OSError):
        return  # the parent has gone, and this process ends with it


def _dump() -> dict[str, Any] | None:
    """What this process's own recorder holds: NCCL's where there is one, else that of the other backends."""
    for name in ("_dump_nccl_trace", "_dump_fr_trace"):  # the second from PyTorch 2.9 on
        dump: Callable[..., bytes] | None = getattr(_distributed_c10d, name, None)
        if dump is None:
            continue
        found = pickle.loads(dump(includeStackTraces=False))  # noqa: S301 - made in this process a moment ago
        if isinstance(found, dict) and found.get("entries"):
            return found
    return None
