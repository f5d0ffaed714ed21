"""Logs to a diagnosis: read and scan them, collect facts, have the facts judged."""

import gc
import os
import stat
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from itertools import repeat
from pathlib import Path
from typing import NamedTuple

from diagnostics.builder import FactBuilder
from diagnostics.errors import UnreadableInputError
from diagnostics.facts import FlightRecord, JobFacts
from diagnostics.findings import Diagnosis, LineCounts
from diagnostics.inputs.blocks import reuse_freed_memory
from diagnostics.inputs.files import Input, Inputs, find_inputs
from diagnostics.inputs.flight_recorder import DamagedDumpError, Recorder, is_dump
from diagnostics.inputs.forked import dealt, map_ahead, processes_to_use
from diagnostics.inputs.jobs import Job, sort_by_job, sort_parts
from diagnostics.inputs.launches import MAX_LAUNCHES, Launches
from diagnostics.inputs.part import Part, read_part
from diagnostics.inputs.reader import A_TRACE, TRACE_HEAD_BYTES, Batch, is_trace
from diagnostics.judging.judgement import diagnose_facts
from diagnostics.judging.overall import overall
from diagnostics.judging.verdict import of_several_launches, without_unread
from diagnostics.rules import load_rules
from diagnostics.scanning.gate import Gate
from diagnostics.scanning.scanner import Scanner
from diagnostics.scanning.sifting import MIN_BYTES, Piece, Sieve, Sifted, bytes_to_sift, is_sparse_part, pieces_of

BEGINNING_BYTES = 2**25  # of a file: where these hold several launches, it is not worth reading as one job
MAX_HELD_LINES = 50_000
MAX_SHARE = 0.7  # of all bytes, that one of the processes reads where each job is read by one of them


class Reading:
    """Logs being read: feed batches, take a diagnosis at any time. ``--follow`` keeps one of these."""

    def __init__(self, gate: Gate | None = None) -> None:
        self._builder = FactBuilder()
        self._scanner = Scanner(self._builder.add, gate=gate or Gate(), starts=self._builder.add_start)
        self._files: dict[str, None] = {}
        self._notes: list[str] = []
        self._dumps: list[FlightRecord] = []
        self._recorder = Recorder()
        self.refused: UnreadableInputError | None = None  # the last file that could not be opened
        self._damaged: list[str] = []

    @property
    def gate(self) -> Gate:
        """What finds the lines to read."""
        return self._scanner.gate

    def feed(self, batch: Batch) -> None:
        """Read one batch of lines."""
        self._files.setdefault(batch.file)
        if batch.note:
            self._notes.append(batch.note)
        self._scanner.feed(batch)

    def read_file(self, file: str | Input) -> None:
        """Read a whole file. Raises UnreadableInputError when it cannot be opened."""
        self._read_part(Part(file=file if isinstance(file, Input) else Input(name=file)))
        self.flush()

    def _read_part(self, part: Part) -> None:
        """Read a file, or the part of it that is this job's. Raises UnreadableInputError when it cannot be opened."""
        if is_dump(part.file.name):
            self._read_dump(part.file)
            return
        self._files.setdefault(part.file.name)
        head = b""
        for batch in read_part(part):
            if batch.place < TRACE_HEAD_BYTES and is_trace(head := head + batch.block):
                self._notes.append(f"{part.file.name}: left out, {A_TRACE}")
                return
            self.feed(batch)

    def read_piece(self, piece: Piece, sifted: Sifted | None) -> bool:
        """Read a piece, or take what another process kept of it; whether it was left out, with a note."""
        file, gate = piece.part.file.name, self._scanner.gate
        first = piece.part.first_line if piece.begins else self._scanner.next_line(file)
        if piece.begins:
            self.flush()
        if piece.alone:
            gate.by_piece = False
        else:
            gate.begin_piece(sparse=sifted.sparse if sifted is not None else is_sparse_part(piece.part))
            gate.detailed |= piece.ends
        if sifted is None or (gate.detailed and not sifted.sparse):
            return self._leaves_out(replace(piece.part, first_line=first))
        self._files.setdefault(file)
        self._scanner.take(file, sifted, first)
        return False

    def read_job(self, job: Job) -> int:
        """Read all parts of a job; how many were left out, with a note, because they cannot be opened."""
        omitted = 0
        for part in job.parts:
            omitted += self._leaves_out(part)
            self.flush()
        return omitted

    def _leaves_out(self, part: Part) -> bool:
        """Read a part; whether it was left out, with a note, because it cannot be opened."""
        try:
            self._read_part(part)
        except UnreadableInputError as error:
            self.refused = error
            reason = error.__cause__.strerror if isinstance(error.__cause__, OSError) else None
            self._notes.append(f"{part.file.name}: left out, it cannot be read: {reason or error}")
            return True
        return False

    def flush(self) -> None:
        """Take a line that was kept back in case the next one continues it."""
        self._scanner.finish()

    def _read_dump(self, file: Input) -> None:
        try:
            self._dumps.append(self._recorder.read(file))
        except DamagedDumpError as error:
            self._damaged.append(file.name)
            self._notes.append(str(error))
        except OSError as error:
            raise UnreadableInputError(
                f"cannot read '{file.name}': {error.strerror or error}; check that it may be read"
            ) from error

    def facts(self) -> JobFacts:
        """What has been seen so far."""
        return self._builder.build(
            channels=self._scanner.tally.channels,
            channel_event=self._scanner.tally.channel_event,
            files=tuple(self._files),
            lines=(self._scanner.gate.lines, self._scanner.gate.nccl_lines),
            repeated=self._scanner.tally.repeated(),
            notes=self._notes,
            dumps=self._dumps,
            damaged_dumps=self._damaged,
            starts_omitted=self._scanner.tally.starts_omitted or self._scanner.deduplicated,
            last_lines=self._scanner.last_lines,
            progress_omitted=self._scanner.progress_omitted,
            steps=self._scanner.steps.shown(),
            open_tables=self._scanner.steps.open_tables(),
            last_errors=self._scanner.steps.errors(),
        )

    def diagnosis(self) -> Diagnosis:
        """The verdict on what has been seen so far."""
        gate = self._scanner.gate
        lines = LineCounts(
            read=gate.lines,
            nccl=min(gate.nccl_lines, gate.lines),
            unreadable=self._scanner.unreadable,
        )
        return diagnose_facts(self.facts(), lines)


def diagnose_paths(paths: Sequence[str | Path]) -> Diagnosis:
    """The diagnosis of logs: files, folders, globs or ``-``, each job judged by itself. Raises UnreadableInputError."""
    inputs = find_inputs(paths)
    sizes = {one.name: _size_of(one.name) for one in inputs.files}
    processes = processes_to_use()
    with no_garbage_collection():
        diagnosis = _diagnose_inputs(inputs, processes)
    cut = [name for name, size in sizes.items() if 0 <= _size_of(name) < size]
    return without_unread(diagnosis, [f"{name} was cut while it was read" for name in cut])


def _size_of(name: str) -> int:
    """Bytes of a regular file; -1 of anything else."""
    try:
        told = os.stat(name)  # noqa: PTH116 - of thousands of files
    except (OSError, ValueError):
        return -1
    return told.st_size if stat.S_ISREG(told.st_mode) else -1


def _diagnose_inputs(inputs: Inputs, processes: int) -> Diagnosis:
    if (whole := _diagnose_in_one_pass(inputs, processes)) is not None:
        return whole
    jobs = sort_by_job(inputs.files, processes)
    judged = _judged_apart(jobs, processes) or _judged(jobs, processes)
    if sum(one.omitted for one in judged) == sum(len(job.parts) for job in jobs):
        raise next(one.refused for one in judged if one.refused is not None)
    return _of_all(jobs, [one.diagnosis for one in judged], inputs.notes)


class _Judged(NamedTuple):
    """The diagnosis of one job, and how many of its parts cannot be opened."""

    diagnosis: Diagnosis
    omitted: int
    refused: UnreadableInputError | None


def _judged(jobs: Sequence[Job], processes: int) -> list[_Judged]:
    """The diagnoses of jobs, which several processes read together."""
    readings = [Reading() for _ in jobs]
    omitted = read_jobs(jobs, readings, processes)
    return [
        _Judged(reading.diagnosis(), omitted, reading.refused)
        for reading, omitted in zip(readings, omitted, strict=True)
    ]


def _judged_apart(jobs: Sequence[Job], processes: int) -> list[_Judged]:
    """The diagnoses of jobs, each read by one of the processes; none where one would have most of the work."""
    sizes = [bytes_to_sift(pieces_of([job])) for job in jobs]
    owners = dealt(sizes, processes)
    loads = [sum(size for size, owner in zip(sizes, owners, strict=True) if owner == one) for one in range(processes)]
    if processes == 1 or sum(sizes) < MIN_BYTES or max(loads) > MAX_SHARE * sum(sizes):
        return []
    Reading().gate.expect(MIN_BYTES)  # which compiles what is scanned for, once for all processes

    def work(job: Job) -> _Judged:
        return _judged([job], 1)[0]

    found = map_ahead(work, jobs, processes)
    return [one or work(job) for job, one in zip(jobs, found, strict=True)]


