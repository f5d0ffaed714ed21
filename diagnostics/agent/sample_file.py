"""What an agent says, kept in a file of bounded size: the newest half of it beside the half before."""

import os
import time
from pathlib import Path
from typing import IO

from diagnostics.agent.messages import Clock, Message, Source, encode

_FLUSH_SECONDS = 5.0


class SampleFile:
    """JSON lines in ``path``; when it has half of ``max_bytes`` it becomes ``path.1`` and a new one is begun.

    Each begins with the last clock and the state of the sources, so that it can be read by itself. Raises OSError.
    """

    def __init__(self, path: Path, max_bytes: int) -> None:
        self._path, self._half = path, max_bytes // 2
        self._clock: Clock | None = None
        self._sources: dict[str, Source] = {}
        self._flushed = 0.0
        self._stream: IO[str] = path.open("a", encoding="utf-8")
        self._bytes = path.stat().st_size
        if self._bytes and not _ends_a_line(path):  # whoever wrote it was killed: its half line is not ours
            self._append("\n")

    def write(self, message: Message) -> None:
        """Append one message."""
        if isinstance(message, Clock):
            self._clock = message
        elif isinstance(message, Source):
            self._sources[message.name] = message
        line = encode(message) + "\n"
        if self._bytes and self._bytes + len(line) > self._half:
            self._begin_anew()
        self._append(line)

    def close(self) -> None:
        """Write what is still to be written."""
        self._stream.close()

    def _append(self, line: str) -> None:
        self._stream.write(line)
        self._bytes += len(line)  # JSON with escapes is ASCII
        if time.monotonic() - self._flushed >= _FLUSH_SECONDS:
            self._stream.flush()
            self._flushed = time.monotonic()

    def _begin_anew(self) -> None:
        self._stream.close()
        self._path.replace(self._path.with_name(self._path.name + ".1"))
        self._stream, self._bytes = self._path.open("a", encoding="utf-8"), 0
        if self._clock is not None:
            self._append(encode(self._clock) + "\n")
        for source in self._sources.values():
            self._append(encode(source) + "\n")


def _ends_a_line(path: Path) -> bool:
    with path.open("rb") as stream:
        stream.seek(-1, os.SEEK_END)
        return stream.read() == b"\n"
