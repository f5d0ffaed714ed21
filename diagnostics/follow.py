"""Growing logs: read what is new, diagnose again, report what was not reported yet."""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from diagnostics.engine import Reading
from diagnostics.errors import UnreadableInputError
from diagnostics.findings import Diagnosis, Finding
from diagnostics.flight_recorder import is_dump
from diagnostics.reader import CHUNK_BYTES, MAX_LINE_BYTES, Batch, list_inputs

POLL_SECONDS = 1.0


class Tail:
    """One growing file. A file that shrinks was replaced, and is read from its start."""

    def __init__(self, file: str) -> None:
        self.file = file
        self._offset, self._first, self._rest = 0, True, b""

    def read(self) -> Iterator[Batch]:
        """What was added since the last call, complete lines only."""
        try:
            size = Path(self.file).stat().st_size
            if size < self._offset:
                self._offset, self._first, self._rest = 0, True, b""
            with Path(self.file).open("rb") as stream:
                stream.seek(self._offset)
                while chunk := stream.read(CHUNK_BYTES):
                    self._offset += len(chunk)
                    yield from self._lines(chunk)
        except OSError:
            return  # removed or unreadable for the moment; it may come back

    def _lines(self, chunk: bytes) -> Iterator[Batch]:
        block, newline, rest = (self._rest + chunk).rpartition(b"\n")
        self._rest = rest[:MAX_LINE_BYTES]
        if newline:
            yield Batch(file=self.file, block=block, first=self._first)
            self._first = False


class Dumps:
    """Flight-recorder dumps that appear: each is read once, when it has stopped growing."""

    def __init__(self) -> None:
        self._sizes: dict[str, int] = {}
        self._read: set[str] = set()

    def finished(self, files: Sequence[str]) -> list[str]:
        """The dumps that have the size that they had at the last call, and were not given yet."""
        done = []
        for file in files:
            try:
                size = Path(file).stat().st_size
            except OSError:
                continue
            if file not in self._read and self._sizes.get(file) == size:
                self._read.add(file)
                done.append(file)
            self._sizes[file] = size
        return done


def follow(
    paths: Sequence[str | Path],
    report: Callable[[Diagnosis, Sequence[Finding]], None],
    *,
    wait: Callable[[float], None] = time.sleep,
    rounds: int | None = None,
) -> Diagnosis:
    """Report new findings as they appear, until interrupted (or for a number of rounds); gives the last diagnosis.

    New files of folders and globs are taken up, flight-recorder dumps when they are whole. ``report`` gets the
    diagnosis and the findings that are new in it. Raises UnreadableInputError when no path names a file at the start.
    """
    files = list_inputs(paths)
    tails: dict[str, Tail] = {}
    dumps = Dumps()
    reading, reported, done = Reading(), set[tuple[str, str]](), 0
    diagnosis = reading.diagnosis()
    try:
        while rounds is None or done < rounds:
            if _read_news(reading, files, tails, dumps) or not done:
                reading.flush()
                diagnosis = reading.diagnosis()
                new = [finding for finding in diagnosis.findings if (finding.rule, finding.severity) not in reported]
                reported.update((finding.rule, finding.severity) for finding in new)
                report(diagnosis, new)
            done += 1
            wait(POLL_SECONDS)
            files = _listed(paths) or files
    except KeyboardInterrupt:
        pass
    return diagnosis


def _read_news(reading: Reading, files: Sequence[str], tails: dict[str, Tail], dumps: Dumps) -> bool:
    """Read what was added; whether there was anything."""
    grown = False
    for file in files:
        if file not in tails and not is_dump(file):
            tails[file] = Tail(file)
    for batch in (batch for tail in tails.values() for batch in tail.read()):
        reading.feed(batch)
        grown = True
    for file in dumps.finished([file for file in files if is_dump(file)]):
        try:
            reading.read_file(file)
        except UnreadableInputError:
            continue  # removed meanwhile
        grown = True
    return grown


def _listed(paths: Sequence[str | Path]) -> list[str]:
    try:
        return list_inputs(paths)
    except UnreadableInputError:
        return []
