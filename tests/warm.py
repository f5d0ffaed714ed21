"""``raybench`` in a process of its own that need not import it first: forked from one that has, a fraction of the time.

For tests of what a command says and of its exit status. Streams, folder, session and environment are as in ``started``;
what Python reads of its environment when it starts, and what an import does, is of the process that forks.
"""

import atexit
import contextlib
import functools
import json
import os
import select
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

_REPOSITORY = Path(__file__).resolve().parents[1]
_READY = "ready"


@dataclass(kw_only=True)
class Warm:
    """A process that waits for commands, one after the other, and forks for each."""

    process: "subprocess.Popen[bytes]"
    _unread: bytes = b""  # several answers may come at once

    def start(self, arguments: Sequence[str], *, environment: Mapping[str, str], folder: Path) -> "Forked":
        """A command, called in ``folder``, where ``out`` and ``errors`` keep what it prints. Wait before the next."""
        assert self.process.stdin is not None
        asked = {"arguments": list(arguments), "environment": dict(environment), "folder": str(folder)}
        self.process.stdin.write(json.dumps(asked).encode() + b"\n")
        self.process.stdin.flush()
        return Forked(pid=int(self.line(60.0)), warm=self)

    def line(self, seconds: float) -> str:
        """Its next answer. Raises TimeoutError when there is none in time, EOFError where it has ended."""
        assert self.process.stdout is not None
        deadline, source = time.monotonic() + seconds, self.process.stdout.fileno()
        while b"\n" not in self._unread:
            if not select.select([source], [], [], max(deadline - time.monotonic(), 0))[0]:
                raise TimeoutError(f"no answer within {seconds} s")
            found = os.read(source, 4096)
            if not found:
                raise EOFError("the process that forks has ended")
            self._unread += found
        line, _, self._unread = self._unread.partition(b"\n")
        return line.decode()


@dataclass(kw_only=True)
class Forked:
    """A command that runs or has ended, as a Popen is used by ``Command``."""

    pid: int
    warm: Warm
    _status: int | None = None

    def poll(self) -> int | None:
        """Its exit status; None while it runs."""
        if self._status is None:
            try:
                self._status = int(self.warm.line(0.0))
            except TimeoutError:
                return None
        return self._status

    def wait(self, seconds: float) -> int:
        """Its exit status. Raises subprocess.TimeoutExpired, with its session killed, when it does not end in time."""
        if self._status is None:
            try:
                self._status = int(self.warm.line(seconds))
            except TimeoutError as error:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self.pid, signal.SIGKILL)
                self._status = int(self.warm.line(60.0))
                raise subprocess.TimeoutExpired("raybench", seconds) from error
        return self._status


@functools.cache
def warm() -> Warm:
    """The one of this process, started when it is first needed; it ends with this process."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", "from tests.warm import serve; serve()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,
        env=os.environ | {"PYTHONPATH": str(_REPOSITORY)},
        start_new_session=True,
    )
    atexit.register(process.kill)
    found = Warm(process=process)
    assert found.line(120.0) == _READY
    return found


def serve() -> None:
    """Fork for each line of standard input; answer with the process id, then with the exit status."""
    _preload()
    requests, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w", buffering=1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    answers.write(f"{_READY}\n")
    while line := requests.readline():
        pid = os.fork()
        if pid == 0:
            _become(json.loads(line), requests, answers)
        answers.write(f"{pid}\n")
        answers.write(f"{os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}\n")


def _preload() -> None:
    """What commands import of ours, without Ray and torch."""
    import importlib

    from raybench.cli import COMMANDS

    for module, _ in COMMANDS.values():
        importlib.import_module(module)
    for name in ("raybench.services.run", "raybench.services.study", "raybench.cli.hints"):
        importlib.import_module(name)


def _become(asked: dict[str, Any], *ours: TextIO) -> None:
    """The command, and its end: nothing returns from here."""
    status = 1
    try:
        os.setsid()
        for stream in ours:
            os.close(stream.fileno())
        os.chdir(asked["folder"])
        for name, number in (("out", 1), ("errors", 2)):
            os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666), number)
        os.environ.clear()
        os.environ.update(asked["environment"])
        sys.argv = ["-c", *asked["arguments"]]
        status = _status_of_main()
    finally:
        if sys.exc_info()[0] is not None:
            traceback.print_exc()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _status_of_main() -> int:
    from raybench.cli import main

    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0
