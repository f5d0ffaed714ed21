"""Processes that belong to raybench's Ray node on this host, told by its state file and never by a name."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import Any, Mapping

from ..raybench_host.machine import boot_id
from ..raybench_host.process import start_ticks
from . import supervise

_STOP_SECONDS = 40.0  # longer than the supervisor needs for both of its steps
_KILL_SECONDS = 10.0
State = Mapping[str, Any]  # of a node, as its supervisor wrote it; empty where there is none


def end(state: State) -> list[int]:
    """Have the supervisor end its node, and kill what is left of it. Returns process ids that do not go."""
    if runs(state):
        os.kill(state["pid"], signal.SIGTERM)
        deadline = time.monotonic() + _STOP_SECONDS
        while runs(state) and time.monotonic() < deadline:
            time.sleep(0.05)
    deadline = time.monotonic() + _KILL_SECONDS
    while True:
        left = marked(state) + ([state["pid"]] if runs(state) else [])
        if not left or time.monotonic() > deadline:
            return left
        for pid in left:
            _kill(pid, state)
        time.sleep(0.1)


def runs(state: State) -> bool:
    """Whether the supervisor of a state file is alive, and not a later process with its number."""
    try:
        found = supervise.identity(state["pid"])
    except (KeyError, TypeError, OSError, ValueError, IndexError):
        return False
    return start_ticks(state["pid"]) is not None and all(found[name] == state.get(name) for name in found)


def rebooted(state: State) -> bool:
    """Whether the machine booted again after the supervisor had started, and nobody had ended it before."""
    if not state.get("boot_id") or state.get("phase") == "ended":
        return False
    try:
        return bool(state["boot_id"] != boot_id())
    except OSError:
        return False


def uptime_seconds(state: State) -> float:
    """For how long the supervisor has run."""
    with open("/proc/uptime", encoding="ascii") as file:
        since_boot = float(file.read().split()[0])
    return max(0.0, round(since_boot - int(state["start_time"]) / os.sysconf("SC_CLK_TCK"), 1))


def marked(state: State) -> list[int]:
    """Processes of this node, wherever their parents went: those born with its id, and those that write its files.

    The id is random and new with each start, so an old state file names nobody. Ray's workers and agents set titles,
    which overwrites the environment that the kernel shows of them; they keep log files of the node open for writing.
    """
    own = {os.getpid(), os.getppid()}
    return [
        int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) not in own and _is_marked(name, state)
    ]


def _is_marked(pid: str | int, state: State) -> bool:
    if "id" not in state:
        return False
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            if b"RAYBENCH_NODE_ID=%s" % str(state["id"]).encode() in file.read().split(b"\0"):
                return True
        return any(
            _is_written(pid, number, state.get("files") or "/dev/null/none") for number in os.listdir(f"/proc/{pid}/fd")
        )
    except OSError:
        return False


def _is_written(pid: str | int, number: str, folder: str) -> bool:
    """Whether a process has a file below the folder open for writing: who only reads a log is none of ours."""
    try:
        if not os.readlink(f"/proc/{pid}/fd/{number}").startswith(f"{folder}/"):
            return False
        with open(f"/proc/{pid}/fdinfo/{number}", encoding="ascii") as file:
            flags = next(line.split()[1] for line in file if line.startswith("flags:"))
    except (OSError, StopIteration, IndexError):
        return False
    return bool(int(flags, 8) & (os.O_WRONLY | os.O_RDWR))


def _kill(pid: int, state: State) -> None:
    """Kill a process that is ours. Where Python has pidfds, no other can take its number in between."""
    with contextlib.suppress(ProcessLookupError):
        if not hasattr(os, "pidfd_open") or not hasattr(signal, "pidfd_send_signal"):
            os.kill(pid, signal.SIGKILL)
            return
        descriptor = os.pidfd_open(pid)
        try:
            if _is_marked(pid, state) or (pid == state.get("pid") and runs(state)):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        finally:
            os.close(descriptor)
