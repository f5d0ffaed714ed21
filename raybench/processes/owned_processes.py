"""Processes that one command of raybench started, found by a mark in their environment, and ended.

What is started may leave its parent, its process group and its session: Ansible's workers and ssh's masters do, and so
does a worker of Ray whose daemon has gone. What they all keep is the environment they were started with.
"""

import contextlib
import os
import time
from pathlib import Path

import psutil

MARK = "RAYBENCH_OWNER"
_GRACE_SECONDS = 3.0
_KILL_SECONDS = 10.0  # a killed process is there until it gets a processor
_QUIET_SECONDS = 0.5  # a process that has just been forked, or is between two programs, shows no environment


def end_marked(token: str) -> int:
    """End every process of ours on this machine whose environment carries the mark: asked first, killed after 3 s.

    Returns how many were asked, once none is left. Descendants that cleared their environment are ended with their
    parents; those that could not be seen at first, or were started meanwhile, are killed.
    """
    found = _marked(token)
    for process in found:
        with contextlib.suppress(psutil.Error):
            process.terminate()
    _, alive = psutil.wait_procs(found, timeout=_GRACE_SECONDS)
    for process in alive:
        with contextlib.suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(alive, timeout=_GRACE_SECONDS)
    kill_marked(token, _KILL_SECONDS)
    return len(found)


def kill_marked(token: str, seconds: float) -> bool:
    """Kill them at once, and whatever they still start meanwhile. Returns whether none is left within the time."""
    deadline = time.monotonic() + seconds
    quiet_since: float | None = None
    while (now := time.monotonic()) < deadline:
        found = _marked(token)
        for process in found:
            with contextlib.suppress(psutil.Error):
                process.kill()
        quiet_since = None if found else quiet_since or now
        if quiet_since is not None and now - quiet_since >= _QUIET_SECONDS:
            return True
        time.sleep(0.05)
    return False


def _marked(token: str) -> list[psutil.Process]:
    processes: dict[psutil.Process, None] = {}
    for pid in psutil.pids():
        with contextlib.suppress(psutil.Error, OSError):
            if pid != os.getpid() and _carries(pid, token):
                process = psutil.Process(pid)
                processes |= dict.fromkeys((process, *process.children(recursive=True)))
    return [one for one in processes if _runs(one)]


def _carries(pid: int, token: str) -> bool:
    return f"{MARK}={token}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")


def _runs(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False
