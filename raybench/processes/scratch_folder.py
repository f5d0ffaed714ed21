"""Temporary folders of a run or a playbook, and what is left of those whose owner was killed: swept by the next start.

The owner holds a lock on a file in its folder. The kernel lets go of it when the owner ends, however that happens, so a
folder whose lock can be had belongs to nobody any more, also where process ids were used again or are another
container's.
"""

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

PREFIX = "raybench-"
SHORT_PREFIX = "rb-"  # where every letter counts: ssh's sockets lie below it
_LOCK = ".owner"
_LEAST_AGE_SECONDS = 60.0  # a folder is there a moment before its lock

_held: list[int] = []  # descriptors of locks, for as long as this process lives


@contextlib.contextmanager
def passing_scratch_folder(base: str | None = None, prefix: str = PREFIX) -> Iterator[Path]:
    """A scratch folder that is removed at the end of the block."""
    folder = scratch_folder(base, prefix)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def scratch_folder(base: str | None = None, prefix: str = PREFIX) -> Path:
    """A new private folder that this process owns until it ends, below ``base`` or the temporary folder.

    What others of this user's processes left there, and do not own any more, is removed first. Raises OSError.
    """
    parent = Path(base or tempfile.gettempdir())
    sweep(parent)
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    _held.append(descriptor)
    return folder


def sweep(parent: Path) -> list[Path]:
    """Remove folders of this user that are older than a minute and whose owner has ended. Returns them.

    Folders without a lock file are left alone: nothing tells whose they are.
    """
    named = [path for prefix in (PREFIX, SHORT_PREFIX) for path in sorted(parent.glob(f"{prefix}*"))]
    found = [path for path in named if _is_left_over(path)]
    for path in found:
        shutil.rmtree(path, ignore_errors=True)
    return found


def _is_left_over(folder: Path) -> bool:
    with contextlib.suppress(OSError):
        status = folder.lstat()
        is_own = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
        if is_own and time.time() - status.st_mtime > _LEAST_AGE_SECONDS:
            descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            finally:
                os.close(descriptor)
            return True
    return False
