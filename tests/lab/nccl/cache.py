"""Where headers and built libraries are kept between runs: RAYBENCH_NCCL_BUILDS, else a folder of the user's cache.

What lies there is loaded and run, so the folder has to be the user's own and closed to writes of others. An entry is
made in a folder beside it and renamed when it is complete; a lock keeps two test processes from building it twice.
"""

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.lab.errors import LabUnavailableError

CACHE_VARIABLE = "RAYBENCH_NCCL_BUILDS"


def cache_folder() -> Path:
    """The folder, made where it is not there. Raises LabUnavailableError when others could write into it."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = Path(os.environ.get(CACHE_VARIABLE) or base / "raybench" / "nccl").absolute()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.stat()
    if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise LabUnavailableError(
            f"{folder} belongs to somebody else or others can write to it, and what lies there would be run: "
            f"chmod go-w it, or name another folder in {CACHE_VARIABLE}"
        )
    return folder


def cached(name: str, make: Callable[[Path], None]) -> Path:
    """The entry of that name; ``make`` is given an empty folder to fill where it is not there yet."""
    folder = cache_folder()
    entry = folder / name
    with (folder / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not entry.exists():
            beside = Path(tempfile.mkdtemp(prefix=f"{name}.", dir=folder))
            try:
                make(beside)
                beside.rename(entry)
            finally:
                shutil.rmtree(beside, ignore_errors=True)
    return entry
