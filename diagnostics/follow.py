"""Growing logs: read what is new, diagnose again, report what was not reported yet."""

import time
from codecs import IncrementalDecoder
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from diagnostics.engine import Reading
from diagnostics.errors import UnreadableInputError
from diagnostics.findings import Diagnosis, Finding
from diagnostics.flight_recorder import is_dump
from diagnostics.reader import CHUNK_BYTES, MAX_LINE_BYTES, Batch, is_packed, list_inputs, utf16_decoder

POLL_SECONDS = 1.0


class Tail:
    """One growing file. A file that shrinks was replaced, and is read from its start."""

    def __init__(self, file: str) -> None:
        self.file = file
        self._start()

    def _start(self) -> None:
        self._offset, self._first, self._rest = 0, True, b""
        self._decoder: IncrementalDecoder | None = None

    def read(self) -> Iterator[Batch]:
        """What was added since the last call, complete lines only."""
        try:
            size = Path(self.file).stat().st_size
            if size < self._offset:
                self._start()
            with Path(self.file).open("rb") as stream:
                stream.seek(self._offset)
                while chunk := stream.read(CHUNK_BYTES):
                    if not self._offset:
                        self._decoder = utf16_decoder(chunk)
                    self._offset += len(chunk)
                    yield from self._lines(self._decoder.decode(chunk).encode() if self._decoder else chunk)
        except OSError:
            return  # removed or unreadable for the moment; it may come back

    def _lines(self, chunk: bytes) -> Iterator[Batch]:
        block, newline, rest = (self._rest + chunk).rpartition(b"\n")
        self._rest = rest[:MAX_LINE_BYTES]
        if newline:
            yield Batch(file=self.file, block=block, first=self._first)
            self._first = False


class Wholes:
    """Flight-recorder dumps and archives that appear: each is read once, when it has stopped growing."""

    def __init__(self) -> None:
        self._sizes: dict[str, int] = {}
        self._read: set[str] = set()

    def finished(self, files: Sequence[str]) -> list[str]:
        """The files that have the size that they had at the last call, and were not given yet."""
        done = []
        for file in files:
            try:
                size = Path(file).stat().st_size
            except OSError:
                continue
            if size and file not in self._read and self._sizes.get(file) == size:
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

    New files of folders and globs are taken up, flight-recorder dumps and archives when they are whole. ``report`` gets
    the diagnosis and the findings that are new in it. Raises UnreadableInputError when no path names a file at the
    start.
    """
    files = list_inputs(paths)
    tails: dict[str, Tail] = {}
    wholes = Wholes()
    reading, reported, done = Reading(), set[tuple[str, str]](), 0
    diagnosis = reading.diagnosis()
    try:
        while rounds is None or done < rounds:
            if _read_news(reading, files, tails, wholes) or not done:
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


def _read_news(reading: Reading, files: Sequence[str], tails: dict[str, Tail], wholes: Wholes) -> bool:
    """Read what was added; whether there was anything."""
    grown = False
    for file in files:
        if file not in tails and _grows(file):
            tails[file] = Tail(file)
    for batch in (batch for tail in tails.values() for batch in tail.read()):
        reading.feed(batch)
        grown = True
    for file in wholes.finished([file for file in files if file not in tails]):
        try:
            reading.read_file(file)
        except UnreadableInputError:
            continue  # removed meanwhile
        grown = True
    return grown


def _grows(file: str) -> bool:
    """Whether a file is read line by line: no dump, no archive, and begun."""
    if is_dump(file):
        return False
    try:
        with Path(file).open("rb") as stream:
            head = stream.read(6)
    except OSError:
        return False
    return bool(head) and not is_packed(head)


def _listed(paths: Sequence[str | Path]) -> list[str]:
    try:
        return list_inputs(paths)
    except UnreadableInputError:
        return []
