"""A rank host that the driver starts before all else, for the node that it runs on.

Importing torch is half of a cold start, and a node actor can begin with it only once Ray has placed it. So the driver
begins at once. The nodes of an embedded cluster all use that process; of a cluster that is joined, the node actor of
the driver's machine takes it over if ranks forked from it are the same in every respect as ranks of a process of the
node actor's own (see ``process_compatibility``). Otherwise the process is not used.
"""

import contextlib
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from raybench.execution.ranks.process_compatibility import difference
from raybench.execution.ranks.rank_host_process import LOG, end_rank_host, short_folder, start_rank_host


@dataclass(frozen=True, slots=True, kw_only=True)
class PrestartedRankHost:
    """Where the process listens, and its process id."""

    socket: str
    pid: int

    def is_ours_to_use(self) -> bool:
        """Asked by a node actor: whether this is a rank host on its machine, as it would start one itself."""
        try:
            command = Path(f"/proc/{self.pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            return False
        return self.socket.encode() in command and difference(self.pid) is None


@contextlib.contextmanager
def prestarted_rank_host(folder: Path) -> Iterator[PrestartedRankHost]:
    """Have a rank host import torch within the block; at its end the process and all that it holds are ended.

    ``folder`` has a short path; the rank host removes it where we are killed.
    """
    path = folder / "ranks"
    host = start_rank_host(str(path), folder / LOG)
    try:
        yield PrestartedRankHost(socket=str(path), pid=host.pid)
    finally:
        end_rank_host(host)


@contextlib.contextmanager
def workplace() -> Iterator[Path]:
    """A new private folder for the sockets and files of a run, with a short path, removed at the end."""
    folder = short_folder()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
