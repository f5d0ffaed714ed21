"""Starting and ending the process that holds ranks, ``rank_host``."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

_LONGEST_BASE = 40


def start_rank_host(path: str, log: Path) -> "subprocess.Popen[bytes]":
    """Start the process that holds ranks, listening on the socket ``path``. It ends when its standard input does."""
    environment = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"} | os.environ
    environment.pop("PYTHONSTARTUP", None)
    with log.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "raybench.cluster.rank_host", path],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            start_new_session=True,
            env=environment,
        )


def end_rank_host(host: "subprocess.Popen[bytes]") -> None:
    """End the process that holds ranks, and with it all ranks."""
    if host.stdin is not None:
        host.stdin.close()
    host.terminate()  # heeded only while it imports torch: it holds nothing yet, and nobody waits for the import
    try:
        host.wait(5)
    except subprocess.TimeoutExpired:
        host.kill()
        host.wait(5)


def short_folder() -> Path:
    """A new private folder with a path short enough for UNIX sockets (107 characters) in Ray's folders below it."""
    base = tempfile.gettempdir()
    return Path(tempfile.mkdtemp(prefix="raybench-", dir=base if len(base) < _LONGEST_BASE else "/tmp"))  # noqa: S108
