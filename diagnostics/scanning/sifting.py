"""Large logs read in pieces by several processes, each of which keeps only the lines that its reader needs to see.

What a process counts and what it passes on is what the scanner would do with the same lines itself, once the detail of
a job is used up. The detail of a piece is looked for only where few of its lines are NCCL's, which the piece shows by
itself; as long as the reader wants the detail of other pieces, it reads them itself.
"""

import struct
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import chain
from mmap import mmap
from typing import TYPE_CHECKING

from diagnostics.errors import UnreadableInputError
from diagnostics.inputs.blocks import as_written, count_binary
from diagnostics.inputs.files import Input, open_input
from diagnostics.inputs.flight_recorder import is_dump
from diagnostics.inputs.jobs import Job
from diagnostics.inputs.json_objects import holds_objects
from diagnostics.inputs.part import Part, read_part
from diagnostics.inputs.reader import TRACE_HEAD_BYTES, Batch, cut_from, is_trace, plain_size
from diagnostics.inputs.speakers import Start, Starts
from diagnostics.scanning.gate import MAX_WRAPPED_LINES, Gate, is_continued
from diagnostics.scanning.literals import INIT_MARK
from diagnostics.scanning.plain_lines import MARK, PlainLines, is_plain
from diagnostics.scanning.repetition import MAX_CHANNEL_KEYS, behind_mark, names_its_rank
from diagnostics.scanning.tally import MAX_KNOWN_INIT_LINES, MAX_TEXTS

if TYPE_CHECKING:
    from diagnostics.scanning.scanner import Scanner

PIECE_BYTES = 2**23
FIRST_PIECE_BYTES = 2**20  # as long as the detail of a job may last, which its reader looks at itself
FIRST_BYTES = 2**23
END_BYTES = 2**18  # of a job, read line by line
SPARSE_LINES = 1000  # of a piece with no more lines of NCCL at level INFO, the frequent kinds are looked at too
MIN_BYTES = 2**25  # of less, starting the processes costs more than it saves


@dataclass(slots=True, kw_only=True)
class Sifted:
    """What one piece holds. ``candidates`` are (number of the line, from 0; line); ``known`` and ``channels`` count."""

    candidates: list[tuple[int, bytes]] = field(default_factory=list)
    known: Mapping[bytes, int] = field(default_factory=dict)
    channels: Mapping[bytes, int] = field(default_factory=dict)
    lines: int = 0
    nccl_lines: int = 0
    unreadable: int = 0
    sparse: bool = False  # lines of the frequent kinds are among the candidates
    starts: list[Start] = field(default_factory=list)  # the first of each process and GPU


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A piece of a part of the job with this number. ``begins`` the part, or goes on with the one before.

    ``alone``: not to be sifted apart. ``ends`` the job, so that its reader looks at the detail: how far did it come?
    """

    part: Part
    begins: bool
    job: int = 0
    alone: bool = False
    ends: bool = False
    number: int = 0  # among all pieces


def pieces_of(jobs: Sequence[Job]) -> list[Piece]:
    """The parts of jobs in pieces that begin at a line, as far as they are plain files."""
    found: list[Piece] = []
    for number, job in enumerate(jobs):
        first_bytes = FIRST_BYTES
        for part in job.parts:
            pieces = [replace(piece, job=number) for piece in _pieces(part, first_bytes)]
            first_bytes -= bytes_to_sift(pieces)
            found += pieces
        if found and found[-1].job == number:
            found[-1:] = _with_end_apart(found[-1])
    return [replace(piece, number=number) for number, piece in enumerate(found)]


def _with_end_apart(piece: Piece) -> list[Piece]:
    """The last piece of a job, cut before its last lines."""
    part = piece.part
    if piece.alone or part.end is None:
        return [piece]
    place = cut_from(part.file, max(part.end - END_BYTES, part.start))
    if place >= part.end:  # it ends with JSON
        place = part.start
    if place <= part.start:
        return [replace(piece, ends=True)]
    if place >= part.end:
        return [piece]
    rest = replace(piece, part=replace(part, start=place), begins=False, ends=True)
    return [replace(piece, part=replace(part, end=place)), rest]


def bytes_to_sift(pieces: Iterable[Piece]) -> int:
    """How much several processes have to do."""
    return sum((piece.part.end or 0) - piece.part.start for piece in pieces if not piece.alone)


def _pieces(part: Part, first_bytes: int) -> Iterator[Piece]:
    """A part in pieces of about PIECE_BYTES, its first bytes in smaller ones."""
    size = None if is_dump(part.file.name) else plain_size(part.file)
    if not size or (size >= MIN_BYTES and holds_objects(part.file)) or _is_trace(part.file):
        yield Piece(part=part, begins=True, alone=True)
        return
    start, stop = part.start, size if part.end is None else min(part.end, size)
    while start < stop:
        step = min(FIRST_PIECE_BYTES, PIECE_BYTES) if start - part.start < first_bytes else PIECE_BYTES
        end = min(cut_from(part.file, start + step), stop) if start + step < stop else stop
        yield Piece(part=replace(part, start=start, end=end), begins=start == part.start)
        start = end


def is_sparse(batches: Iterable[Batch]) -> bool:
    """Whether few lines of a piece are NCCL's at level INFO; takes no more batches than it needs to tell."""
    lines = 0
    return not any((lines := lines + batch.block.count(b"NCCL INFO ")) > SPARSE_LINES for batch in batches)


