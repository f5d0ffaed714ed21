"""The folder of one run: a journal of raw samples while it measures, the result at the end, and room kept for it."""

import contextlib
import os
import secrets
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from raybench.errors import UsageError

_RESERVE_BYTES = 8 * 2**20


def new_run_id() -> str:
    """A name that sorts by time and is not used twice: ``20261121-014502-3f9a``."""
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(2)}"


class RunFolder:
    """``OUTPUT_DIR/RUN_ID``. Some megabytes are held free, so that a disk that fills up still takes the result."""

    def __init__(self, output_dir: str, run_id: str) -> None:
        """Make the folder. Raises UsageError when it cannot be made or written."""
        self.path = Path(output_dir, run_id)
        self.problems: list[str] = []  # something of the run is missing here
        self.notes: list[str] = []
        self._reserve = self.path / ".reserve"
        try:
            (self.path / "logs").mkdir(parents=True)
            with self._reserve.open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, _RESERVE_BYTES)
            self._journal = (self.path / "samples.jsonl").open("ab", buffering=0)
        except OSError as error:
            with contextlib.suppress(OSError):
                self._reserve.unlink(missing_ok=True)
            raise UsageError(
                f"the output folder {self.path} cannot be written: {error.strerror}; choose another with --output-dir"
            ) from error

    def record(self, entry: Mapping[str, Any]) -> None:
        """Append one line of raw samples to ``samples.jsonl``. A full disk is noted once and loses nothing else."""
        line = msgspec.json.encode(entry) + b"\n"
        try:
            before = os.fstat(self._journal.fileno()).st_size
            self._append(line, before)
        except OSError as error:
            note = f"samples.jsonl could not be written ({error.strerror}); its samples are in result.json"
            if note not in self.problems:
                self.problems.append(note)

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
                (self.path / "logs" / Path(name).name).write_bytes(content)
            except OSError as error:
                self.problems.append(f"logs/{name} could not be written ({error.strerror})")

    def write_json(self, name: str, content: Mapping[str, Any]) -> None:
        """Write a JSON file whole or not at all. Raises OSError when there is no room even in the reserve."""
        partial = self.path / f".{name}.partial"
        data = msgspec.json.encode(content)
        try:
            partial.write_bytes(data)
        except OSError:
            self.release()
            partial.write_bytes(data)
        partial.replace(self.path / name)

    def discard(self) -> None:
        """Remove the folder of a run that measured nothing, if nothing but our own files is in it."""
        self.close()
        with contextlib.suppress(OSError):
            (self.path / "samples.jsonl").unlink(missing_ok=True)
            (self.path / "logs").rmdir()
            self.path.rmdir()

    def release(self) -> None:
        """Give the reserved room free."""
        with contextlib.suppress(OSError):
            self._reserve.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the journal and give the reserve free."""
        with contextlib.suppress(OSError):
            self._journal.close()
        self.release()
