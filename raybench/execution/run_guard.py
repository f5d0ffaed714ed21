"""Ends what a run has started whose command was killed: by SIGKILL, or by the kernel when memory ran out.

Most of it ends by itself then, driver and daemons by the kernel. But a worker of Ray that was just starting looks half
a minute for its daemon, and node actors that were to stay warm wait for their lease. So the command forks a guard, in a
session of its own, before it starts anything else, and marks the environment of whatever it starts. The guard reads a
pipe, which ends with the command.
"""

import contextlib
import os
import secrets
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from raybench.execution.node_actors.farewell import say_farewell
from raybench.processes.forked import keep_only, print_to
from raybench.processes.owned_processes import MARK, kill_marked
from raybench.processes.process_title import set_title

_TITLE = "raybench guard"
_LAST_WORD = b"ended"
_KILL_SECONDS = 10.0
_END_SECONDS = 3.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunGuard:
    """The command's end of the pipe. What is told last counts."""

    pid: int
    pipe: int

    def node_actors_outlive(self, address: str, name: str, count: int) -> None:
        """Node actors of this group, on the cluster at HOST:PORT, do not end with the driver."""
        self._tell(f"{address} {name} {count}".encode())

    def node_actors_may_stay(self) -> None:
        """The run is through: those that it leaves warm are left for the next."""
        self._tell(b"")

    def dismiss(self) -> None:
        """The command ends by itself. Waits for the guard, which may be stopped."""
        self._tell(_LAST_WORD)
        os.close(self.pipe)
        deadline = time.monotonic() + _END_SECONDS
        while not os.waitpid(self.pid, os.WNOHANG)[0]:
            if time.monotonic() > deadline:
                os.kill(self.pid, signal.SIGKILL)
            time.sleep(0.002)

    def _tell(self, line: bytes) -> None:
        with contextlib.suppress(OSError):  # somebody has killed the guard: the run goes on without
            os.write(self.pipe, line + b"\n")


@contextlib.contextmanager
def run_guard(workplace: Path) -> Iterator[RunGuard]:
    """Within the block, see to it that the run leaves nothing even if this process is killed.

    ``workplace``: the run's temporary folder, which the guard removes then.
    """
    token, before = secrets.token_hex(16), os.environ.get(MARK)
    guard = _start(token, workplace)
    os.environ[MARK] = token
    try:
        yield guard
    finally:
        if before is None:
            del os.environ[MARK]
        else:
            os.environ[MARK] = before
        guard.dismiss()


def _start(token: str, workplace: Path) -> RunGuard:
    reader, writer = os.pipe()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)  # until it has a session of its own
    try:
        pid = os.fork()
        if pid == 0:
            _be_guard(reader, token, workplace)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    os.close(reader)
    return RunGuard(pid=pid, pipe=writer)


def _be_guard(reader: int, token: str, workplace: Path) -> NoReturn:
    """Signals stay blocked: a guard ends after its command, and not before."""
    try:
        set_title(_TITLE)
        os.setsid()
        keep_only(reader)
        print_to(Path(os.devnull))
        *_, last = [b"", *_lines(reader)]
        if last != _LAST_WORD:
            _end(token, workplace, last.decode().split())
    finally:
        os._exit(0)


def _lines(descriptor: int) -> list[bytes]:
    with os.fdopen(descriptor, "rb") as pipe:
        return pipe.read().splitlines()


def _end(token: str, workplace: Path, outliving: list[str]) -> None:
    kill_marked(token, _KILL_SECONDS)
    if outliving:
        address, name, count = outliving
        say_farewell(address, name, int(count))
    shutil.rmtree(workplace, ignore_errors=True)