def _held_back(batches: Iterable[Batch], held: deque[Batch]) -> Iterator[Batch]:
    """The batches, each kept for later. ``tee`` would keep 57 of them, more than the cache of a processor holds."""
    for batch in batches:
        held.append(batch)
        yield batch


def _released(held: deque[Batch]) -> Iterator[Batch]:
    """The batches that were kept, none longer than it is needed."""
    while held:
        yield held.popleft()


def is_sparse_part(part: Part) -> bool:
    """Whether a piece that is not sifted is sparse; one that cannot be read is not."""
    try:
        return is_sparse(read_part(part))
    except (OSError, UnreadableInputError):
        return False


def _is_trace(file: Input) -> bool:
    try:
        with closing(open_input(file)) as stream:
            return is_trace(stream.read(TRACE_HEAD_BYTES) or b"")
    except (OSError, UnreadableInputError):
        return False


@dataclass(slots=True)
class _Sifting:
    """What one process knows of one job. What it passed on once, it only counts from there on.

    ``room``: how many more texts and channels it may learn, so that the scanner has room for those of all processes.
    """

    gate: Gate
    room: int
    trial: "Scanner | None" = None  # reads lines without NCCL's name, for whether they tell something
    init_lines: int = 0  # so many are before, at least; the scanner looks at no more than some of them either
    starts: Starts = field(default_factory=lambda: Starts(left=0))


class _StartCounts:
    """How many lines on starts and completions the pieces have, which each process tells the others of its own.

    That of a piece is 0 until it is sifted, so that what they know is never too many.
    """

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self._job_of = [piece.job for piece in pieces]
        self._shared = mmap(-1, 4 * max(len(pieces), 1))

    def tell(self, piece: Piece, lines: int) -> None:
        """Tell how many a piece has."""
        struct.pack_into("=I", self._shared, 4 * piece.number, min(lines, 2**32 - 1))

    def before(self, piece: Piece) -> int:
        """At least so many lines are in pieces of the same job before this one."""
        known = struct.unpack_from(f"={piece.number}I", self._shared)
        return sum(count for count, job in zip(known, self._job_of, strict=False) if job == piece.job)


