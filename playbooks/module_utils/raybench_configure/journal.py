"""The journal: what the host was before raybench changed it, kept on the host itself.

One file an entry, under a folder that only root may enter, forced to disk before the change that it is about.
The first state of a setting is never overwritten; what was written last is, so that edits made since can be determined.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .errors import JournalError
from .host import Host
from .resources.file import sync_folder
from .resources.resource import Resource, State

FOLDER = "/var/lib/raybench/configure"
_SCHEMA = "raybench.configure-journal/1"
LOCK = "/run/raybench-configure.lock"
LOCK_SECONDS = 60.0
BUSY = "another raybench configure runs on this host: nothing changed"


@dataclass
class JournalEntry:
    """One setting: its first state, what raybench wrote last, and the folders that were made for it."""

    sequence: int
    item: str
    kind: str
    target: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    folders_made: list[str] = field(default_factory=list)
    written_at: float = 0.0


class Journal:
    """The entries of a host. Nothing is made on disk before the first one is written."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.folder = host.path(FOLDER)
        self._refuse_foreign_files()
        self.entries = self._load()

    def record(self, item: str, resource: Resource, before: State, after: State, folders: list[str]) -> JournalEntry:
        """Note what is about to be written. Raises JournalError, upon which nothing may be written."""
        entry = self.find(resource)
        if entry is None:
            number = max((each.sequence for each in self.entries), default=0) + 1
            entry = JournalEntry(number, item, resource.kind, resource.target, before, after, folders)
            self.entries.append(entry)
        entry.after, entry.written_at = after, time.time()
        self.save(entry)
        return entry

    def find(self, resource: Resource) -> JournalEntry | None:
        """The entry about a resource."""
        wanted = (resource.kind, resource.target)
        return next((each for each in self.entries if (each.kind, each.target) == wanted), None)

    def save(self, entry: JournalEntry) -> None:
        """Write an entry so that it survives a power cut."""
        try:
            self._make_folder()
            path = self._path(entry)
            temporary = path.with_suffix(".new")
            with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as stream:
                json.dump({"schema": _SCHEMA, **asdict(entry)}, stream, indent=1, sort_keys=True)
                stream.flush()
                os.fsync(stream.fileno())
            temporary.replace(path)
            sync_folder(self.folder)
        except OSError as error:
            raise JournalError(f"the journal {FOLDER} cannot be written ({error.strerror}): nothing changed") from None

    def drop(self, entry: JournalEntry) -> None:
        """Forget an entry whose first state is back, and the journal itself with its last entry."""
        self.entries.remove(entry)
        with contextlib.suppress(OSError):
            self._path(entry).unlink()
            for name in reversed(entry.folders_made):
                self.host.path(name).rmdir()
        if not self.entries:
            self._remove_folder()

    def _path(self, entry: JournalEntry) -> Path:
        return self.folder / f"{entry.sequence:06d}.json"

    def _load(self) -> list[JournalEntry]:
        entries = []
        for path in sorted(self.folder.glob("[0-9]*.json")):
            try:
                content = json.loads(path.read_text())
                if content.pop("schema") != _SCHEMA:
                    raise JournalError(f"{path} was written by another version of raybench; roll back with that one")
                entries.append(JournalEntry(**content))
            except (OSError, ValueError, TypeError, KeyError) as error:
                if isinstance(error, JournalError):
                    raise
                raise JournalError(f"{path} cannot be read ({error}): nothing changed; look at it by hand") from None
        return entries

    def _refuse_foreign_files(self) -> None:
        """Only folders of root, and no links, may hold what will be written back as root."""
        for path in (self.folder.parent, self.folder):
            with contextlib.suppress(FileNotFoundError):
                facts = path.lstat()
                if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid() or facts.st_mode & 0o022:
                    raise JournalError(f"{path} is not a folder that only root may write: nothing changed")

    def _make_folder(self) -> None:
        made = self.folder / "folders-made"
        if self.folder.is_dir():
            return
        outer = not self.folder.parent.exists()
        self.folder.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        self.folder.mkdir(mode=0o700)
        if outer:
            made.touch(mode=0o600)

    def _remove_folder(self) -> None:
        made = self.folder / "folders-made"
        with contextlib.suppress(OSError):
            outer = made.exists()
            made.unlink(missing_ok=True)
            self.folder.rmdir()
            if outer:
                self.folder.parent.rmdir()
