"""Fetching the files of one host: capped, resumed where an earlier connection was cut, and noted in a list."""

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from raybench.documents.collection import CollectedFile, CollectedHost, HostStatus
from raybench.hosts.collected_names import local_path
from raybench.hosts.remote_files import Files, RemoteFile, find
from raybench.hosts.ssh import SshError
from raybench.whole_file import write_whole

_CHUNK_BYTES = 2**18
_OVERLAP_BYTES = 2**15  # of what is here, compared before a file that grew is taken for the same
_SAVE_SECONDS = 1.0
LIST_NAME = "collected.json"


class StoppedError(Exception):
    """The collection was stopped, or is out of time."""


class Fetched(msgspec.Struct, frozen=True, kw_only=True):
    """A file as it was fetched: the ``left_out_bytes`` at its beginning are missing, its tail is kept.

    ``complete`` is false while bytes of the kept tail are missing too.
    """

    remote: str
    local: str
    size_bytes: int
    modified_at: float
    left_out_bytes: int = 0
    complete: bool = False


class HostReport(msgspec.Struct, kw_only=True):
    """What came of one host."""

    name: str
    status: HostStatus = "partial"
    files: list[Fetched] = msgspec.field(default_factory=list)
    fetched_bytes: int = 0
    resumed: int = 0
    problems: list[str] = msgspec.field(default_factory=list)
    notes: list[str] = msgspec.field(default_factory=list)
    facts: dict[str, Any] = msgspec.field(default_factory=dict)

    def collected(self) -> CollectedHost:
        """What came of it, as in the collection's report."""
        return CollectedHost(
            name=self.name,
            status=self.status,
            files=tuple(CollectedFile(**msgspec.structs.asdict(file)) for file in self.files),
            fetched_bytes=self.fetched_bytes,
            resumed=self.resumed,
            problems=tuple(self.problems),
            notes=tuple(self.notes),
            facts=self.facts,
        )

    def complain(self, text: str) -> None:
        """Note a problem, once, and at most a hundred."""
        if text not in self.problems and len(self.problems) < 100:
            self.problems.append(text)

    def fail(self, text: str) -> None:
        """Note what ended it here: whatever had been fetched by then, this host is not complete."""
        self.complain(text)
        self.status = "partial" if self.status == "complete" else self.status


