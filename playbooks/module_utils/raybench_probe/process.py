"""One program, run to its end or its time limit; killed with all that it started where it runs past it."""

from __future__ import annotations

import contextlib
import os
import re
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Dict, Optional  # noqa: UP035

# Status (ok, missing, failed, timeout, denied) and what came of it. Evaluated, hence as Python 3.8 knows it.
Reading = Dict[str, Any]  # noqa: UP006
Keep = Optional["Callable[[str], str]"]  # what is left of an output
MOST_CHARACTERS = 2_000_000  # of an answer, after what no check wants was taken out of it
MOST_BYTES = 64 << 20  # that a program may print before it is ended
_DENIED = re.compile(r"[Pp]ermission denied|not permitted|must be root|need to be root")


def run(
    command: Sequence[str],
    environment: Mapping[str, str],
    seconds: float,
    keep: Keep = None,
    started: Callable[[subprocess.Popen[bytes]], None] | None = None,
) -> Reading:
    """What a program said, or why it did not. ``keep`` leaves of it what is wanted; ``started`` gets the process."""
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
    if started is not None:
        started(process)
    try:
        out, errors = _printed(process, time.monotonic() + seconds)
    except subprocess.TimeoutExpired:
        _end(process)
        return {"status": "timeout", "text": "", "error": f"{command[0]} did not end within {seconds:g} s"}
    except OverflowError:
        _end(process)
        return {"status": "failed", "text": "", "error": f"{command[0]} printed more than {MOST_BYTES >> 20} MiB"}
    return _answer(command[0], process.returncode, out, errors, keep)


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a program that has not been waited for, with all that it started."""
    if process.returncode is None:
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)


def _answer(name: str, status: int, out: bytes, errors: bytes, keep: Keep) -> Reading:
    text = out.decode("utf-8", "replace")
    text = keep(text) if keep else text
    if len(text) > MOST_CHARACTERS:
        return {"status": "failed", "text": "", "error": f"{name} printed {len(text)} characters"}
    said = errors.decode("utf-8", "replace").strip()[:2000]
    verdict = "ok" if status == 0 else "denied" if _DENIED.search(said + text[:2000]) else "failed"
    return {"status": verdict, "text": text, "rc": status, "error": said}


def _printed(process: subprocess.Popen[bytes], deadline: float) -> tuple[bytes, bytes]:
    """Both outputs of a program that ended. Raises TimeoutExpired, and OverflowError where they have no end."""
    out, errors = process.stdout, process.stderr
    assert out is not None and errors is not None  # noqa: PT018
    found: dict[Any, list[bytes]] = {out: [], errors: []}
    size, still = 0, list(found)
    while still:
        left = deadline - time.monotonic()
        ready = select.select(still, [], [], max(0.0, left))[0]
        if left <= 0 or not ready:
            raise subprocess.TimeoutExpired(process.args, 0)
        for stream in ready:
            piece = os.read(stream.fileno(), 1 << 20)
            found[stream].append(piece)
            size += len(piece)
            if not piece:
                still.remove(stream)
        if size > MOST_BYTES:
            raise OverflowError
    process.wait(timeout=max(0.1, deadline - time.monotonic()))
    for stream in found:
        stream.close()
    return b"".join(found[out]), b"".join(found[errors])


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill a program with all that it started. One that hangs in the kernel is left to it."""
    end_group(process)
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=1)
