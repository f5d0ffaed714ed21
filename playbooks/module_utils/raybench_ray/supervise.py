"""Hold one Ray node: ``supervise.py LAUNCH_JSON`` starts ``ray start --block`` and owns whatever comes of it.

The only process that raybench itself starts on a node, by systemd or detached. It adopts every orphan below it (Linux:
a child subreaper), so all processes of the node, a job's included, are its descendants until it has ended them. Its
state file names it by process id, start time and boot: nothing is ever looked for by name.

The standard library only, Python 3.8 or newer. LAUNCH_JSON holds ``id``, ``command``, ``environment``, ``log``,
``state``, ``ready_text`` and ``record`` (what is copied to the state file).
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)
_POLL_SECONDS = 0.2
_ORDERLY_SECONDS = 10.0
_KILL_SECONDS = 10.0
_LOG_TAIL_BYTES = 1 << 16

_libc = ctypes.CDLL(None, use_errno=True)


def main(path: str) -> int:
    """Run the node until it ends or a signal asks for the end. Returns 0 when asked, else 1."""
    with open(path, encoding="utf-8") as file:
        launch = json.load(file)
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    state = dict(launch["record"], id=launch["id"], phase="starting", **identity(os.getpid()))
    write_state(launch["state"], state)
    with open(launch["log"], "wb") as log:
        child = subprocess.Popen(
            launch["command"],
            env=dict(launch["environment"], RAYBENCH_NODE_ID=launch["id"]),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd="/",
            start_new_session=True,
            preexec_fn=_as_child,  # noqa: PLW1509 - there is one thread
        )
    asked = watch(child.pid, launch, state)
    end(child.pid)
    write_state(launch["state"], dict(state, phase="ended", asked=asked, ended_at=time.time()))
    return 0 if asked else 1


def _as_child() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def watch(child: int, launch: Mapping[str, Any], state: dict[str, Any]) -> bool:
    """Reap what ends and say when the node is ready. Returns True on a signal, False once ``ray start`` has ended."""
    ready = False
    while True:
        received = signal.sigtimedwait(_SIGNALS, 5.0 if ready else _POLL_SECONDS)
        if received is not None and received.si_signo != signal.SIGCHLD:
            return True
        if child in reaped():
            return False
        if not ready and launch["ready_text"] in tail(launch["log"]):
            ready = True
            state.update(phase="ready", ready_at=time.time())
            write_state(launch["state"], state)
            notify(b"READY=1")


def end(child: int) -> None:
    """End ``ray start`` in order, which ends its daemons, and then whatever else is left below us."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGTERM)
    deadline = time.monotonic() + _ORDERLY_SECONDS
    while child in descendants(os.getpid()) and time.monotonic() < deadline:
        time.sleep(0.05)
        reaped()
    deadline = time.monotonic() + _KILL_SECONDS
    while time.monotonic() < deadline:
        reaped()
        left = descendants(os.getpid())
        if not left:
            return
        for pid in left:  # none of them can be another's number: they are ours, and we have not reaped them
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


def reaped() -> list[int]:
    """Collect children that have ended, adopted ones too; returns their process ids."""
    found = []
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, _ = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            found.append(pid)
    return found


def descendants(root: int) -> list[int]:
    """Process ids below a process, at the moment of looking."""
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                with open(f"/proc/{name}/stat", encoding="ascii", errors="replace") as file:
                    parents[int(name)] = int(file.read().rpartition(")")[2].split()[1])
    found: list[int] = []
    frontier = [root]
    while frontier:
        parent = frontier.pop()
        below = [pid for pid, above in parents.items() if above == parent]
        found += below
        frontier += below
    return found


def identity(pid: int) -> dict[str, Any]:
    """What tells a process from a later one with its number: the start time in clock ticks, and the boot."""
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        start_time = int(file.read().rpartition(")")[2].split()[19])
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return {"pid": pid, "start_time": start_time, "boot_id": file.read().strip()}


def write_state(path: str, state: Mapping[str, Any]) -> None:
    """Write the state file whole or not at all, for its owner only."""
    partial = path + ".partial"
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)


def tail(path: str) -> str:
    """The last text of the log."""
    with open(path, "rb") as file:
        file.seek(max(os.fstat(file.fileno()).st_size - _LOG_TAIL_BYTES, 0))
        return file.read().decode("utf-8", "replace")


def notify(message: bytes) -> None:
    """Tell systemd, where it asked to be told (sd_notify(3))."""
    address = os.environ.get("NOTIFY_SOCKET")
    if address:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to_systemd:
            to_systemd.sendto(message, "\0" + address[1:] if address[0] == "@" else address)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
