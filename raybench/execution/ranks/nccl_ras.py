"""NCCL's RAS service of our own ranks (NCCL 2.24 and newer): which rank of which communicator stands out.

One rank a node listens at NCCL_RAS_ADDR, ``localhost:28028`` by default, and answers for the whole job, also while its
collectives hang. Lines over TCP, as ``ncclras -v`` sends them (NCCL's src/ras/client.cc): ``CLIENT PROTOCOL 2``,
``TIMEOUT 2``, ``VERBOSE STATUS``; the answer ends with the connection. It is asked only where one of our ranks listens:
the port of another job on this node, or of anybody, says nothing of this run.
"""

import contextlib
import socket
import time
from collections.abc import Sequence
from pathlib import Path

from raybench.processes.listener import listening_inodes

DEFAULT_ADDRESS = "localhost:28028"
_SECONDS = 3.0
_QUESTION = b"CLIENT PROTOCOL 2\nTIMEOUT 2\nVERBOSE STATUS\n"
_LONGEST_BYTES = 2**18


def ras_report(pids: Sequence[int], address: str) -> tuple[int, str] | None:
    """The process that answers, and its answer; None where no process of ``pids`` listens, or none answers in time."""
    host, _, port = address.rpartition(":")
    if not port.isdecimal() or (pid := _listener(pids, int(port))) is None:
        return None
    text = _asked(host.strip("[]") or "localhost", int(port)).decode("utf-8", "replace")
    return (pid, text) if text else None


def _listener(pids: Sequence[int], port: int) -> int | None:
    wanted = {f"socket:[{inode}]" for inode in listening_inodes(port)}
    return next((pid for pid in pids if wanted & _open_files(pid)), None) if wanted else None


def _open_files(pid: int) -> set[str]:
    found = set()
    with contextlib.suppress(OSError):
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                found.add(str(link.readlink()))
    return found


def _asked(host: str, port: int) -> bytes:
    deadline, answer = time.monotonic() + _SECONDS, b""
    with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=_SECONDS) as connection:
        connection.sendall(_QUESTION)
        while (left := deadline - time.monotonic()) > 0 and len(answer) < _LONGEST_BYTES:
            connection.settimeout(left)
            piece = connection.recv(65536)
            if not piece:
                break
            answer += piece
    return answer[:_LONGEST_BYTES]
