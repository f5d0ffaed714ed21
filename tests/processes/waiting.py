"""Waiting for what other processes do: until it is so, and never for a while in the hope that it is by then."""

import time
from collections.abc import Callable
from pathlib import Path

SECONDS = 60.0  # far longer than what must come true takes beside other work; what has a limit of its own gives it


def come_true(condition: Callable[[], object], seconds: float = SECONDS) -> bool:
    """Whether a condition comes true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def state_of(pid: int) -> str:
    """The kernel's letter for what a process does: R, S, D, T, Z. Empty where it has gone, be it while we look."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def has_ended(pid: int) -> bool:
    """Whether a process has ended, collected by its parent or not."""
    return state_of(pid) in {"", "Z", "X"}


def words_of(pid: int) -> list[str]:
    """A process's command line; empty where it has gone or ended, and while it is between two programs."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
    except OSError:
        return []


def running(word: str) -> list[int]:
    """Processes that this one sees with a word in their command line."""
    pids = [int(one.name) for one in Path("/proc").iterdir() if one.name.isdecimal()]
    return [pid for pid in pids if word in words_of(pid)]
