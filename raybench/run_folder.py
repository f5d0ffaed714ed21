"""The folder of one run: a journal of raw samples while it measures, the result at its end, reserved space for it."""

import contextlib
import errno
import os
import secrets
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import msgspec

from raybench.documents.live_run import FILE as LIVE
from raybench.errors import UsageError
from raybench.whole_file import sync_folder, write_whole

_RESERVE_BYTES = 8 * 2**20
_MOST_WARNINGS = 10_000
_LIVE_PARTIAL = f".{LIVE}.partial"


def new_run_id() -> str:
    """A name that sorts by time and is not used twice: ``20261121-014502-3f9a``."""
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(2)}"


def make_output_folder(folder: Path) -> Path:
    """Make a folder for what a command writes, and return it absolute. Raises UsageError where it cannot be made."""
    try:
        folder.mkdir(parents=True)
    except (OSError, ValueError) as error:  # ValueError: a NUL character
        reason = getattr(error, "strerror", None) or error
        raise UsageError(
            f"the output folder {folder} cannot be made: {reason}; choose another with --output-dir"
        ) from error
    return folder.absolute()


def _make_folders(path: Path) -> Iterator[Path]:
    """Make a folder and what is missing above it, each yielded once it is there. Raises OSError when one cannot be."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    if not missing or path.parent not in missing:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path.parent))
    for folder in reversed(missing):
        try:
            folder.mkdir()
        except FileExistsError:  # another run that began at the same time made what is above ours
            if folder in (path, path.parent):
                raise
        else:
            yield folder


def _reserved(path: Path) -> IO[bytes]:
    """An open file that reserves disk space and has no name: a run that is killed gives it free."""
    file = path.open("xb")
    try:
        path.unlink()
        os.posix_fallocate(file.fileno(), 0, _RESERVE_BYTES)
    except OSError:
        file.close()
        raise
    return file


def _write_private(path: Path, content: bytes) -> None:
    """A log may hold whatever a rank was told: nobody else reads it."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


def _remove_folder(path: Path) -> None:
    with contextlib.suppress(OSError):  # somebody else put something there
        path.rmdir()


def check_output_dir(output_dir: str) -> None:
    """Whether a run could make its folder there: it is made and removed. Raises UsageError where it could not."""
    path = Path(output_dir)
    run = path / new_run_id()
    try:
        with _folders_for_now(run / "logs"):
            _reserved(run / ".reserve").close()
    except (OSError, ValueError) as error:
        raise _unwritable(path, error) from error


def check_can_be_folder(path: Path) -> None:
    """Whether a folder is there that can be written to, or could be made. Raises OSError where it could not.

    It is tried: what the permissions say is not all, as on a read-only or full file system, in /proc, for a long name.
    """
    with _folders_for_now(path), tempfile.TemporaryFile(dir=path):
        pass


@contextlib.contextmanager
def _folders_for_now(path: Path) -> Iterator[None]:
    """A folder and what is missing above it, removed again. Raises OSError when one cannot be made."""
    with contextlib.ExitStack() as undo:
        for folder in reversed([one for one in (path, *path.parents) if not one.exists()]):
            folder.mkdir()
            undo.callback(_remove_folder, folder)
        yield


def _unwritable(path: Path, error: OSError | ValueError) -> UsageError:
    reason = getattr(error, "strerror", None) or error
    return UsageError(f"the output folder {path} cannot be written: {reason}; choose another with --output-dir")


