"""Files of a host over SFTP."""

import contextlib
import stat
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import IO, TYPE_CHECKING, cast

from raybench.hosts.remote_files import FolderEntry
from raybench.hosts.ssh import SILENCE_SECONDS, SshError

if TYPE_CHECKING:
    import paramiko

_REQUESTS_AHEAD = 32  # of 32 KiB each, in flight per file


class SftpFiles:
    """Files of the host at the other end of a connection. Every answer is waited for 30 s at most."""

    def __init__(self, client: "paramiko.SSHClient") -> None:
        """Open the channel. Raises SshError where the host has no SFTP."""
        import paramiko

        try:
            self._sftp = client.open_sftp()
        except (paramiko.SSHException, OSError, EOFError) as error:
            raise SshError(f"it offers no SFTP: {error or type(error).__name__}", cut=True) from error
        channel = self._sftp.get_channel()
        if channel is not None:
            channel.settimeout(SILENCE_SECONDS)

    def folder(self, path: str) -> Sequence[FolderEntry]:
        """What is in a folder; links as links."""
        with _as_end():
            return [_entry(one.filename, one) for one in self._sftp.listdir_attr(path)]

    def look(self, path: str) -> FolderEntry:
        """What a path leads to, links followed."""
        with _as_end():
            return _entry(PurePosixPath(path).name, self._sftp.stat(path))

    def open(self, path: str, offset: int, size: int) -> IO[bytes]:
        """A file for reading ``size`` bytes from an offset on, asked for ahead."""
        with _as_end():
            file = self._sftp.open(path, "rb")
            file.seek(offset)
            file.prefetch(offset + size, max_concurrent_requests=_REQUESTS_AHEAD)
        return cast(IO[bytes], _SftpFile(file))


class _SftpFile:
    """An open file of which the end of the connection is the EOFError of every other."""

    def __init__(self, file: "paramiko.SFTPFile") -> None:
        self._file = file

    def read(self, size: int) -> bytes:
        with _as_end():
            return self._file.read(size)

    def close(self) -> None:
        with contextlib.suppress(OSError, EOFError), _as_end():  # it may be gone, and nothing was written
            self._file.close()


@contextlib.contextmanager
def _as_end() -> Iterator[None]:
    import paramiko

    try:
        yield
    except paramiko.SSHException as error:
        raise EOFError(str(error)) from error


def _entry(name: str, found: "paramiko.SFTPAttributes") -> FolderEntry:
    """A server may leave anything out: what has no mode is not a regular file, and is not read."""
    return FolderEntry(
        name=name,
        mode=found.st_mode or stat.S_IFSOCK,
        size_bytes=max(found.st_size or 0, 0),
        modified_at=float(found.st_mtime or 0),
    )
