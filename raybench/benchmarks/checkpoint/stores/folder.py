"""A folder of a file system: local, NFS, Lustre."""

import contextlib
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from raybench.benchmarks.checkpoint.stores.store import StoreError

_FOLDER_ATTEMPTS = 50


def open_store(place: str, **_: object) -> "FolderStore":
    """The store of a path. The kernel has its own time limits."""
    return FolderStore(Path(place))


class FolderStore:
    """A folder of a file system that this rank sees. Files are synced to the disk, and dropped from the page cache."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.where = str(folder)

    def write(self, name: str, chunks: Iterable[bytes]) -> int:
        """See Store."""
        path = self._folder / name
        try:
            with _created(path) as file:
                for chunk in chunks:
                    file.write(chunk)
                file.flush()
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)  # else loading reads from memory
                written = file.tell()
            _sync_folder(path.parent)
        except OSError as error:
            raise StoreError(f"{path} cannot be written: {error.strerror or error}") from error
        return written

    def read(self, name: str, start: int = 0, length: int | None = None) -> bytes:
        """See Store."""
        path = self._folder / name
        try:
            with path.open("rb") as file:
                file.seek(start)
                left = max(os.fstat(file.fileno()).st_size - start, 0)  # what is asked for may be more than memory has
                return file.read(-1 if length is None else min(length, left))
        except OSError as error:
            raise StoreError(f"{path} cannot be read: {error.strerror or error}") from error

    def remove(self, name: str) -> None:
        """See Store."""
        path = self._folder / name
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
            path.parent.rmdir()  # only where it is empty


def _created(path: Path) -> BinaryIO:
    """A new file and its folder. Whoever removes the last file of the folder meanwhile takes the folder away."""
    for _ in range(_FOLDER_ATTEMPTS - 1):
        with contextlib.suppress(FileExistsError, FileNotFoundError):
            return _opened_in_its_folder(path)
        time.sleep(0.001)
    return _opened_in_its_folder(path)


def _opened_in_its_folder(path: Path) -> BinaryIO:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.open("wb", buffering=2**20)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