class Sieve:
    """Sifts pieces of so many jobs, in a forked process.

    ``notes_starts``: the jobs are not told apart yet.
    """

    def __init__(self, jobs: int, pieces: Sequence[Piece], processes: int, *, notes_starts: bool = False) -> None:
        self._notes_starts = notes_starts
        self._counts = _StartCounts(pieces)
        self._jobs = [_Sifting(gate=Gate(detail_left=0), room=MAX_TEXTS // processes) for _ in range(jobs)]
        for job in self._jobs:
            job.gate.expect(MIN_BYTES)  # which compiles what is scanned for, once for all processes
        self._plain = PlainLines()

    def sift(self, piece: Piece) -> Sifted | None:
        """What a piece holds; None where it has to be read otherwise."""
        if piece.alone:
            return None
        job, sifted = self._jobs[piece.job], Sifted()
        gate = job.gate
        job.init_lines = begun = self._counts.before(piece)
        gate.skips_init = begun > MAX_KNOWN_INIT_LINES
        gate.lines, gate.nccl_lines, gate.wrapped = 0, 0, MAX_WRAPPED_LINES
        gate.known, gate.channels = dict.fromkeys(gate.known, 0), dict.fromkeys(gate.channels, 0)
        gate.held = False
        gate.tells_starts, gate.has_first_gpu = job.starts.told, job.starts.has_first_gpu
        try:
            batches, held = read_part(piece.part), deque[Batch]()
            sifted.sparse = is_sparse(_held_back(batches, held))
            gate.begin_piece(sparse=sifted.sparse)
            gate.detailed = sifted.sparse
            for batch in chain(_released(held), batches):
                if batch.note or batch.skipped is not None:  # JSON objects, each with a number of its own
                    return None
                block = as_written(batch.block)
                sifted.unreadable += count_binary(block)
                self._keep(block, job, sifted)
                if self._notes_starts:
                    sifted.starts += job.starts.of(block, batch.place, gate.starts)
        except (OSError, UnreadableInputError):
            return None
        self._counts.tell(piece, job.init_lines - begun)
        sifted.known = {text: count for text, count in gate.known.items() if count}
        sifted.channels = {key: count for key, count in gate.channels.items() if count}
        sifted.lines, sifted.nccl_lines = gate.lines, gate.nccl_lines
        return sifted

    def _keep(self, block: bytes, job: _Sifting, sifted: Sifted) -> None:
        """Take the candidates of a block, without those that the scanner would only count."""
        gate = job.gate
        before, gate.held = gate.lines, False
        for number, raw in gate.candidates(block):
            named, starts = raw.find(b"CCL") >= 0, raw.find(INIT_MARK) >= 0
            if named and not gate.held:
                if not gate.detailed and not starts and raw in gate.known:  # names NCCL without its mark
                    gate.known[raw] += 1
                    continue
                if starts and self._knows_enough(raw, job):
                    continue
            elif not named and not gate.held and not self._tells(raw, job):
                continue
            gate.held = is_continued(raw)
            sifted.candidates.append((before + number, raw))
            if named and not starts and job.room > 0:
                self._learn(raw, job)

    @staticmethod
    def _tells(raw: bytes, job: _Sifting) -> bool:
        """Whether a line without NCCL's name tells something, wherever it stands; what does not, the gate drops."""
        if job.trial is None:
            from diagnostics.scanning.scanner import Scanner  # many logs have no such line

            job.trial = Scanner(lambda _event: None)
            job.gate.quiet = job.trial.quiet
        return job.trial.tells(raw)

    @staticmethod
    def _knows_enough(raw: bytes, job: _Sifting) -> bool:
        """Whether so many starts and completions were passed on that the scanner takes no more."""
        job.init_lines += 1
        job.gate.skips_init = job.init_lines > MAX_KNOWN_INIT_LINES
        return job.init_lines > MAX_KNOWN_INIT_LINES + 1 and raw.count(b"NCCL ") == 1

    def _learn(self, raw: bytes, job: _Sifting) -> None:
        """Only count from here on what the scanner will know, once it has read this line."""
        if not names_its_rank(raw):
            if (text := behind_mark(raw)) not in job.gate.known:
                job.room -= 1
                job.gate.known[text] = 0
        elif len(job.gate.channels) < MAX_CHANNEL_KEYS and (key := self._channel(raw)) is not None:
            job.gate.channels.setdefault(key, 0)

    def _channel(self, raw: bytes) -> bytes | None:
        """What the scanner will count a channel line under; None where it takes the whole line to tell."""
        mark, via = raw.find(MARK), raw.find(b" via ")
        key = raw.find(b": ", max(via - 40, 0))
        usual = 0 < mark < key < via and b"NCCL " not in raw[mark + len(MARK) :] and is_plain(raw[mark:])
        return raw[key:].rstrip() if usual and self._plain.speaker(raw[:mark]) is not None else None
