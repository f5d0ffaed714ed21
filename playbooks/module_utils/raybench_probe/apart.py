"""Reading where it may fail, or never come back."""

from __future__ import annotations

import json
import os
import select
import signal
import time
from collections.abc import Callable
from typing import Any

from .process import Reading

_MOST_BYTES = 65536


def guarded(read: Callable[[], Any]) -> Reading:
    """What a function found, or why it did not."""
    try:
        return {"status": "ok", "value": read()}
    except Exception as error:  # noqa: BLE001 - a fact that cannot be had is reported, and the others still are
        return {"status": "failed", "error": f"{type(error).__name__}: {error}"}


class Apart:
    """A function in a process of its own, since it may never come back: as from a file system without its server.

    What it returns comes through a pipe as JSON. It has none of our outputs: one that the kernel holds would keep them.
    """

    def __init__(self, read: Callable[[], Any]) -> None:
        self._reader, writer = os.pipe()
        self.child = os.fork()
        if self.child == 0:
            try:
                nowhere = os.open(os.devnull, os.O_RDWR)
                for descriptor in (0, 1, 2):
                    os.dup2(nowhere, descriptor)
                os.write(writer, json.dumps(guarded(read)).encode("ascii"))
            finally:
                os._exit(0)
        os.close(writer)

    def answer(self, deadline: float) -> Reading:
        """What ``guarded`` made of it; a timeout where it did not end by then, and is killed."""
        ready = select.select([self._reader], [], [], max(0.0, deadline - time.monotonic()))[0]
        said = os.read(self._reader, _MOST_BYTES) if ready else b""
        os.close(self._reader)
        if not ready:
            os.kill(self.child, signal.SIGKILL)
        os.waitpid(self.child, 0 if ready else os.WNOHANG)
        if not ready:
            return {"status": "timeout", "error": "no answer in time"}
        found: Reading = json.loads(said) if said else {"status": "failed", "error": "it ended without an answer"}
        return found