@dataclass(kw_only=True)
class HostFolder:
    """``hosts/NAME`` of a run's folder, and the list of what is in it, kept from one connection to the next."""

    path: Path
    report: HostReport
    file_limit_bytes: int
    host_limit_bytes: int
    stopped: Callable[[], bool]
    deadline: float
    reached: bool = False
    _boot_id: str = ""
    _known: dict[str, Fetched] = field(default_factory=dict)
    _saved_at: float = 0.0

    def __post_init__(self) -> None:
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            earlier = msgspec.json.decode((self.path / LIST_NAME).read_bytes(), type=HostReport)
            self._known = {file.remote: file for file in earlier.files}

    def note_boot(self, boot_id: str) -> None:
        """Which boot this connection is to. Another one than before is a problem: files may have gone with it."""
        if boot_id and self._boot_id and boot_id != self._boot_id:
            self.report.complain(
                "it rebooted meanwhile: files in memory, as those below /tmp may be, are lost where they had not come"
            )
        self._boot_id = boot_id or self._boot_id

    def fetch_all(self, files: Files, patterns: Sequence[str]) -> None:
        """Fetch what the patterns name. Called again after a cut, it goes on where it was.

        Raises SshError on a cut, and StoppedError. What the disk of this machine refuses is an OSError.
        """
        with _cuts():
            wanted = find(files, patterns, self.report.complain)
        self.report.notes = []
        try:
            self._fetch_each(files, wanted)
        finally:
            self.save()

    def _fetch_each(self, files: Files, wanted: Sequence[RemoteFile]) -> None:
        room = self.host_limit_bytes
        for file in wanted:
            kept = min(file.size_bytes, self.file_limit_bytes, room)
            room -= kept
            if kept == 0 and file.size_bytes > 0:
                self.report.notes.append(f"{file.path}: left out, the files of this host exceed --host-limit")
                continue
            self._fetch(files, file, kept)

    def _fetch(self, files: Files, file: RemoteFile, kept: int) -> None:
        start = file.size_bytes - kept
        path = local_path(self.path / "files", file.path)
        before = self._known.get(file.path)
        noted = Fetched(
            remote=file.path,
            local=str(path.relative_to(self.path)),
            size_bytes=file.size_bytes,
            modified_at=file.modified_at,
            left_out_bytes=start,
        )
        gap = _gap(start)
        done = 0
        if before is not None and _is_same(before, noted):
            done = max(_size(path) - len(gap), 0)
            if before.complete and done == kept:
                return
        self._known[file.path] = noted
        self._save_now_and_then()
        try:
            if before is not None and done and before.modified_at != file.modified_at:
                done = done if self._is_beginning(files, file, path, gap, min(done, kept)) else 0
            self.report.resumed += done > 0
            self._copy(files, file, path, gap, start, min(done, kept))
        except (PermissionError, FileNotFoundError) as error:
            self._known.pop(file.path)
            self.report.complain(f"{file.path}: {error.strerror or error}")
            return
        self._known[file.path] = msgspec.structs.replace(noted, complete=True)

    def _is_beginning(self, files: Files, file: RemoteFile, path: Path, gap: bytes, done: int) -> bool:
        """Whether a file that is longer now still begins with what is here: it may be another under the same name."""
        size = min(done, _OVERLAP_BYTES)
        with path.open("rb") as here:
            here.seek(len(gap) + done - size)
            ours = here.read(size)
        with _cuts(), contextlib.closing(files.open(file.path, done - size, size)) as source:
            theirs = bytearray()
            while len(theirs) < size and (chunk := source.read(size - len(theirs))):
                theirs += chunk
        return bytes(theirs) == ours

    def _copy(self, files: Files, file: RemoteFile, path: Path, gap: bytes, start: int, done: int) -> None:
        left = file.size_bytes - start - done
        with contextlib.ExitStack() as stack:
            target = stack.enter_context(_local_file(self.path, path, gap, done))
            with _cuts():
                source = stack.enter_context(contextlib.closing(files.open(file.path, start + done, left)))
            while left > 0:
                self._check_time()
                with _cuts():
                    chunk = source.read(min(_CHUNK_BYTES, left))
                if not chunk:
                    self.report.complain(f"{file.path}: it became shorter while it was read")
                    return
                target.write(chunk)
                self.report.fetched_bytes += len(chunk)
                left -= len(chunk)

    def _check_time(self) -> None:
        if self.stopped():
            raise StoppedError("it was stopped")
        if time.monotonic() > self.deadline:
            raise StoppedError("it was out of time (--timeout)")

    def _save_now_and_then(self) -> None:
        """Once a second, so that thousands of small files do not write thousands of long lists."""
        if time.monotonic() - self._saved_at > _SAVE_SECONDS:
            self.save()

    def save(self) -> None:
        """Write the list of what is here."""
        self._saved_at = time.monotonic()
        self.report.files = sorted(self._known.values(), key=lambda one: one.remote)
        write_whole(self.path / LIST_NAME, msgspec.json.format(msgspec.json.encode(self.report), indent=2))


@contextlib.contextmanager
def _local_file(folder: Path, path: Path, gap: bytes, done: int) -> Any:
    """The local file, after ``done`` bytes that it holds already. Never one outside the folder, or behind a link."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not path.parent.resolve().is_relative_to(folder.resolve()):
        raise SshError(f"{path} would be outside {folder}; remove the link that is in the way")
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW
    with os.fdopen(os.open(path, flags, 0o600), "wb") as target:
        if done == 0:
            target.truncate(0)
            target.write(gap)
        else:
            target.truncate(len(gap) + done)
            target.seek(len(gap) + done)
        yield target


@contextlib.contextmanager
def _cuts() -> Any:
    """What paramiko raises when the connection goes, as SshError. Errors of a file are OSErrors of their own kinds."""
    try:
        yield
    except (PermissionError, FileNotFoundError, SshError, StoppedError):
        raise
    except (OSError, EOFError, AttributeError) as error:  # AttributeError: of a channel that is closed meanwhile
        raise SshError(f"the connection was cut: {error or type(error).__name__}", cut=True) from error


def _gap(omitted: int) -> bytes:
    if not omitted:
        return b""
    return f"[raybench: {omitted} bytes left out here, the file is longer than its limit]\n".encode()


def _is_same(before: Fetched, now: Fetched) -> bool:
    """Whether what was fetched of a file is still the beginning of what is kept of it now."""
    same = before.left_out_bytes == now.left_out_bytes and before.local == now.local
    grown = now.size_bytes > before.size_bytes and now.left_out_bytes == 0
    return same and (grown or (before.size_bytes, before.modified_at) == (now.size_bytes, now.modified_at))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
