"""Logs to a diagnosis: read and scan them, collect facts, have the facts judged.

What reads and judges is imported where it is needed: of a large log, once other processes sift it.
"""

import gc
import os
import stat
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import chain, repeat
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from diagnostics.errors import UnreadableInputError
from diagnostics.inputs.blocks import reuse_freed_memory
from diagnostics.inputs.files import Inputs, find_inputs
from diagnostics.inputs.forked import dealt, map_ahead, processes_to_use
from diagnostics.inputs.jobs import Job, sort_by_job, sort_parts
from diagnostics.inputs.launches import MAX_LAUNCHES, Launches
from diagnostics.inputs.part import Part
from diagnostics.scanning.sifting import MIN_BYTES, Piece, Sieve, Sifted, bytes_to_sift, pieces_of

if TYPE_CHECKING:
    from diagnostics.findings import Diagnosis
    from diagnostics.reading import Reading

BEGINNING_BYTES = 2**25  # of a file: where these hold several launches, it is not worth reading as one job
MAX_HELD_LINES = 50_000
MAX_SHARE = 0.7  # of all bytes, that one of the processes reads where each job is read by one of them


def diagnose_paths(paths: Sequence[str | Path]) -> "Diagnosis":
    """The diagnosis of logs: files, folders, globs or ``-``, each job judged by itself. Raises UnreadableInputError."""
    inputs = find_inputs(paths)
    sizes = {one.name: _size_of(one.name) for one in inputs.files}
    processes = processes_to_use()
    with no_garbage_collection():
        diagnosis = _diagnose_inputs(inputs, processes)
    cut = [name for name, size in sizes.items() if 0 <= _size_of(name) < size]
    from diagnostics.judging.verdict import without_unread

    return without_unread(diagnosis, [f"{name} was cut while it was read" for name in cut])


def _size_of(name: str) -> int:
    """Bytes of a regular file; -1 of anything else."""
    try:
        told = os.stat(name)  # noqa: PTH116 - of thousands of files
    except (OSError, ValueError):
        return -1
    return told.st_size if stat.S_ISREG(told.st_mode) else -1


def _diagnose_inputs(inputs: Inputs, processes: int) -> "Diagnosis":
    if (whole := _diagnose_in_one_pass(inputs, processes)) is not None:
        return whole
    jobs = sort_by_job(inputs.files, processes)
    judged = _judged_apart(jobs, processes) or _judged(jobs, processes)
    if sum(one.omitted for one in judged) == sum(len(job.parts) for job in jobs):
        raise next(one.refused for one in judged if one.refused is not None)
    return _of_all(jobs, [one.diagnosis for one in judged], inputs.notes)


class _Judged(NamedTuple):
    """The diagnosis of one job, and how many of its parts cannot be opened."""

    diagnosis: "Diagnosis"
    omitted: int
    refused: UnreadableInputError | None


def _judged(jobs: Sequence[Job], processes: int) -> list[_Judged]:
    """The diagnoses of jobs, which several processes read together."""
    from diagnostics.reading import Reading

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
    _new_reading()  # what it imports and compiles, all processes have

    def work(job: Job) -> _Judged:
        return _judged([job], 1)[0]

    found = map_ahead(work, jobs, processes)
    return [one or work(job) for job, one in zip(jobs, found, strict=True)]


def _diagnose_in_one_pass(inputs: Inputs, processes: int) -> "Diagnosis | None":
    """The diagnosis of one large file, taken for that of one job; None where it is not, or was begun more than once."""
    jobs = sort_parts([Part(file=file) for file in inputs.files]) if len(inputs.files) == 1 else ()
    pieces = pieces_of(jobs)
    if bytes_to_sift(pieces) < MIN_BYTES:
        return None
    launches = Launches(inputs.files[0])
    held: list[tuple[Piece, Sifted]] = []  # until the beginning shows one launch: of several, none is read here
    with closing(_sifted(pieces, 1, processes, notes_starts=True)) as sifted:
        first = next(sifted)
        reading = _new_reading()  # while other processes sift
        for piece, found in zip(pieces, chain((first,), sifted), strict=True):
            if found is None:
                return None
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


def read_jobs(jobs: Sequence[Job], readings: "Sequence[Reading]", processes: int) -> list[int]:
    """Read the parts of jobs, large ones in pieces; how many of each were left out, because they cannot be opened."""
    pieces = pieces_of(jobs)
    if bytes_to_sift(pieces) < MIN_BYTES:
        return [reading.read_job(job) for reading, job in zip(readings, jobs, strict=True)]
    omitted = [0] * len(jobs)
    reuse_freed_memory()
    for reading in readings:
        reading.gate.expect(MIN_BYTES)
    sifted = _sifted(pieces, len(jobs), processes) if processes > 1 else repeat(None, len(pieces))
    for piece, found in zip(pieces, sifted, strict=True):
        omitted[piece.job] += readings[piece.job].read_piece(piece, found)
    for reading in readings:
        reading.flush()
    return omitted


def _new_reading() -> "Reading":
    """What reads a large log, with all imported and compiled that it and its judging need."""
    from diagnostics.reading import Reading
    from diagnostics.rules import load_rules

    load_rules()
    reading = Reading()
    reading.gate.expect(MIN_BYTES)
    return reading


def _sifted(
    pieces: Sequence[Piece], jobs: int, processes: int, *, notes_starts: bool = False
) -> Generator[Sifted | None, None, None]:
    """What is kept of the pieces of so many jobs, by several processes where they may be used."""
    reuse_freed_memory()
    sieve = Sieve(jobs, pieces, processes, notes_starts=notes_starts)
    yield from map_ahead(sieve.sift, pieces, processes)


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


def diagnose_jobs(jobs: Sequence[Job], readings: "Sequence[Reading]", notes: Sequence[str] = ()) -> "Diagnosis":
    """The diagnosis of jobs that were read: of one its own, of several that of all."""
    return _of_all(jobs, [reading.diagnosis() for reading in readings], notes)


def _of_all(jobs: Sequence[Job], diagnoses: "Sequence[Diagnosis]", notes: Sequence[str]) -> "Diagnosis":
    from diagnostics.judging.overall import overall
    from diagnostics.judging.verdict import without_unread

    diagnoses = [_with_mixed_parts(job, one) for job, one in zip(jobs, diagnoses, strict=True)]
    if len(diagnoses) > 1:
        whole = overall([(job.name, diagnosis) for job, diagnosis in zip(jobs, diagnoses, strict=True)])
    else:
        whole = diagnoses[0]
    return without_unread(whole, notes)


def _with_mixed_parts(job: Job, diagnosis: "Diagnosis") -> "Diagnosis":
    """The diagnosis of a job, which says so where a part of it holds several launches."""
    mixed = next((part for part in job.parts if part.mixed), None)
    if mixed is None:
        return diagnosis
    from diagnostics.judging.verdict import of_several_launches

    where = f"{mixed.file.name} holds more than {MAX_LAUNCHES:,} launches"
    return of_several_launches(diagnosis, f"{where}: those from line {mixed.first_line:,} on were not told apart")
