"""Starting and ending the process that holds ranks, ``rank_host``."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from raybench.execution.log_files import tail_of
from raybench.execution.ranks.rank_activity import state_of
from raybench.processes.scratch_folder import scratch_folder
from raybench.processes.trusted_file import trusted_folder

LOG = "rank-host.log"  # what it prints, beside its socket
_LONGEST_BASE = 40
_TMP = "/tmp"  # noqa: S108 - sticky
_STOPPED_SECONDS = 9.0  # as long as a node may be silent, and before its driver gives it up


def start_rank_host(path: str, log: Path) -> "subprocess.Popen[bytes]":
    """Start the process that holds ranks, listening on the socket ``path``. It ends when its standard input does."""
    environment = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"} | os.environ
    environment.pop("PYTHONSTARTUP", None)
    with log.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "raybench.execution.ranks.rank_host", path],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            start_new_session=True,
            env=environment,
        )


class RankHostError(OSError):
    """The process that holds ranks is stopped, or has ended."""


class RankHostWatch:
    """Tells whether the process that holds ranks is as it should be. One that is stopped may go on within seconds."""

    def __init__(self, pid: int, log: Path | None = None) -> None:
        self._pid, self._log = pid, log
        self._stopped: float | None = None

    def check(self) -> None:
        """Raises RankHostError where the process has ended, or is stopped for some time already."""
        state = state_of(self._pid)
        now = time.monotonic()
        self._stopped = None if state not in ("T", "t") else now if self._stopped is None else self._stopped
        subject = f"the rank host (the process that holds the ranks), process {self._pid}"
        if state in ("X", "Z"):
            tail = tail_of(self._log).strip().splitlines() if self._log is not None else []
            raise RankHostError(f"{subject}, has ended" + (f": {tail[-1][:200]}" if tail else ""))
        if self._stopped is not None and now - self._stopped > _STOPPED_SECONDS:
            raise RankHostError(f"{subject}, is stopped (SIGSTOP or a debugger); continue it with SIGCONT, or end it")


def end_rank_host(host: "subprocess.Popen[bytes]") -> None:
    """End the process that holds ranks, and with it all ranks."""
    if host.stdin is not None:
        host.stdin.close()
    if state_of(host.pid) in ("T", "t"):
        host.kill()  # it cannot do it by itself
    host.terminate()  # heeded only while it imports torch: it holds nothing yet, and nobody waits for the import
    try:
        host.wait(5)
    except subprocess.TimeoutExpired:
        host.kill()
        host.wait(5)


def short_folder() -> Path:
    """A new private folder with a path short enough for UNIX sockets (107 characters) in Ray's folders below it.

    It is in /tmp where $TMPDIR is long, or one where others could put a folder of theirs in its place; but not where
    /tmp is so as well, as in a container whose folders belong to nobody.
    """
    bases = [base for base in (tempfile.gettempdir(), _TMP) if len(base) < _LONGEST_BASE]
    best = next((base for base in bases if trusted_folder(Path(base))), bases[0])
    return scratch_folder(best)
