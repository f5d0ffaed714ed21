"""Processes that a test starts from this source: they end with it, and at the latest at its time limit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

_BOOT = "raybench.benchmarks.node_tests.boot"
_LOOK_SECONDS = 0.5


def start(module: str, arguments: Sequence[Any], environment: dict[str, str]) -> subprocess.Popen[str]:
    """A process that calls ``module.main(*arguments)`` with the source that this one has. Its output is a pipe.

    It stays in this process's group, which is ended as a whole.
    """
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", _boot_text()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **environment},
        text=True,
    )
    assert process.stdin is not None
    try:
        process.stdin.write(json.dumps({"source": _source(), "module": module, "arguments": list(arguments)}) + "\n")
        process.stdin.close()
    except BrokenPipeError:  # it ended at once, which whoever waits for it sees
        pass
    return process


def end_with(parent: int, ends: float) -> None:
    """Let this process end with the process ``parent``, or at ``ends`` of the monotonic clock."""

    def watch() -> None:
        while os.getppid() == parent and time.monotonic() < ends:
            time.sleep(_LOOK_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _source() -> dict[str, str]:
    """The texts that this process was given; none where it was started from files."""
    given = getattr(sys.modules.get("__main__"), "given", None)
    return dict(given["source"]) if isinstance(given, dict) and "source" in given else {}


def _boot_text() -> str:
    source = _source()
    if source:
        return source[_BOOT]
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "boot.py"), encoding="utf-8") as file:
        return file.read()
