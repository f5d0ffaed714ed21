"""The clocks of a run's machines, read over and over: a question and its answer bound what a clock is off by."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from raybench.execution.live.machine import Machine
from raybench.execution.node_actors.answers import AnswerError, decode_answer
from raybench.execution.node_actors.node_actors import NodeActorHandle, NodeActors

ClockRead = Callable[[int, float, float, float], None]  # node; asked, read there, answered
_PAUSES_SECONDS = (0.0, 0.3, 1.0, 3.0)  # before the first readings: the quickest of a few is the best
_PERIOD_SECONDS = 20.0  # from then on: clocks drift
_LONGEST_SECONDS = 1.0  # one that takes longer bounds nothing, and holds up the others
_END_SECONDS = 1.5


@contextlib.contextmanager
def reading_clocks(actors: NodeActors, machines: Sequence[Machine], read: ClockRead) -> Iterator[None]:
    """Read the clock of the first node of each machine meanwhile, in a thread: one that hangs holds up nothing else."""
    first = {one.nodes[0] for one in machines}
    handles = [one for one in actors.handles if one.index in first]
    stop = threading.Event()
    thread = threading.Thread(target=_read_all, args=(actors, handles, read, stop), daemon=True, name="clocks")
    if handles:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        if handles:
            thread.join(_END_SECONDS)


def _read_all(actors: NodeActors, handles: Sequence[NodeActorHandle], read: ClockRead, stop: threading.Event) -> None:
    pauses = iter(_PAUSES_SECONDS)
    while not stop.wait(next(pauses, _PERIOD_SECONDS)):
        for handle in handles:
            if handle.index not in actors.lost and not stop.is_set():
                _read(actors, handle, read)


def _read(actors: NodeActors, handle: NodeActorHandle, read: ClockRead) -> None:
    asked = time.monotonic()
    with contextlib.suppress(*actors.calls.errors, AnswerError):  # the launch itself hears that a node is lost
        data = actors.calls.result(handle.actor.answer.remote("clock"), _LONGEST_SECONDS)
        answered = time.monotonic()
        read(handle.index, asked, decode_answer("clock", data), answered)
