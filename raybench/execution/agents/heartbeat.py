"""A sign of life to a run's agents, whatever its driver waits for: an agent without one ends when its lease is over."""

import contextlib
import threading
from collections.abc import Iterator, Sequence

from raybench.execution.agents.agents import Agent, Agents

_PERIOD_SECONDS = 5.0
_END_SECONDS = 2.0


@contextlib.contextmanager
def heartbeat(agents: Agents) -> Iterator[None]:
    """Beat within the block, in a thread of its own."""
    over = threading.Event()
    thread = threading.Thread(target=_beat, args=(agents.agents, over), daemon=True, name="heartbeat")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(_END_SECONDS)  # where the head is gone, Ray may keep it


def _beat(agents: Sequence[Agent], over: threading.Event) -> None:
    import ray

    while not over.wait(_PERIOD_SECONDS):
        for agent in agents:
            with contextlib.suppress(ray.exceptions.RayError):  # the run itself hears that an agent has ended
                agent.actor.answer.remote("beat")
