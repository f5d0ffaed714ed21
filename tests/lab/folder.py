"""The folder of a lab on this machine: keys, logs, and what the nodes share. A lock on it says that its lab is alive.

It is the only thing of a lab that outlives a test process ended by SIGKILL, so the next lab removes it. The kernel
drops the lock with the process, which a pid written into a file would not tell: pids are used again.
"""

import fcntl
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

_PREFIX = "raybench-lab-"


@dataclass(frozen=True, slots=True, kw_only=True)
class LabFolder:
    """A locked folder. ``lock`` is the descriptor that holds the lock."""

    path: Path
    lock: int

    @property
    def shared(self) -> Path:
        """The folder that every node and this machine see at the same path, with each other's writes."""
        return self.path / "shared"

    def remove(self) -> None:
        """Delete the folder, then let go of the lock."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self.lock)


def make_folder() -> LabFolder:
    """Make and lock a folder for one lab, after removing those of labs that died."""
    parent = Path(tempfile.gettempdir())
    for left in parent.glob(f"{_PREFIX}*"):
        _reclaim(left)
    while True:
        path = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=parent))
        lock = _try_lock(path)
        if lock is not None and path.exists():
            break  # else another lab took the folder for a dead one before the lock was on it
    path.chmod(0o711)
    folder = LabFolder(path=path, lock=lock)
    folder.shared.mkdir()
    return folder


def _reclaim(path: Path) -> None:
    lock = _try_lock(path)
    if lock is not None:
        shutil.rmtree(path, ignore_errors=True)
        os.close(lock)


def _try_lock(path: Path) -> int | None:
    """A descriptor holding the folder's lock, or None where another process holds it or the folder is gone."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor
