"""Growing logs: read what is new, diagnose again, report what was not reported yet."""

import time
from codecs import IncrementalDecoder
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from diagnostics.engine import diagnose_jobs
from diagnostics.errors import UnreadableInputError
from diagnostics.findings import Diagnosis, Finding
from diagnostics.inputs.files import Input, Inputs, find_inputs, input_identity, input_size, open_input
from diagnostics.inputs.flight_recorder import is_dump
from diagnostics.inputs.jobs import Job, sort_parts
from diagnostics.inputs.launches import MAX_HEAD_BYTES, survey_head
from diagnostics.inputs.part import Part
from diagnostics.inputs.reader import CHUNK_BYTES, MAX_LINE_BYTES, Batch, is_packed, utf16_decoder
from diagnostics.reading import Reading

POLL_SECONDS = 1.0
PATIENCE_ROUNDS = 60  # without a new line, after which a start that is not complete is one that hangs


class Tail:
    """One growing file. One that shrinks, or has become another of its name, is read from its start."""

    def __init__(self, file: Input) -> None:
        self.file = file
        self._identity: tuple[int, int] | None = None
        self._start()

    def _start(self) -> None:
        self._offset, self._first, self._rest = 0, True, b""
        self._decoder: IncrementalDecoder | None = None

    def read(self) -> Iterator[Batch]:
        """What was added since the last call, complete lines only."""
        try:
            identity, before = input_identity(self.file), self._identity
            if input_size(self.file) < self._offset or before not in (None, identity):
                self._start()
            self._identity = identity
            stream = open_input(self.file, self._offset)
        except OSError:
            return  # removed or unreadable for the moment; it may come back
        try:
            while chunk := stream.read(CHUNK_BYTES):
                if not self._offset:
                    self._decoder = utf16_decoder(chunk)
                self._offset += len(chunk)
                yield from self._lines(self._decoder.decode(chunk).encode() if self._decoder else chunk)
        except OSError:
            return
        finally:
            stream.close()

    def _lines(self, chunk: bytes) -> Iterator[Batch]:
        block, newline, rest = (self._rest + chunk).rpartition(b"\n")
        self._rest = rest[:MAX_LINE_BYTES]
        if newline:
            yield Batch(file=self.file.name, block=block, first=self._first)
            self._first = False


class Wholes:
    """Flight-recorder dumps and archives that appear: each is read once, when it has stopped growing."""

    def __init__(self) -> None:
        self._sizes: dict[str, int] = {}
        self._read: set[str] = set()

    def finished(self, files: Sequence[Input]) -> list[Input]:
        """The files that have the size that they had at the last call, and were not given yet."""
        done = []
        for file in files:
            try:
                size = input_size(file)
            except OSError:
                continue
            if size and file.name not in self._read and self._sizes.get(file.name) == size:
                self._read.add(file.name)
                done.append(file)
            self._sizes[file.name] = size
        return done


@dataclass(slots=True)
class FollowedJob:
    """The files of one job, as far as they were read."""

    job: Job
    reading: Reading = field(default_factory=Reading)
    wholes: Wholes = field(default_factory=Wholes)
    _tails: dict[str, Tail] = field(default_factory=dict)

    @property
    def names(self) -> frozenset[str]:
        """The names of its files."""
        return frozenset(part.file.name for part in self.job.parts)

    def read_news(self) -> bool:
        """Read what was added; whether there was anything."""
        grown = False
        for file in (part.file for part in self.job.parts):
            if file.name not in self._tails and _grows(file):
                self._tails[file.name] = Tail(file)
        for batch in (batch for tail in self._tails.values() for batch in tail.read()):
            self.reading.feed(batch)
            grown = True
        rest = [part.file for part in self.job.parts if part.file.name not in self._tails]
        for file in self.wholes.finished(rest):
            try:
                self.reading.read_file(file)
            except UnreadableInputError:
                continue  # removed meanwhile
            grown = True
        if grown:
            self.reading.flush()
        return grown


@dataclass(slots=True)
class _Watch:
    """All files that the paths name by now, sorted by job."""

    paths: Sequence[str | Path]
    jobs: list[FollowedJob] = field(default_factory=list)
    _notes: tuple[str, ...] = ()
    _surveys: dict[str, tuple[int, Part]] = field(default_factory=dict)

    def look(self) -> bool:
        """Take up new files, and read what was added to all; whether anything is new."""
        try:
            inputs = find_inputs(self.paths)
        except UnreadableInputError:
            inputs = _those_there(self.paths)
        self._notes = inputs.notes
        self._sort([self._survey(file) for file in inputs.files])
        grown = [followed.read_news() for followed in self.jobs]
        return any(grown)

    def _survey(self, file: Input) -> Part:
        try:
            size = input_size(file)
        except OSError:
            size = 0
        known = self._surveys.get(file.name)
        if known is None or (known[0] < min(size, MAX_HEAD_BYTES)):
            known = (size, Part(file=file) if is_dump(file.name) else survey_head(file))
            self._surveys[file.name] = known
        return known[1]

    def _sort(self, parts: Sequence[Part]) -> None:
        """Keep what was read of a job as long as no file of it turns out to be another's."""
        followed = {}
        for job in sort_parts(parts):
            names = {part.file.name for part in job.parts}
            before = [one for one in self.jobs if one.names & names]
            same = before[0] if len(before) == 1 and before[0].names <= names else FollowedJob(job)
            same.job = job
            followed[id(same)] = same
        self.jobs = list(followed.values())

    def diagnosis(self) -> Diagnosis:
        if not self.jobs:
            return Reading().diagnosis()
        return diagnose_jobs([one.job for one in self.jobs], [one.reading for one in self.jobs], self._notes)


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """What logs say now, and the findings that are new in it."""

    diagnosis: Diagnosis
    findings: tuple[Finding, ...]


class Follower:
    """Growing logs, looked at again and again: each finding is news once. Files may appear later."""

    def __init__(self, paths: Sequence[str | Path]) -> None:
        self._watch = _Watch(paths)
        self._reported: set[tuple[str, str, str]] = set()
        self._idle = self._looks = 0

    def look(self) -> News | None:
        """Read what was added; None where there is nothing to say: no new line, or no file yet."""
        self._idle = 0 if self._watch.look() else self._idle + 1
        first, self._looks = not self._looks, self._looks + 1
        if self._idle and self._idle != PATIENCE_ROUNDS and not (first and self._watch.jobs):
            return None
        diagnosis = self._watch.diagnosis()
        new = tuple(
            finding
            for finding in diagnosis.findings
            if _key(finding) not in self._reported and (self._idle >= PATIENCE_ROUNDS or not _may_pass(finding))
        )
        self._reported.update(map(_key, new))
        return News(diagnosis=diagnosis, findings=new)

    def diagnosis(self) -> Diagnosis:
        """What the logs prove so far."""
        return self._watch.diagnosis()


def follow(
    paths: Sequence[str | Path],
    report: Callable[[Diagnosis, Sequence[Finding]], None],
    *,
    wait: Callable[[float], None] = time.sleep,
    rounds: int | None = None,
    waiting: Callable[[], None] = lambda: None,
) -> Diagnosis:
    """Report new findings as they appear, until interrupted (or for a number of rounds); gives the last diagnosis.

    Files, folders and what globs match may appear later: ``waiting`` is called once while there is nothing to read. Of
    flight-recorder dumps and archives each is read when it is whole. ``report`` gets the diagnosis and the findings
    that are new in it.
    """
    follower, done = Follower(paths), 0
    try:
        while rounds is None or done < rounds:
            news = follower.look()
            if news is not None:
                report(news.diagnosis, news.findings)
            elif not done:
                waiting()
            done += 1
            wait(POLL_SECONDS)
    except KeyboardInterrupt:
        pass
    return follower.diagnosis()


def _may_pass(finding: Finding) -> bool:
    """Whether a finding is a start that is not complete yet, or its last attempt, which a job that starts shows too."""
    tried = finding.rule in ("wrong-interface", "bootstrap-unreachable") and finding.severity == "warning"
    return (tried or finding.rule == "init-hang") and finding.confidence == "possible"


def _key(finding: Finding) -> tuple[str, str, str]:
    return finding.rule, finding.severity, finding.job


def _those_there(paths: Sequence[str | Path]) -> Inputs:
    """The files of those paths that mean any by now."""
    files: dict[str, Input] = {}
    notes: list[str] = []
    for path in paths:
        try:
            found = find_inputs([path])
        except UnreadableInputError:
            continue
        files.update((file.name, file) for file in found.files)
        notes += found.notes
    return Inputs(files=tuple(files.values()), notes=tuple(notes))


def _grows(file: Input) -> bool:
    """Whether a file is read line by line: no dump, no archive, and begun."""
    if is_dump(file.name):
        return False
    try:
        stream = open_input(file)
    except OSError:
        return False
    try:
        head = stream.read(6) or b""
    except OSError:
        return False
    finally:
        stream.close()
    return bool(head) and not is_packed(head)
