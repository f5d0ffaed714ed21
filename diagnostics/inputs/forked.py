"""Work done ahead in forked processes, its results in order.

A process that is forked has all that its parent has read, at no cost. It takes the next item whenever it is done with
one, and writes what comes of it into a pipe, whose size keeps it from running far ahead: far enough not to wait while
the parent is busy with what came before. The parent takes items too while none waits for it, so that each processor has
one process, and all end together. A process ends with its parent: nobody reads the pipe then.
"""

import os
import pickle
import select
import signal
import struct
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from typing import Any, TypeVar

MAX_PROCESSES = 4
MOST_TOKENS = 512  # of 8 bytes: a pipe holds a page without a reader, also of a user who has many
MOST_EARLY = 16  # results that wait for their turn, before the processes that are ahead have to wait
_NONE = -1
_HEAD = struct.Struct("=qQ")  # the item, and the size of what came of it; 0 where it is only taken
_TOKEN = struct.Struct("=II")
_STEP_BYTES = 2**20
_PIPE_BYTES = 2**20  # the most that Linux gives a user who asks
Item = TypeVar("Item")
Result = TypeVar("Result")


def processes_to_use() -> int:
    """How many processes may work side by side; 1 where forking is not safe: beside threads, or not on Linux."""
    if not sys.platform.startswith("linux") or threading.active_count() > 1:
        return 1
    return min(len(os.sched_getaffinity(0)), MAX_PROCESSES)


def map_ahead(work: Callable[[Item], Result], items: Sequence[Item], processes: int) -> Iterator[Result | None]:
    """``work(item)`` for each item, in order, by this process and others; None where its process ended early."""
    with closing(_Crew(work, items, min(processes, len(items)) - 1)) as crew:
        for index in range(len(items)):
            yield crew.result(index)


def dealt(sizes: Sequence[int], processes: int) -> list[int]:
    """The process of each item, were they given out beforehand: the one that has least to do by then."""
    loads, owners = [0] * processes, []
    for size in sizes:
        owner = loads.index(min(loads))
        loads[owner] += size
        owners.append(owner)
    return owners


class _Crew:
    """This process and those that it forks, each with the pipe that its results come from. Whichever is free works.

    A process says which item it takes before it works on it, so that one that ends early leaves only that one undone.
    This one works while it would wait.
    """

    def __init__(self, work: Callable[[Item], Result], items: Sequence[Item], forked: int) -> None:
        self._open: dict[int, int] = {}  # the reading end of each pipe -> the item that its process has
        self._ids: list[int] = []
        self._early: dict[int, bytes] = {}  # what others did before its turn came
        self._own: dict[int, Any] = {}  # what was done here
        self._given_up: set[int] = set()
        self._do: Callable[[int], Any] = lambda index: work(items[index])
        self._tokens: int | None = None
        self._mine = iter(range(len(items)))  # what is to be done here: all, but for tokens
        if forked > 0:
            with suppress(OSError):  # no more processes, pipes or memory for this user
                self._tokens = tokens = _tokens(len(items))
                self._mine = iter(range(0))
                for _ in range(forked):
                    self._start(work, items, tokens)

    def _start(self, work: Callable[[Item], Result], items: Sequence[Item], tokens: int) -> None:
        """Fork one process. Raises OSError where the system has none left."""
        reading, writing = os.pipe()
        try:
            process = os.fork()
        except OSError:
            os.close(reading)
            os.close(writing)
            raise
        if process == 0:
            for other in (reading, *self._open):
                os.close(other)
            _serve(work, items, tokens, writing)
        os.close(writing)
        self._ids.append(process)
        self._open[reading] = _NONE
        _enlarge(reading)

    def result(self, index: int) -> Any:
        """What came of an item, once it is there; None where nothing will."""
        while index not in self._early and index not in self._own and index not in self._given_up:
            pipes = self._awaited(index)
            ready = select.select(pipes, [], [], 0)[0]
            if not ready and self._works(index):
                continue
            if not pipes:
                return None
            for pipe in ready or select.select(pipes, [], [])[0]:
                self._take(pipe)
        packed = self._early.pop(index, None)
        return self._own.pop(index, None) if packed is None else pickle.loads(packed)  # noqa: S301 - of our own process

    def _waits_for(self, index: int) -> bool:
        """Whether much is done early, and another process has this item."""
        return len(self._early) + len(self._own) > MOST_EARLY and index in self._open.values()

    def _awaited(self, index: int) -> list[int]:
        """All pipes; where much is done early, only that of the process that has the item."""
        if self._waits_for(index):
            return [pipe for pipe, has in self._open.items() if has == index]
        return list(self._open)

    def _works(self, index: int) -> bool:
        """Do the next item that nobody has; whether there is one, and not too much is done early."""
        if self._waits_for(index):
            return False
        following = next(self._mine, None)
        if following is None and self._tokens is not None and (token := os.read(self._tokens, _TOKEN.size)):
            self._mine = iter(range(*_TOKEN.unpack(token)))
            following = next(self._mine)
        if following is not None:
            self._own[following] = self._do(following)
        return following is not None

    def _take(self, pipe: int) -> None:
        """Read what a process says: the item that it takes, or what came of it."""
        head = _read(pipe, _HEAD.size)
        taken, size = _HEAD.unpack(head) if len(head) == _HEAD.size else (_NONE, 0)
        packed = _read(pipe, size) if size > 0 else b""
        if taken == _NONE or len(packed) < size:
            self._given_up.add(self._open.pop(pipe))
            os.close(pipe)
        elif size:
            self._early[taken] = packed
        else:
            self._open[pipe] = taken

    def close(self) -> None:
        for pipe in self._open:
            os.close(pipe)
        if self._tokens is not None:
            os.close(self._tokens)
        for process in self._ids:
            os.waitpid(process, 0)


def _enlarge(pipe: int) -> None:
    """Have a pipe hold more; that of a user who has many stays as it is."""
    import fcntl  # where there is fork

    with suppress(OSError):
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)


def _tokens(count: int) -> int:
    """A pipe out of which each reader takes the next items: (first, behind the last), all of them written already."""
    reading, writing = os.pipe()
    each = -(-count // MOST_TOKENS) or 1
    for first in range(0, count, each):
        os.write(writing, _TOKEN.pack(first, min(first + each, count)))
    os.close(writing)
    return reading


def _serve(work: Callable[[Item], Result], items: Sequence[Item], tokens: int, writing: int) -> None:
    """Do the work in the forked process, which never returns."""
    code = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, whose end ends the pipe
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        with os.fdopen(writing, "wb") as pipe:
            while token := os.read(tokens, _TOKEN.size):
                for index in range(*_TOKEN.unpack(token)):
                    pipe.write(_HEAD.pack(index, 0))
                    pipe.flush()
                    packed = pickle.dumps(work(items[index]), protocol=pickle.HIGHEST_PROTOCOL)
                    pipe.write(_HEAD.pack(index, len(packed)))
                    pipe.write(packed)
                    pipe.flush()
        code = 0
    finally:
        os._exit(code)


def _read(pipe: int, size: int) -> bytes:
    """So many bytes, or fewer where the other end was closed."""
    parts, left = [], size
    while left and (part := os.read(pipe, min(left, _STEP_BYTES))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)
