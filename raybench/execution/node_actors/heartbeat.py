"""A sign of life to a run's node actors, whatever its driver waits for: without one they end as their lease is over."""

import contextlib
import threading
from collections.abc import Iterator, Sequence

from raybench.execution.node_actors.node_actors import NodeActorHandle, NodeActors

_PERIOD_SECONDS = 5.0
_END_SECONDS = 2.0


@contextlib.contextmanager
def heartbeat(actors: NodeActors) -> Iterator[None]:
    """Beat within the block, in a thread of its own."""
    over = threading.Event()
    thread = threading.Thread(target=_beat, args=(actors.handles, over), daemon=True, name="heartbeat")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(_END_SECONDS)  # where the head is gone, Ray may keep it


def _beat(actors: Sequence[NodeActorHandle], over: threading.Event) -> None:
    import ray

    while not over.wait(_PERIOD_SECONDS):
        for handle in actors:
            with contextlib.suppress(ray.exceptions.RayError):  # the run itself hears that a node actor has ended
                handle.actor.answer.remote("beat")
