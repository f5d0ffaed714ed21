"""Files: content, mode and owner, written as a whole or not at all."""

from __future__ import annotations

import base64
import contextlib
import os
import stat
import tempfile
from pathlib import Path, PurePosixPath
from typing import Any

from ..errors import HostError
from ..host import Host
from ..merge import take_back
from .resource import Resource, State

_LARGEST_BYTES = 1 << 20


class FileResource(Resource):
    """A regular file; a symbolic link is followed to what it names. State: content (base64), mode, uid, gid."""

    kind = "file"

    def read(self, host: Host) -> State:
        """The file, or None where it does not exist. Raises HostError on anything but a file of at most 1 MiB."""
        path = _real(host, self.target)
        try:
            facts = path.stat()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise HostError(f"{self.target}: {error.strerror}") from None
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > _LARGEST_BYTES:
            raise HostError(f"{self.target} is not a regular file of at most 1 MiB: left alone")
        try:
            content = path.read_bytes()
        except OSError as error:
            raise HostError(f"{self.target}: {error.strerror}") from None
        return file_state(content, mode=stat.S_IMODE(facts.st_mode), uid=facts.st_uid, gid=facts.st_gid)

    def write(self, host: Host, state: State) -> None:
        """Replace the file in one step, or remove it. Raises HostError."""
        path = _real(host, self.target)
        try:
            if state is None:
                path.unlink()
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                _replace(path, state)
        except OSError as error:
            raise HostError(f"{self.target} could not be written: {error.strerror}") from None

    def text(self, state: State) -> str:
        """The content; a file that others may not read is not shown."""
        if state is None:
            return ""
        if state["mode"] & 0o044 == 0 and state["content"]:
            return f"({len(content_of(state))} bytes, mode {state['mode']:04o}: not shown)\n"
        return content_of(state).decode("utf-8", "replace")

    def take_back(self, before: State, after: State, current: State) -> tuple[State, list[str]]:
        """Our lines out and others' kept; the file as a whole where nobody touched it."""
        if self.same(current, after):
            return before, []
        if current is None or after is None or _attributes(current) != _attributes(after):
            return current, [self.target]
        try:
            old, new, now = (content_of(each).decode() if each else "" for each in (before, after, current))
        except UnicodeDecodeError:
            return current, [self.target]
        merged = take_back(old, new, now)
        if merged is None:
            return current, [self.target]
        if not merged and before is None:
            return None, []
        return dict(before or current, content=base64.b64encode(merged.encode()).decode()), []


def file_state(content: bytes, *, mode: int = 0o644, uid: int = 0, gid: int = 0) -> dict[str, Any]:
    """The state of a file of that content."""
    return {"content": base64.b64encode(content).decode(), "mode": mode, "uid": uid, "gid": gid}


def content_of(state: dict[str, Any]) -> bytes:
    """The bytes of a file in that state."""
    return base64.b64decode(state["content"])


def folders_missing(host: Host, name: str) -> list[str]:
    """Folders that writing a file would have to make, outermost first, as the host names them."""
    missing = []
    for folder in map(str, PurePosixPath(name).parents):
        if host.exists(folder):
            break
        missing.append(folder)
    return missing[::-1]


def _attributes(state: dict[str, Any]) -> tuple[int, int, int]:
    return state["mode"], state["uid"], state["gid"]


def _real(host: Host, name: str) -> Path:
    return Path(os.path.realpath(host.path(name)))


def sync_folder(folder: Path) -> None:
    """Make what was renamed in a folder last through a power cut. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _replace(path: Path, state: dict[str, Any]) -> None:
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".raybench", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content_of(state))
            os.fchown(descriptor, state["uid"], state["gid"])
            os.fchmod(descriptor, state["mode"])
            _copy_attributes(path, temporary)
            stream.flush()
            os.fsync(descriptor)
        Path(temporary).replace(path)
        sync_folder(path.parent)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(temporary).unlink()
        raise


def _copy_attributes(path: Path, temporary: str) -> None:
    """Keep the SELinux label and access lists of the file that is replaced."""
    with contextlib.suppress(OSError):
        for name in os.listxattr(path):
            os.setxattr(temporary, name, os.getxattr(path, name))
