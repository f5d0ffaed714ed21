"""Space of the file system that a folder is on. One source a folder: ``statvfs`` of a dead NFS server never returns."""

import os
from pathlib import Path

from diagnostics.agent.sources.base import Sample, SourceUnavailableError


class FileSystem:
    """The file system of one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self) -> Sample:
        """What is free to users, and the whole."""
        try:
            space = os.statvfs(self._folder)
        except OSError as error:
            raise SourceUnavailableError(f"{self._folder}: {error.strerror}") from error
        return Sample(
            values={
                f"filesystem/{self._folder}/free_bytes": space.f_bavail * space.f_frsize,
                f"filesystem/{self._folder}/total_bytes": space.f_blocks * space.f_frsize,
            }
        )

    def close(self) -> None:
        """Nothing is open."""
