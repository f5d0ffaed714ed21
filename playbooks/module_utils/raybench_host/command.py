"""One program, run to its end or its time limit; killed with all that it started where it runs past it."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

MOST_BYTES = 64 << 20  # that a program may print before it is ended
MISSING, TIMEOUT, FAILED = "missing", "timeout", "failed"


class Ended(NamedTuple):
    """How a program ended and what it printed. ``problem`` is empty where it ended by itself, with ``status``."""

    status: int | None
    out: bytes
    errors: bytes
    problem: str = ""  # MISSING, TIMEOUT or FAILED
    reason: str = ""  # of the problem, as one sentence

    @property
    def said(self) -> str:
        """What it printed on standard output, as text."""
        return self.out.decode("utf-8", "replace")


def run(
    command: Sequence[str],
    seconds: float,
    environment: Mapping[str, str],
    *,
    together: bool = False,
    started: Callable[[subprocess.Popen[bytes]], None] | None = None,
) -> Ended:
    """Run a program, which is looked for in the environment's PATH, in a session of its own. Raises nothing.

    ``together`` puts its errors among its output; ``started`` gets the process.
    """
    program = shutil.which(command[0], path=environment.get("PATH", os.defpath))
    if program is None:
        return Ended(None, b"", b"", MISSING, f"{command[0]} is not installed")
    try:
        process = subprocess.Popen(
            [os.path.abspath(program), *command[1:]],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if together else subprocess.PIPE,
            start_new_session=True,
            cwd="/",
        )
    except OSError as error:
        return Ended(None, b"", b"", FAILED, str(error))
    if started is not None:
        started(process)
    printed = _Printed(process)
    try:
        printed.read(time.monotonic() + seconds)
    except subprocess.TimeoutExpired:
        problem, reason = TIMEOUT, f"{command[0]} did not end within {seconds:g} s"
    except OverflowError:
        problem, reason = FAILED, f"{command[0]} printed more than {MOST_BYTES >> 20} MiB"
    else:
        return Ended(process.returncode, *printed.texts())
    finally:
        _end(process)
    return Ended(None, *printed.texts(), problem, reason)


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a program that has not been waited for, with all that it started."""
    if process.returncode is None:
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)


class _Printed:
    """Both outputs of a program, as they come. Whoever inherited them may keep them open after it has ended."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._pieces: list[tuple[Any, list[bytes]]] = [(process.stdout, []), (process.stderr, [])]

    def read(self, deadline: float) -> None:
        """Read to the end of both and of the program. Raises TimeoutExpired, and OverflowError where it is too much."""
        pieces = {stream: read for stream, read in self._pieces if stream is not None}
        still, size = list(pieces), 0
        while still:
            left = deadline - time.monotonic()
            ready = select.select(still, [], [], max(0.0, left))[0]
            if left <= 0 or not ready:
                raise subprocess.TimeoutExpired(self._process.args, 0)
            for stream in ready:
                piece = os.read(stream.fileno(), 1 << 20)
                pieces[stream].append(piece)
                size += len(piece)
                if not piece:
                    still.remove(stream)
            if size > MOST_BYTES:
                raise OverflowError
        self._process.wait(timeout=max(0.1, deadline - time.monotonic()))

    def texts(self) -> tuple[bytes, bytes]:
        """What has come on each."""
        out, errors = (b"".join(read) for _, read in self._pieces)
        return out, errors


def _end(process: subprocess.Popen[bytes]) -> None:
    """Leave nothing of a program behind, where it still runs. One that hangs in the kernel is left to it."""
    end_group(process)
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=1)
