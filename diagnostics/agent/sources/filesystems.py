"""Space of the file system that a folder is on. One source a folder: ``statvfs`` of a dead NFS server never returns."""

import os
from pathlib import Path

from diagnostics.agent.series import device_of
from diagnostics.agent.sources.base import Sample, SourceUnavailableError


class FileSystem:
    """The file system of one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self) -> Sample:
        """What is free to users, and the whole; of files too, where the file system has a number of them."""
        try:
            space = os.statvfs(self._folder)
        except OSError as error:
            raise SourceUnavailableError(f"{self._folder}: {error.strerror}") from error
        device = device_of(str(self._folder))
        values = {
            f"filesystem/{device}/free_bytes": space.f_bavail * space.f_frsize,
            f"filesystem/{device}/total_bytes": space.f_blocks * space.f_frsize,
        }
        if space.f_files:  # Btrfs, for one, makes them as they are needed
            values |= {
                f"filesystem/{device}/free_files": space.f_favail,
                f"filesystem/{device}/total_files": space.f_files,
            }
        return Sample(values=values)

    def close(self) -> None:
        """Nothing is open."""
