"""Writing a file whole or not at all, and so that it is still there, whole, after the power went."""

import contextlib
import errno
import os
import secrets
import stat
from pathlib import Path

_MOST_LINKS = 40  # as the kernel, path_resolution(7)
_NO_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS)  # of a folder: some network file systems have no such thing


def write_whole(path: Path, content: bytes | str, *, private: bool = False) -> None:
    """Put ``content`` (text as UTF-8) into the place of whatever is at ``path``, all at once.

    It is written to a new file beside it, forced to disk, and renamed; then the folder is forced to disk. The file gets
    the permissions of the one in whose place it comes, else those that the umask leaves, and with ``private`` its
    owner's only. A link is followed, but none that somebody else put into a folder as /tmp; what is not a
    regular file (a terminal, a pipe) is written to. Raises OSError, with the old file as it was.
    """
    data = content.encode("utf-8", errors="replace") if isinstance(content, str) else content
    target = _followed(path)
    mode = _mode_of(target)
    if mode is not None and not stat.S_ISREG(mode):
        target.write_bytes(data)
        return
    partial = target.with_name(f".{target.name[:200]}.{secrets.token_hex(4)}.partial")
    try:
        _write(partial, data, 0o600 if private else 0o666, None if mode is None or private else stat.S_IMODE(mode))
        partial.replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        raise
    sync_folder(target.parent)


def _followed(path: Path) -> Path:
    """What a path names through its last links, each as the kernel follows it with fs.protected_symlinks set."""
    place = path
    for _ in range(_MOST_LINKS):
        try:
            link = place.lstat()
        except FileNotFoundError:
            return place
        if not stat.S_ISLNK(link.st_mode):
            return place
        folder = place.parent.stat()
        everybodys = folder.st_mode & stat.S_ISVTX and folder.st_mode & stat.S_IWOTH
        if everybodys and link.st_uid not in (os.geteuid(), folder.st_uid):
            raise PermissionError(errno.EACCES, "it is a link that somebody else made", str(place))
        place = place.parent / place.readlink()
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))


def _mode_of(path: Path) -> int | None:
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return None


def _write(path: Path, data: bytes, new_mode: int, kept_mode: int | None) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, new_mode)
    with os.fdopen(descriptor, "wb") as file:
        if kept_mode is not None:
            with contextlib.suppress(PermissionError):
                os.fchmod(file.fileno(), kept_mode)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(path: Path) -> None:
    """Make a rename last. Raises OSError, but not where the file system cannot do it."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise
    finally:
        os.close(folder)
