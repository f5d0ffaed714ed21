"""The process of the tests: started with its source, heard line by line, and ended however the tests end.

It is the first of a session of its own, and everything that it starts is in that session's group. It is ended at the
time limit, and where nobody hears this module any more: when the ssh connection is lost, sshd closes our output. Should
this module have been killed, it ends itself (``raybench/benchmarks/node_tests/entry.py``).
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from typing import Any, Dict, NamedTuple

MODULE = "raybench.benchmarks.node_tests.entry"
_BOOT = "raybench.benchmarks.node_tests.boot"  # the program that reads the source
_MOST_BYTES = 16 << 20
_MOST_SAID = 2000
_LOOK_SECONDS = 0.5
_GRACE_SECONDS = 5.0  # beyond the limit of the tests, so that they end themselves first
Line = Dict[str, Any]


class Heard(NamedTuple):
    """What the process said: its lines, how it ended (empty where by itself and well), and the end of its errors."""

    lines: list[Line]
    problem: str
    errors: str


def hear(python: str, source: Mapping[str, str], plan: Mapping[str, Any], limit_seconds: float) -> Heard:
    """Run the tests of a plan to their end or to the time limit. Raises OSError where they cannot be started."""
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [python, "-u", "-c", source[_BOOT]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
            cwd="/",
        )
        try:
            _send(process, {"source": source, "module": MODULE, "arguments": [plan, limit_seconds, os.getpid()]})
            said, problem = _listen(process, time.monotonic() + limit_seconds + _GRACE_SECONDS)
        finally:
            _end(process)
        errors.seek(max(0, errors.seek(0, os.SEEK_END) - _MOST_SAID))
        last = errors.read().decode("utf-8", "replace").strip()
    return Heard(list(_lines(said)), problem, last)


def _send(process: subprocess.Popen[bytes], what: Mapping[str, Any]) -> None:
    with contextlib.suppress(BrokenPipeError):  # it ended at once, and its status and errors say why
        process.stdin.write(json.dumps(what).encode("ascii") + b"\n")
        process.stdin.close()


def _listen(process: subprocess.Popen[bytes], deadline: float) -> tuple[bytes, str]:
    said, output = bytearray(), process.stdout
    while True:
        if time.monotonic() >= deadline:
            return bytes(said), "timeout"
        if not is_heard():
            return bytes(said), "nobody listens any more"
        if not select.select([output], [], [], _LOOK_SECONDS)[0]:
            continue
        piece = os.read(output.fileno(), 1 << 16)
        said += piece
        if len(said) > _MOST_BYTES:
            return bytes(said), "it said more than any test says"
        if not piece:
            status = process.wait(timeout=_GRACE_SECONDS)
            killed = (
                "timeout" if status == -signal.SIGKILL and time.monotonic() >= deadline - 2 * _GRACE_SECONDS else ""
            )
            return bytes(said), killed or (f"it ended with status {status}" if status else "")


def is_heard() -> bool:
    """Whether somebody still reads what this process will print: the connection is there."""
    poll = select.poll()
    poll.register(1, 0)
    return not any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the whole group, also where its first process has ended: its number is kept until it is waited for."""
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    process.stdout.close()
    with contextlib.suppress(subprocess.TimeoutExpired):  # it hangs in the kernel, and is left to it
        process.wait(timeout=_GRACE_SECONDS)


def _lines(said: bytes) -> list[Line]:
    found = []
    for line in said.decode("utf-8", "replace").splitlines():
        try:
            value = json.loads(line)
        except ValueError:
            continue  # what a library printed
        if isinstance(value, dict):
            found.append(value)
    return found