class RunFolder:
    """``OUTPUT_DIR/RUN_ID``. Some megabytes are held free, so that a disk that fills up still takes the result."""

    def __init__(self, output_dir: str, run_id: str) -> None:
        """Make the folder. Raises UsageError when it cannot be made or written."""
        self.path = Path(output_dir, run_id)
        self.problems: list[str] = []  # something of the run is missing here
        self.notes: list[str] = []
        self._warnings = 0
        with contextlib.ExitStack() as undo:
            try:
                for made in _make_folders(self.path / "logs"):
                    undo.callback(_remove_folder, made)
                    sync_folder(made.parent)
                (self.path / "logs").chmod(0o700)
                self._reserve = _reserved(self.path / ".reserve")
                undo.callback(self._reserve.close)
                self._journal = (self.path / "samples.jsonl").open("ab", buffering=0)
            except (OSError, ValueError) as error:  # ValueError: a NUL in the name
                raise _unwritable(self.path, error) from error
            undo.pop_all()

    def record(self, entry: Mapping[str, Any]) -> None:
        """Append one point of raw samples to ``samples.jsonl``."""
        self.append(msgspec.json.encode(entry))

    def append(self, line: bytes) -> None:
        """The same for a point that is encoded. A full disk is noted once and loses nothing else."""
        try:
            before = os.fstat(self._journal.fileno()).st_size
            self._append(line + b"\n", before)
        except OSError as error:
            note = f"samples.jsonl could not be written ({error.strerror}); its samples are in result.json"
            if note not in self.problems:
                self.problems.append(note)

    def warn(self, line: bytes) -> None:
        """Append a warning of the run that goes on to ``warnings.jsonl``, as many as a person may want to read."""
        if self._warnings >= _MOST_WARNINGS:
            return
        self._warnings += 1
        with contextlib.suppress(OSError), (self.path / "warnings.jsonl").open("ab") as file:  # it is shown, too
            file.write(line + b"\n")

    def write_state(self, content: bytes) -> None:
        """Put ``live.json`` in place of the one before. Nothing of the result depends on it."""
        partial = self.path / _LIVE_PARTIAL
        with contextlib.suppress(OSError):
            partial.write_bytes(content)
            partial.replace(self.path / LIVE)

    def _append(self, line: bytes, before: int) -> None:
        """Write a line whole or not at all: half a line would spoil the next one."""
        written = 0
        try:
            while written < len(line):
                written += self._journal.write(line[written:])
        except OSError:
            os.ftruncate(self._journal.fileno(), before)
            raise

    def write_logs(self, logs: Mapping[str, bytes]) -> None:
        """Write files to ``logs/``; names are of our own making. What does not fit is noted."""
        for name, content in logs.items():
            try:
                _write_private(self.path / "logs" / Path(name).name, content)
            except OSError as error:
                self.problems.append(f"logs/{name} could not be written ({error.strerror})")

    def write_json(self, name: str, content: Mapping[str, Any]) -> None:
        """Write a JSON file whole or not at all. Raises OSError when there is no space even in the reserve."""
        data = msgspec.json.encode(content)
        try:
            write_whole(self.path / name, data)
        except OSError:
            self.release()
            write_whole(self.path / name, data)

    @property
    def has_samples(self) -> bool:
        """Whether anything was measured that is kept."""
        try:
            return (self.path / "samples.jsonl").stat().st_size > 0
        except OSError:
            return False

    def discard(self) -> None:
        """Remove the folder of a run that measured nothing, if nothing but our own files is in it."""
        self.close()
        with contextlib.suppress(OSError):
            for name in ("samples.jsonl", "warnings.jsonl"):
                (self.path / name).unlink(missing_ok=True)
            (self.path / "logs").rmdir()
            self.path.rmdir()

    def release(self) -> None:
        """Give the reserved space free."""
        with contextlib.suppress(OSError):
            self._reserve.close()

    def close(self) -> None:
        """Close the journal, once it is on the disk, and give the reserve free. The run goes on no more."""
        with contextlib.suppress(OSError):
            (self.path / LIVE).unlink(missing_ok=True)
            (self.path / _LIVE_PARTIAL).unlink(missing_ok=True)  # of a disk that was full
        with contextlib.suppress(OSError, ValueError):  # ValueError: it is closed already
            os.fsync(self._journal.fileno())
        with contextlib.suppress(OSError):
            self._journal.close()
        self.release()
