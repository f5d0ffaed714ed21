"""Processes that a playbook run started, found by a mark in their environment, and ended.

Ansible's workers and ssh's masters leave the process group and the session of the command that began them, and the
masters even its tree. What they all keep is the environment they were started with.
"""

import contextlib
from collections.abc import Mapping

import psutil

MARK = "RAYBENCH_PLAYBOOK"
_GRACE_SECONDS = 3.0


def end_marked(token: str) -> int:
    """End every process of ours on this machine whose environment carries the mark: asked first, killed after 3 s.

    Returns how many there were. Descendants that cleared their environment are ended with their parents.
    """
    found = _marked(token)
    for process in found:
        with contextlib.suppress(psutil.Error):
            process.terminate()
    _, alive = psutil.wait_procs(found, timeout=_GRACE_SECONDS)
    for process in {*alive, *_marked(token)}:
        with contextlib.suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(alive, timeout=_GRACE_SECONDS)
    return len(found)


def _marked(token: str) -> list[psutil.Process]:
    processes: dict[psutil.Process, None] = {}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if _environment(process).get(MARK) == token:
                processes[process] = None
                processes |= dict.fromkeys(process.children(recursive=True))
    return list(processes)


def _environment(process: psutil.Process) -> Mapping[str, str]:
    environment: Mapping[str, str] = process.environ()
    return environment
