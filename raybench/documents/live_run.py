"""How a run stands while it goes on: ``live.json`` in its folder, written anew each second and gone at its end."""

from typing import Literal

import msgspec

SCHEMA: Literal["raybench.live/1"] = "raybench.live/1"
FILE = "live.json"
WRITING = "writing the result"  # the phase in which nothing is written here any more


class LiveRank(msgspec.Struct, frozen=True, kw_only=True):
    """A rank: the state of its process as in proc(5), where it is, and for how long it has not moved."""

    rank: int
    node: str
    state: str
    where: str
    still_seconds: float


class LiveMachine(msgspec.Struct, frozen=True, kw_only=True):
    """A machine by the last readings of its agent: ``figures`` by what they are of, such as ``nic eth0 sent GB/s``.

    ``silent_seconds``: for how long nothing has been read, where that is too long; there are no figures then.
    """

    name: str
    figures: dict[str, float]
    silent_seconds: float | None = None


class LiveRemarkLine(msgspec.Struct, frozen=True, kw_only=True):
    """A warning, at a time since the run's start."""

    at_seconds: float
    text: str


class LiveRun(msgspec.Struct, frozen=True, kw_only=True):
    """The whole of it. ``written_at`` is wall-clock time; ``done`` of ``total`` points are measured.

    ``period_seconds``: after which it is written anew.
    """

    schema: Literal["raybench.live/1"] = SCHEMA
    run_id: str
    pid: int
    written_at: float
    elapsed_seconds: float
    period_seconds: float = 1.0
    phase: str
    title: str = ""
    benchmark: str = ""
    progress: str = ""
    done: int = 0
    total: int = 0
    ranks: tuple[LiveRank, ...] = ()
    machines: tuple[LiveMachine, ...] = ()
    warnings: tuple[LiveRemarkLine, ...] = ()
