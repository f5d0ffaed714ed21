"""Processes of a fabric test: in a session of their own, bounded in time, ended by process id with all they made.

The kernel kills a child when the agent that started it dies, however it dies.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import time

_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG
_POLL_SECONDS = 0.08
_KEPT_BYTES = 20000
try:
    _LIBC = ctypes.CDLL(None, use_errno=True)
except OSError:
    _LIBC = None


def _die_with_parent():
    if _LIBC is not None:
        _LIBC.prctl(_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)


class Child:
    """One running tool. Its output goes to a file, so that a chatty one never blocks."""

    def __init__(self, argv, folder, name, environment):
        self._path = os.path.join(folder, name + ".out")
        with open(self._path, "wb") as output:
            self._process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=dict(os.environ, LC_ALL="C", **environment),
                start_new_session=True,
                preexec_fn=_die_with_parent,  # noqa: PLW1509 - it calls nothing but prctl
            )

    @property
    def code(self):
        """Its exit status; None while it runs."""
        return self._process.poll()

    def wait(self, seconds, stopped):
        """Wait for its end, at most so long and not after ``stopped()``. Returns the status; None while it runs."""
        end = time.monotonic() + seconds
        while self.code is None and time.monotonic() < end and not stopped():
            time.sleep(_POLL_SECONDS)
        return self.code

    def end(self):
        """End it with everything in its session, politely first. Returns its status."""
        for number, seconds in ((signal.SIGTERM, 1.0), (signal.SIGKILL, 5.0)):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)
            if self.wait(seconds, lambda: False) is not None:
                break
        return self.code

    def output(self, keep_from=""):
        """What it printed, the end of it; from the first line that begins with ``keep_from`` where there is one."""
        with contextlib.suppress(OSError), open(self._path, "rb") as file:
            text = file.read(2 * 2**20).decode(errors="replace")
            at = text.find(keep_from) if keep_from else -1
            return (text[at:] if at >= 0 else text)[-_KEPT_BYTES:]
        return ""

    def forget(self):
        """Remove its output."""
        with contextlib.suppress(OSError):
            os.unlink(self._path)


def listening_ports():
    """TCP ports of this network namespace on which somebody listens (state 0A)."""
    found = set()
    for path in ("/proc/self/net/tcp", "/proc/self/net/tcp6"):
        with contextlib.suppress(OSError), open(path, encoding="ascii") as file:
            for line in file.readlines()[1:]:
                fields = line.split()
                if fields[3] == "0A":
                    found.add(int(fields[1].rpartition(":")[2], 16))
    return found
