"""Starting and ending the process that holds ranks, ``rank_host``."""

import os
import subprocess
import sys
from pathlib import Path


def start_rank_host(path: str, log: Path) -> "subprocess.Popen[bytes]":
    """Start the process that holds ranks, listening on the socket ``path``. It ends when its standard input does."""
    environment = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"} | os.environ
    environment.pop("PYTHONSTARTUP", None)
    with log.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "raybench.cluster.rank_host", path],
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
    try:
        host.wait(5)
    except subprocess.TimeoutExpired:
        host.kill()
        host.wait(5)
