"""Files that name a cluster: read only where nobody but this user and root can have written what they say.

A driver hands its token and its code to the cluster that it joins, and Ray unpickles what comes back. So a file that
names one is a program of whoever could write it: an ordinary user who puts ``ray_current_cluster`` below /tmp would
have root's ``raybench run`` join a cluster of his.
"""

import errno
import grp
import os
import pwd
import stat
from pathlib import Path

from raybench.errors import UsageError

_MOST_LINKS = 40  # as the kernel, path_resolution(7)
_LIMIT_BYTES = 64 * 2**10
_LARGEST_BYTES = 2**26


class UntrustedFileError(UsageError):
    """Somebody else can have written the file."""


def read_trusted(path: Path) -> bytes | None:
    """What is in a file; None where there is none.

    The file, its folder and every folder above must belong to this user or root, and others must not be able to write
    them; a folder with the sticky bit (/tmp) may be written by all, since nobody can put his own in the place of
    another's there. Each component is opened and looked at by itself, so that nothing can be exchanged in between.
    Raises UntrustedFileError saying what is whose, and OSError where the file cannot be read.
    """
    try:
        found = _walk(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        reopened = os.open(f"/proc/self/fd/{found}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    finally:
        os.close(found)
    with os.fdopen(reopened, "rb") as file:
        return file.read(_LIMIT_BYTES)


def read_own(path: Path) -> bytes:
    """What is in a file that is this user's or root's, and that others cannot write; its folder may be anybody's.

    Raises UntrustedFileError, and OSError where it cannot be read.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        _check(descriptor, path, is_file=True)
        return file.read(_LARGEST_BYTES)


def trusted_folder(path: Path) -> bool:
    """Whether nobody but this user and root can put anything in the place of a folder, or of what is in it."""
    try:
        os.close(_walk(path, is_file=False))
    except (UntrustedFileError, OSError):
        return False
    return True


def _walk(path: Path, *, is_file: bool = True) -> int:
    """A descriptor (O_PATH) of the file or folder, after every step to it was found to be trustworthy."""
    parts, place, links = list(path.absolute().parts[1:]), Path("/"), 0
    current = _opened("/", None)
    try:
        _check(current, place)
        while parts:
            name = parts.pop(0)
            following = _opened(name, current)
            if stat.S_ISLNK(os.fstat(following).st_mode):
                links += 1
                target = _target(following, place / name, links)
                os.close(following)
                parts = [*target.parts[target.is_absolute() :], *parts]
                name, following = ("/", _opened("/", None)) if target.is_absolute() else (".", os.dup(current))
            os.close(current)
            current, place = following, Path(os.path.normpath(place / name))
            _check(current, place, is_file=is_file and not parts)
    except BaseException:
        os.close(current)
        raise
    return current


def _opened(name: str, folder: int | None) -> int:
    return os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)


def _target(link: int, place: Path, links: int) -> Path:
    _read_owner(os.fstat(link), place)
    if links > _MOST_LINKS:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(place))
    return Path(os.readlink("", dir_fd=link))


def _check(descriptor: int, place: Path, *, is_file: bool = False) -> None:
    status = os.fstat(descriptor)
    _read_owner(status, place)
    if is_file and not stat.S_ISREG(status.st_mode):
        raise UntrustedFileError(f"{place} is not a regular file")
    by_group = status.st_mode & stat.S_IWGRP and (_has_acl(descriptor) or not _is_own_group(status.st_gid))
    shared = status.st_mode & stat.S_IWOTH or by_group
    if shared and (is_file or not status.st_mode & stat.S_ISVTX):
        what, mode = "file" if is_file else "folder", f"mode {status.st_mode & 0o7777:04o}"
        raise UntrustedFileError(f"the {what} {place} of {user_name(status.st_uid)} can be written by others ({mode})")


def _read_owner(status: os.stat_result, place: Path) -> None:
    if status.st_uid not in (0, os.geteuid()):
        raise UntrustedFileError(f"{place} belongs to {user_name(status.st_uid)}")


def _has_acl(descriptor: int) -> bool:
    """Whether an access list names others who may use it: the group's bits are then its mask, acl(5)."""
    try:
        return "system.posix_acl_access" in os.listxattr(f"/proc/self/fd/{descriptor}")
    except OSError as error:
        return error.errno != errno.ENOTSUP


def _is_own_group(gid: int) -> bool:
    """Whether a group is this user's alone, as many systems make one for each user, or root's."""
    try:
        group, user = grp.getgrgid(gid), pwd.getpwuid(os.geteuid())
    except KeyError:
        return False
    members = {*group.gr_mem, *(one.pw_name for one in pwd.getpwall() if one.pw_gid == gid)}
    return group.gr_name in (user.pw_name, "root") and members <= {user.pw_name, "root"}


def user_name(uid: int) -> str:
    """``alice (uid 1000)``."""
    try:
        return f"{pwd.getpwuid(uid).pw_name} (uid {uid})"
    except KeyError:
        return f"uid {uid}"
