"""Files of a host by pattern: over SFTP, or of this machine. No shell reads a path; patterns are matched here."""

import contextlib
import fnmatch
import glob
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Protocol

_MOST_DEPTH = 8
MOST_FILES = 5000
MOST_SEEN = 500_000  # files that match, of which the newest are kept


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderEntry:
    """A name in a folder, or what a path leads to. ``mode`` as in stat(2); times in seconds since the epoch."""

    name: str
    mode: int
    size_bytes: int
    modified_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteFile:
    """A regular file of a host, by its absolute path there."""

    path: str
    size_bytes: int
    modified_at: float


class Files(Protocol):
    """Where files are read. Each call raises OSError, or EOFError where the connection is gone."""

    def folder(self, path: str) -> Sequence[FolderEntry]:
        """What is in a folder; links as links."""

    def look(self, path: str) -> FolderEntry:
        """What a path leads to, links followed."""

    def open(self, path: str, offset: int, size: int) -> IO[bytes]:
        """A file for reading ``size`` bytes from an offset on."""


class LocalFiles:
    """Files of this machine."""

    def folder(self, path: str) -> Sequence[FolderEntry]:
        """What is in a folder."""
        found = []
        with os.scandir(path) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):  # it has gone since
                    found.append(_entry(entry.name, entry.stat(follow_symlinks=False)))
        return found

    def look(self, path: str) -> FolderEntry:
        """What a path leads to."""
        return _entry(os.path.basename(path), os.stat(path))  # noqa: PTH119, PTH116 - a path as the host has it

    def open(self, path: str, offset: int, size: int) -> IO[bytes]:  # noqa: ARG002 - what SFTP asks ahead for
        """A file from an offset on. A pipe that took the place of a file is not waited for."""
        file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb")
        file.seek(offset)
        return file


def _entry(name: str, found: os.stat_result) -> FolderEntry:
    return FolderEntry(name=name, mode=found.st_mode, size_bytes=found.st_size, modified_at=found.st_mtime)


def find(files: Files, patterns: Sequence[str], complain: Callable[[str], None]) -> list[RemoteFile]:
    """Regular files that the patterns name, each once, newest first; all files of a folder that one names.

    A part of a pattern may hold ``*``, ``?`` and ``[...]``. A link is followed where the pattern names it in full, and
    never where it is come upon: in a folder that others can write, it could lead an administrator's ssh to any file.
    What cannot be read is told to ``complain``; what is not there is not.
    """
    found: dict[str, RemoteFile] = {}
    for pattern in patterns:
        parts = [part for part in pattern.split("/") if part]
        for file in _matches(files, "/", parts, complain):
            found.setdefault(file.path, file)
            if len(found) >= MOST_SEEN:
                break
    if len(found) > MOST_FILES:
        complain(f"{len(found)} files match: the newest {MOST_FILES} are kept; name fewer with --path")
    return _newest_first(found)[:MOST_FILES]


def _newest_first(found: dict[str, RemoteFile]) -> list[RemoteFile]:
    return sorted(found.values(), key=lambda file: (-file.modified_at, file.path))


def _matches(files: Files, folder: str, parts: Sequence[str], complain: Callable[[str], None]) -> Iterator[RemoteFile]:
    fixed = 0
    while fixed < len(parts) and not glob.has_magic(parts[fixed]):
        fixed += 1
    base = _join(folder, *parts[:fixed])
    if fixed == len(parts):
        yield from _tree(files, base, complain, depth=0)
        return
    for entry in _listed(files, base, complain):
        if not _is_plain(entry) or not fnmatch.fnmatchcase(entry.name, parts[fixed]):
            continue
        if entry.name.startswith(".") and not parts[fixed].startswith("."):
            continue
        if stat.S_ISREG(entry.mode):
            if fixed + 1 == len(parts):
                yield _file(base, entry)
            continue
        yield from _matches(files, _join(base, entry.name), parts[fixed + 1 :], complain)


def _tree(files: Files, path: str, complain: Callable[[str], None], *, depth: int) -> Iterator[RemoteFile]:
    try:
        entry = files.look(path)
    except FileNotFoundError:
        return
    except (OSError, UnicodeDecodeError) as error:
        complain(f"{path}: {_reason(error)}")
        return
    if stat.S_ISREG(entry.mode):
        yield RemoteFile(path=path, size_bytes=entry.size_bytes, modified_at=entry.modified_at)
    elif stat.S_ISDIR(entry.mode) and depth < _MOST_DEPTH:
        for below in _listed(files, path, complain):
            if stat.S_ISREG(below.mode) and _is_plain(below):
                yield _file(path, below)
            elif _is_plain(below):
                yield from _tree(files, _join(path, below.name), complain, depth=depth + 1)


def _file(folder: str, entry: FolderEntry) -> RemoteFile:
    """A file as its folder lists it: to look at each would be a round trip a file."""
    return RemoteFile(path=_join(folder, entry.name), size_bytes=entry.size_bytes, modified_at=entry.modified_at)


def _is_plain(entry: FolderEntry) -> bool:
    """A file or folder under a name that can be one: no link, pipe or device, and no name that would lead elsewhere."""
    is_either = stat.S_ISREG(entry.mode) or stat.S_ISDIR(entry.mode)
    return is_either and entry.name not in {"", ".", ".."} and "/" not in entry.name


def _listed(files: Files, path: str, complain: Callable[[str], None]) -> list[FolderEntry]:
    try:
        return sorted(files.folder(path), key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except (OSError, UnicodeDecodeError) as error:
        complain(f"{path}: {_reason(error)}")
        return []


def _join(folder: str, *names: str) -> str:
    return "/".join([folder.rstrip("/"), *names])


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "it holds names that are not UTF-8"
    return str(getattr(error, "strerror", None) or error) or type(error).__name__
