"""Which files a path means, and how they are opened: a folder is not trusted to hold what its names promise.

Below a folder only regular files are opened, never through a link, so that nobody who may write there chooses what else
is read: a link to a kernel file that waits for ever, a pipe, a device. What is named itself is opened as it is named.
"""

import contextlib
import glob
import os
import re
import select
import stat
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from diagnostics.errors import UnreadableInputError

STANDARD_INPUT = "-"
DUMP_MARK = "nccl_trace_rank"
MAX_FILES = 100_000
MIN_SPARSE_BYTES = 2**28
MAX_SPARSENESS = 2000  # bytes named over bytes on disk; a file system that compresses stays far below
_SKIPPED_SUFFIXES = {".py", ".pyc", ".so", ".json", ".html", ".png", ".xml", ".csv", ".sqlite", ".nsys-rep"}
_JSON_HEAD_BYTES = 4096
DUMP_KEYS = re.compile(rb'"collective_seq_id"|"pg_config"')  # of PyTorch's flight recorder
# Of NCCL's observers, and the error file of torchrun.
_OBSERVERS = re.compile(
    rb'"coll_perf"|"p2p_perf"|"communicators_count"|"PEER_DEAD"|"py_callstack"|' + DUMP_KEYS.pattern
)
_SAFELY = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOCTTY", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_FOLDER = getattr(os, "O_DIRECTORY", 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """One file to read. ``folder`` is the folder that was named, where the file was found below one."""

    name: str
    folder: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """Every file that paths mean, once, in a stable order, and what was left out of their folders."""

    files: tuple[Input, ...]
    notes: tuple[str, ...] = ()


def find_inputs(paths: Sequence[str | Path]) -> Inputs:
    """The files of paths, folders and globs. Raises UnreadableInputError where a path means none."""
    found: dict[str, Input] = {}
    notes: list[str] = []
    for path in paths:
        for one in _expand(str(path), notes):
            found.setdefault(one.name if one.name == STANDARD_INPUT else os.path.realpath(one.name), one)
            if len(found) > MAX_FILES:
                raise UnreadableInputError(f"'{path}': more than {MAX_FILES:,} files; name those of one job")
    return Inputs(files=tuple(found.values()), notes=tuple(notes))


def _expand(path: str, notes: list[str]) -> list[Input]:
    if path == STANDARD_INPUT:
        return [Input(name=path)]
    if Path(path).is_dir():
        return _of_folder(path, notes)
    if os.path.lexists(path):
        return [Input(name=path)]
    before = len(notes)
    found = _of_pattern(path, notes)
    if not found:
        omitted = f" ({notes.pop()})" if len(notes) > before else ""
        raise UnreadableInputError(f"'{path}' does not exist and matches no file{omitted}; check the path")
    return found


def _of_pattern(pattern: str, notes: list[str]) -> list[Input]:
    """What a glob matches below the folder that it names: as below a folder, nothing that a link out of it leads to."""
    folder, wanted = _divided(pattern)
    root = os.path.realpath(folder)
    found: list[Input] = []
    outside: list[str] = []
    broken: list[str] = []
    for name in sorted(map(str, _matches(Path(folder), wanted))):
        target = os.path.realpath(name)
        if not Path(target).is_relative_to(root):
            (outside if Path(target).exists() else broken).append(name)
        elif stat.S_ISREG(_mode(target)):
            found.append(
                Input(name=target, folder=root) if _has_links(folder, name) else Input(name=name, folder=folder)
            )
        elif "**" not in pattern and Path(target).is_dir():
            found += _files_below(name, notes)
        elif not Path(target).exists():
            broken.append(name)
    notes += [_left_out(outside)] if outside else []
    notes += [_leads_nowhere(broken)] if broken else []
    return found


def _divided(pattern: str) -> tuple[str, tuple[str, ...]]:
    """The folder that a glob names before its first wildcard (the working folder where it names none), and the rest."""
    named = Path(pattern).parts
    plain = next(index for index, part in enumerate(named) if glob.has_magic(part) or index == len(named) - 1)
    return str(Path(*named[:plain])), named[plain:]


def _matches(folder: Path, wanted: tuple[str, ...]) -> Iterator[Path]:
    """As ``glob.glob`` does, but ``**`` goes through no link, which may lead to the root of the file system."""
    hidden = any(part.startswith(".") for part in wanted)
    below = (*wanted, "*") if wanted[-1] == "**" else wanted  # else folders only
    with contextlib.suppress(OSError):
        for path in folder.glob(str(Path(*below))):
            if hidden or not any(part.startswith(".") for part in path.relative_to(folder).parts):
                yield path


def _has_links(folder: str, name: str) -> bool:
    """Whether a link is on the way from the folder to the file."""
    steps = Path(name).relative_to(folder).parts
    return any(Path(folder, *steps[:count]).is_symlink() for count in range(1, len(steps) + 1))


def _of_folder(path: str, notes: list[str]) -> list[Input]:
    before = len(notes)
    files = _files_below(path, notes)
    if not files:
        omitted = f" ({notes.pop()})" if len(notes) > before else ""
        raise UnreadableInputError(f"'{path}' holds no log file{omitted}; name a folder or file with NCCL output")
    return files


def _files_below(folder: str, notes: list[str]) -> list[Input]:
    """Regular files below a folder that may be logs or dumps, links not followed; a note on those that lead out."""
    names: list[str] = []
    outside: list[str] = []
    broken: list[str] = []
    root = os.path.realpath(folder)
    for path, folders, files in os.walk(folder):
        folders.sort()
        for name in (*files, *(name for name in folders if Path(path, name).is_symlink())):
            file = str(Path(path, name))
            skipped = Path(name).suffix in _SKIPPED_SUFFIXES and DUMP_MARK not in name
            if name.startswith(".") or (skipped and Path(name).suffix != ".json"):
                continue
            mode = _mode(file)
            if skipped and not (stat.S_ISREG(mode) and holds(Input(name=file, folder=folder), _OBSERVERS)):
                continue
            if stat.S_ISREG(mode):
                names.append(file)
            elif stat.S_ISLNK(mode) and not Path(file).exists():
                broken.append(file)
            elif stat.S_ISLNK(mode) and _leads_out(file, root):
                outside.append(file)
        if len(names) > MAX_FILES:
            break
    notes += [_left_out(outside)] if outside else []
    notes += [_leads_nowhere(broken)] if broken else []
    return [Input(name=name, folder=folder) for name in sorted(names)]


def holds(file: Input, signs: re.Pattern[bytes]) -> bool:
    """Whether the head of a regular file holds what is looked for; one that cannot be read does not."""
    try:
        number = os.open(file.name, _SAFELY | (_NO_LINK if file.folder is not None else 0))
        with os.fdopen(number, "rb") as opened:
            return stat.S_ISREG(os.fstat(number).st_mode) and signs.search(opened.read(_JSON_HEAD_BYTES)) is not None
    except OSError:
        return False


def _left_out(links: Sequence[str]) -> str:
    more = f" and {len(links) - 1} more" if len(links) > 1 else ""
    return f"{links[0]}{more}: left out, a link that leads out of the folder; name its target to read it"


def _leads_nowhere(links: Sequence[str]) -> str:
    more = f" and {len(links) - 1} more" if len(links) > 1 else ""
    return f"{links[0]}{more}: a link to a file that is not there"


def _mode(file: str) -> int:
    try:
        return os.lstat(file).st_mode
    except OSError:
        return 0  # removed meanwhile


def _leads_out(link: str, root: str) -> bool:
    """Whether a link leads to a file or folder that is not below the root; what is, is found without it."""
    target = os.path.realpath(link)
    return Path(target).exists() and not Path(target).is_relative_to(root)


def open_input(one: Input, offset: int = 0) -> IO[bytes]:
    """The open file, from a byte on. Raises UnreadableInputError; OSError where the system refuses."""
    if one.name == STANDARD_INPUT:
        if sys.stdin is None:
            raise UnreadableInputError("standard input is closed; name a file, or feed it through a pipe")
        return sys.stdin.buffer
    number = os.open(one.name, _SAFELY) if one.folder is None else _open_below(one.folder, one.name)
    try:
        status = _checked(number, one)
    except BaseException:
        os.close(number)
        raise
    if stat.S_ISFIFO(status.st_mode):  # named by the user: its writer is waited for, and never left without a reader
        poll = select.poll()
        poll.register(number, select.POLLIN)
        poll.poll()
    if not stat.S_ISREG(status.st_mode):
        os.set_blocking(number, True)
    opened = os.fdopen(number, "rb")
    if offset:
        opened.seek(offset)
    return opened if one.folder is None else cast("IO[bytes]", _AsItWas(opened, max(status.st_size - offset, 0)))


def input_size(one: Input) -> int:
    """The size of a file in bytes. Raises OSError."""
    return _status(one).st_size


def input_identity(one: Input) -> tuple[int, int]:
    """Which file has the name now: device and inode. Raises OSError."""
    status = _status(one)
    return status.st_dev, status.st_ino


def _status(one: Input) -> os.stat_result:
    return os.stat(one.name, follow_symlinks=one.folder is None)  # noqa: PTH116 - the path is a name already


class _AsItWas:
    """A file to the size that it had when it was opened: one that grows is not read for ever, one of /proc is empty."""

    def __init__(self, opened: IO[bytes], size: int) -> None:
        self._opened, self._left = opened, size

    def read(self, size: int = -1, /) -> bytes:
        part = self._opened.read(self._left if size < 0 else min(size, self._left)) or b""
        self._left -= len(part)
        return part

    def close(self) -> None:
        self._opened.close()


def _open_below(folder: str, name: str) -> int:
    """Open a file below a folder step by step, through no link: any part may have been exchanged meanwhile."""
    parts = Path(name).relative_to(folder).parts
    if os.open not in os.supports_dir_fd:
        return os.open(name, _SAFELY | _NO_LINK)
    here = os.open(folder, os.O_RDONLY | _FOLDER)
    try:
        for part in parts[:-1]:
            below = os.open(part, os.O_RDONLY | _FOLDER | _NO_LINK, dir_fd=here)
            os.close(here)
            here = below
        return os.open(parts[-1], _SAFELY | _NO_LINK, dir_fd=here)
    finally:
        os.close(here)


def _checked(number: int, one: Input) -> os.stat_result:
    status = os.fstat(number)
    if stat.S_ISREG(status.st_mode):
        stored = max(getattr(status, "st_blocks", status.st_size // 512 + 1) * 512, 4096)
        if status.st_size > MIN_SPARSE_BYTES and status.st_size > MAX_SPARSENESS * stored:
            raise UnreadableInputError(
                f"cannot read '{one.name}': it claims {status.st_size:,} bytes and stores {stored:,}; it is not a log"
            )
    elif one.folder is not None or _is_endless(number, status.st_mode) or stat.S_ISDIR(status.st_mode):
        raise UnreadableInputError(
            f"cannot read '{one.name}': it is not a regular file; name a log or a folder of logs"
        )
    return status


def _is_endless(number: int, mode: int) -> bool:
    """Whether it is a device, and no terminal: /dev/zero has no end, and a disk is not a log."""
    return stat.S_ISBLK(mode) or (stat.S_ISCHR(mode) and not os.isatty(number))