def _diagnose_in_one_pass(inputs: Inputs, processes: int) -> Diagnosis | None:
    """The diagnosis of one large file, taken for that of one job; None where it is not, or was begun more than once."""
    jobs = sort_parts([Part(file=file) for file in inputs.files]) if len(inputs.files) == 1 else ()
    pieces = pieces_of(jobs)
    if bytes_to_sift(pieces) < MIN_BYTES:
        return None
    reading, launches = Reading(), Launches(inputs.files[0])
    held: list[tuple[Piece, Sifted]] = []  # until the beginning shows one launch: of several, none is read here
    with closing(_sifted(pieces, [reading], processes, notes_starts=True)) as sifted:
        for piece, found in zip(pieces, sifted, strict=True):
            if found is None:
                return None
            load_rules()  # once, while other processes read
            for start in found.starts:
                launches.take(start)
            if len(launches.parts) > 1:
                return None
            held.append((piece, found))
            lines = sum(len(one.candidates) for _, one in held)
            if piece is not pieces[-1] and piece.part.start < BEGINNING_BYTES and lines < MAX_HELD_LINES:
                continue
            if any(reading.read_piece(*one) for one in held):
                return None
            held.clear()
    reading.flush()
    return diagnose_jobs(jobs, [reading], inputs.notes)


def read_jobs(jobs: Sequence[Job], readings: Sequence[Reading], processes: int) -> list[int]:
    """Read the parts of jobs, large ones in pieces; how many of each were left out, because they cannot be opened."""
    pieces = pieces_of(jobs)
    if bytes_to_sift(pieces) < MIN_BYTES:
        return [reading.read_job(job) for reading, job in zip(readings, jobs, strict=True)]
    omitted = [0] * len(jobs)
    reuse_freed_memory()
    for reading in readings:
        reading.gate.expect(MIN_BYTES)
    sifted = _sifted(pieces, readings, processes) if processes > 1 else repeat(None, len(pieces))
    for piece, found in zip(pieces, sifted, strict=True):
        omitted[piece.job] += readings[piece.job].read_piece(piece, found)
    for reading in readings:
        reading.flush()
    return omitted


def _sifted(
    pieces: Sequence[Piece], readings: Sequence[Reading], processes: int, *, notes_starts: bool = False
) -> Generator[Sifted | None, None, None]:
    """What is kept of the pieces, by several processes where they may be used."""
    reuse_freed_memory()
    for reading in readings:
        reading.gate.expect(MIN_BYTES)  # which compiles what is scanned for, once for all processes
    sieve = Sieve([reading.gate for reading in readings], pieces, processes, notes_starts=notes_starts)
    yield from map_ahead(sieve.sift, pieces, processes) if processes > 1 else map(sieve.sift, pieces)


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Nothing that is built while logs are read refers to itself: looking for cycles takes a tenth of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def diagnose_jobs(jobs: Sequence[Job], readings: Sequence[Reading], notes: Sequence[str] = ()) -> Diagnosis:
    """The diagnosis of jobs that were read: of one its own, of several that of all."""
    return _of_all(jobs, [reading.diagnosis() for reading in readings], notes)


def _of_all(jobs: Sequence[Job], diagnoses: Sequence[Diagnosis], notes: Sequence[str]) -> Diagnosis:
    diagnoses = [_with_mixed_parts(job, one) for job, one in zip(jobs, diagnoses, strict=True)]
    if len(diagnoses) > 1:
        whole = overall([(job.name, diagnosis) for job, diagnosis in zip(jobs, diagnoses, strict=True)])
    else:
        whole = diagnoses[0]
    return without_unread(whole, notes)


def _with_mixed_parts(job: Job, diagnosis: Diagnosis) -> Diagnosis:
    """The diagnosis of a job, which says so where a part of it holds several launches."""
    mixed = next((part for part in job.parts if part.mixed), None)
    if mixed is None:
        return diagnosis
    where = f"{mixed.file.name} holds more than {MAX_LAUNCHES:,} launches"
    return of_several_launches(diagnosis, f"{where}: those from line {mixed.first_line:,} on were not told apart")
