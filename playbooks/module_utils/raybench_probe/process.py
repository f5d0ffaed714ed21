"""Programs that run side by side, each for a limited time; killed with all that they started where they run past it."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Dict  # noqa: UP035

# Status (ok, missing, failed, timeout, denied) and what came of it. Evaluated, hence as Python 3.8 knows it.
Reading = Dict[str, Any]  # noqa: UP006
MOST_CHARACTERS = 400_000
_SLACK_SECONDS = 5.0
_DENIED = re.compile(r"[Pp]ermission denied|not permitted|must be root|need to be root")


class Runner:
    """Programs that run at the same time, each in a session of its own."""

    def __init__(self, environment: Mapping[str, str], seconds: float) -> None:
        self._environment, self._seconds = environment, seconds
        self._threads: list[threading.Thread] = []
        self._results: dict[str, Reading] = {}

    def start(self, name: str, command: Sequence[str]) -> None:
        """Start a program in a thread of its own."""
        thread = threading.Thread(target=self._run, args=(name, command), daemon=True)
        self._threads.append(thread)
        thread.start()

    def finish(self) -> dict[str, Reading]:
        """What they all said. Nobody is waited for longer than the limit and a little."""
        deadline = time.monotonic() + self._seconds + _SLACK_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        return dict(self._results)

    def _run(self, name: str, command: Sequence[str]) -> None:
        begun = time.monotonic()
        self._results[name] = {"status": "timeout", "seconds": self._seconds, "text": ""}
        answer = run(command, self._environment, self._seconds)
        answer["seconds"] = round(time.monotonic() - begun, 3)
        self._results[name] = answer


def run(command: Sequence[str], environment: Mapping[str, str], seconds: float) -> Reading:
    """Run a program to its end or its time limit, whichever is first."""
    program = shutil.which(command[0], path=environment["PATH"])
    if program is None:
        return {"status": "missing", "text": "", "error": f"{command[0]} is not installed"}
    try:
        process = subprocess.Popen(
            [program, *command[1:]],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            cwd="/",
        )
    except OSError as error:
        return {"status": "failed", "text": "", "error": str(error)}
    try:
        out, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        _end(process)
        return {"status": "timeout", "text": "", "error": f"{command[0]} did not end within {seconds:g} s"}
    text = out.decode("utf-8", "replace")[:MOST_CHARACTERS]
    said = errors.decode("utf-8", "replace").strip()[:2000]
    status = "ok" if process.returncode == 0 else "failed"
    if status == "failed" and _DENIED.search(said + text[:2000]):
        status = "denied"
    return {"status": status, "text": text, "rc": process.returncode, "error": said}


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill a program with all that it started. One that hangs in the kernel is left to it."""
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    try:
        process.communicate(timeout=1)
    except (subprocess.TimeoutExpired, ValueError, OSError):
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError, ValueError):
                    stream.close()
