"""Work done ahead in forked processes, its results in order.

A process that is forked has all that its parent has read, at no cost. It works on its share of the items and writes
what comes of it into a pipe, whose size keeps it from running far ahead. It ends with its parent: nobody reads the pipe
then.
"""

import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import IO, TypeVar

MAX_PROCESSES = 4
Item = TypeVar("Item")
Result = TypeVar("Result")


def processes_to_use() -> int:
    """How many processes may work side by side; 1 where forking is not safe: beside threads, or not on Linux."""
    if not sys.platform.startswith("linux") or threading.active_count() > 1:
        return 1
    return min(len(os.sched_getaffinity(0)), MAX_PROCESSES)


def map_ahead(
    work: Callable[[Item], Result], items: Sequence[Item], processes: int, sizes: Sequence[int] | None = None
) -> Iterator[Result | None]:
    """``work(item)`` for each item, in order; None where the process that had it ended early or could not do it.

    ``sizes`` say how much work each item is; without them, all are alike.
    """
    owners = dealt(sizes if sizes is not None else [1] * len(items), min(processes, len(items)))
    with closing(_Crew(work, items, owners)) as crew:
        for owner in owners:
            yield crew.result(owner)


def dealt(sizes: Sequence[int], processes: int) -> list[int]:
    """The process of each item: the one that has least to do by then."""
    loads, owners = [0] * processes, []
    for size in sizes:
        owner = loads.index(min(loads))
        loads[owner] += size
        owners.append(owner)
    return owners


class _Crew:
    """The processes, each with the pipe that its results come from."""

    def __init__(self, work: Callable[[Item], Result], items: Sequence[Item], owners: Sequence[int]) -> None:
        self._pipes: list[IO[bytes]] = []
        self._ids: list[int] = []
        self._ended: set[int] = set()
        for number in range(max(owners, default=-1) + 1):
            reading, writing = os.pipe()
            process = os.fork()
            if process == 0:
                os.close(reading)
                _serve(work, [item for item, owner in zip(items, owners, strict=True) if owner == number], writing)
            os.close(writing)
            self._ids.append(process)
            self._pipes.append(os.fdopen(reading, "rb"))

    def result(self, index: int) -> Result | None:
        """What the process with this number has done next."""
        if index in self._ended:
            return None
        try:
            found: Result | None = pickle.load(self._pipes[index])  # noqa: S301 - written by our own process
        except (EOFError, pickle.UnpicklingError):
            self._ended.add(index)
            return None
        return found

    def close(self) -> None:
        for pipe in self._pipes:
            pipe.close()
        for process in self._ids:
            os.waitpid(process, 0)


def _serve(work: Callable[[Item], Result], items: Sequence[Item], writing: int) -> None:
    """Do the work in the forked process, which never returns."""
    code = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, whose end ends the pipe
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        with os.fdopen(writing, "wb") as pipe:
            for item in items:
                pickle.dump(work(item), pipe, protocol=pickle.HIGHEST_PROTOCOL)
                pipe.flush()
        code = 0
    finally:
        os._exit(code)
