"""Stacks with C frames, by py-spy where it is installed: which function of a library a rank is in.

``faulthandler`` needs the rank's own help: none comes from a process that is stopped, or whose C code holds the
interpreter. py-spy reads the process from outside, so it also gives the Python line of such a rank. Where the kernel
forbids that (``kernel.yama.ptrace_scope``, a container without SYS_PTRACE) there is none.
"""

import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePath

import msgspec

from raybench.execution.ranks.stack import Frame

_SECONDS = 2.0  # for all ranks of a node; a dump takes 0.1 to 0.7 s
_AT_ONCE = 2  # each takes up to 320 MiB for the symbols of torch
_SLOTS = threading.BoundedSemaphore(_AT_ONCE)  # all emulated nodes of a machine are looked at by one process
_LONGEST_BYTES = 2**20
_KEPT_FRAMES = 40
_STOPPED = ("T", "t")
_ENDED = ("X", "Z")


def native_stacks(states: Mapping[int, str]) -> dict[int, tuple[Frame, ...]]:
    """The main thread's frames of each process, the innermost first; ``states``: process id to its state letter.

    They are looked at in that order, as long as there is time. A process is left out where py-spy is missing or may not
    look. One that is stopped cannot be traced: its frames are Python's only.
    """
    program = _program()
    if program is None:
        return {}
    deadline = time.monotonic() + _SECONDS
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        texts = pool.map(lambda pid: _dump(program, pid, states[pid], deadline), states)
        found = {pid: main_frames(text, pid) for pid, text in zip(states, texts, strict=True)}
    return {pid: frames for pid, frames in found.items() if frames}


class _Frame(msgspec.Struct, frozen=True):
    name: str
    filename: str
    line: int


class _Thread(msgspec.Struct, frozen=True):
    os_thread_id: int | None  # not known of a process that is not stopped
    frames: tuple[_Frame, ...]


def main_frames(text: bytes, pid: int) -> tuple[Frame, ...]:
    """The main thread's frames of ``py-spy dump --json``; () where it holds none."""
    try:
        threads = msgspec.json.decode(text, type=tuple[_Thread, ...])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ()
    main = next((one.frames for one in threads if one.os_thread_id in (pid, None)), ())
    return tuple(Frame(file=one.filename, line=one.line, function=one.name[:200]) for one in main[:_KEPT_FRAMES])


def is_native(frame: Frame) -> bool:
    """Whether a frame is one of a library or program, not of Python."""
    return frame.line == 0 and PurePath(frame.file).suffix != ".py" and not frame.file.startswith("<")


def _program() -> str | None:
    beside = Path(sys.executable).with_name("py-spy")
    return str(beside) if beside.is_file() else shutil.which("py-spy")


def _dump(program: str, pid: int, state: str, deadline: float) -> bytes:
    """What py-spy prints of a process; empty where it has gone, or nothing came in time."""
    how = "--nonblocking" if state in _STOPPED else "--native"  # one that is stopped cannot be traced
    if state in _ENDED or not _SLOTS.acquire(timeout=max(deadline - time.monotonic(), 0.0)):
        return b""
    try:
        done = subprocess.run(
            [program, "dump", "--json", how, "--pid", str(pid)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=max(deadline - time.monotonic(), 0.0),
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return b""
    finally:
        _SLOTS.release()
    return done.stdout[:_LONGEST_BYTES]
