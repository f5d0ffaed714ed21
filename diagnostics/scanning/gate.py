"""Which lines of a block can matter at all: everything else is never looked at again.

With the optional hyperscan package one pass of a compiled set of literals finds them (about 1.5 GB/s on one core);
without it, a loop over the lines tests a few literals each, many times slower. Both pass at least every line that a
pattern reads.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import compress
from operator import not_
from typing import Any

from diagnostics.inputs.blocks import newlines
from diagnostics.inputs.reader import bounded
from diagnostics.parsers.literal_index import LiteralIndex
from diagnostics.scanning.literals import (
    ALWAYS,
    CONNECTED,
    DETAIL,
    EXPRESSIONS,
    FIRST_START,
    HEADS,
    INIT,
    INIT_MARK,
    KNOWN_CONNECTED,
    NOISE,
    ODD,
    START_MARK,
)
from diagnostics.scanning.repetition import behind_brackets, channel_key
from diagnostics.scanning.search import compiled_database, escaped, matches_apart
from diagnostics.scanning.unmarked import BODIES, FOREIGN

DETAIL_LINES = 36_000  # of NCCL, in which the frequent kinds are read one by one; later ones only where unusual

MAX_INDEXED_BYTES = 2**13  # of lines in which hundreds of literals are looked for at once
MAX_WRAPPED_LINES = 3  # behind a warning, that may be the rest of it
MAX_SHAPE_BYTES = 2**23  # of all shapes that one gate remembers
SHAPE_OVERHEAD_BYTES = 100  # of each in a set
MARK = b"] NCCL INFO "
WARN = b"NCCL WARN"  # which is among ALWAYS
_WARNING = b" NCCL WARN "
_STARTS = 0  # the number of the mark of starts among the expressions
MANY_MARKS = 100  # of a block
MANY_ENDS = 150  # of matches of a block: looking at each takes longer than a search
_DIGITS = b"0123456789"
_FIRST_LETTERS = b"NR"  # of NCCL and RCCL

Candidate = tuple[int, bytes]  # the number of the line, from 0 in its block, and the line


@dataclass(slots=True)
class Gate:
    """Finds the candidates of blocks, one after another. ``lines`` and ``nccl_lines`` count the lines of all blocks.

    Once the detail is used up, NCCL's lines are those with its mark, in blocks that have many; else all that name it.

    ``known`` holds messages (text behind NCCL's mark -> repetitions) that were read; once the detail is used up
    they are only counted, whoever prints them. ``channels`` holds what channels are counted under, from the first on.
    """

    lines: int = 0
    nccl_lines: int = 0
    detail_left: int = DETAIL_LINES
    known: dict[bytes, int] = field(default_factory=dict)
    channels: dict[bytes, int] = field(default_factory=dict)
    held: bool = False  # whoever reads the candidates holds one back: what the next line says decides on it
    skips_init: bool = False  # from here on, rank by rank lines of more communicators tell nothing
    scan_from_bytes: int = 2**20  # below, compiling the set costs more than it saves
    by_piece: bool = False  # what is read one by one is settled where a piece begins, else block by block
    sparse: bool = False  # so few lines are NCCL's in this piece that the frequent kinds are looked for all the same
    starts: list[int] | None = None  # where the mark of starts ends in the last block; None where it was not scanned
    tells_starts: bool = False  # the release prints where a communicator starts: where it completes is not asked late
    has_first_gpu: bool = False  # GPU 0 is among those that speak: of the others' late starts none is asked
    quiet: set[bytes] = field(default_factory=set)  # what lines without NCCL's mark say that nothing reads
    wrapped: int = 0  # so many lines at the start of the next block may be the rest of the last line of this one
    _dull: set[bytes] = field(default_factory=set)  # lines without their digits, of which FOREIGN has none
    _telling: set[bytes] = field(default_factory=set)  # the same, of lines in which something of FOREIGN was found
    _shape_bytes_left: int = MAX_SHAPE_BYTES
    detailed: bool = True  # lines of the frequent kinds are read one by one here
    _seen_bytes: int = 0

    def expect(self, size: int) -> None:
        """Scan from the start where at least so many bytes will come, with what is looked for compiled by now."""
        if size >= self.scan_from_bytes:
            self.scan_from_bytes = 0
            for frequent in (DETAIL + INIT, ODD + CONNECTED + INIT):
                _database(frequent)

    def begin_piece(self, *, sparse: bool) -> None:
        """Settle what is read one by one from here to the next piece, by the pieces before."""
        self.by_piece, self.sparse = True, sparse
        self.detailed = self.detail_left > 0

    def candidates(self, block: bytes) -> Iterator[Candidate]:
        """Lines of a block (complete lines, no newline at its end) that can matter, in order."""
        self._seen_bytes += len(block)
        self.starts = None
        if not self.by_piece:
            self.detailed = self.detail_left > 0
        if self._seen_bytes < self.scan_from_bytes or (database := self.database()) is None:
            return self._by_line(block) if self.detailed or self.sparse else self._by_late_line(block)
        return self._by_scan(block, database)

    def database(self) -> Any:
        """What the scan looks for by now, compiled; None where hyperscan is not installed."""
        if not (self.tells_starts and self.skips_init):
            return _database(self._expressions())
        return _database(self._expressions(), FIRST_START if self.has_first_gpu else escaped(START_MARK.decode()))

    def _expressions(self) -> tuple[bytes, ...]:
        """What is looked for beside ALWAYS, the less the longer the log is."""
        if self.detailed or self.sparse:
            return DETAIL + INIT
        return ODD + (() if self._knows_connected() else CONNECTED) + (() if self.skips_init else INIT)

    def _knows_connected(self) -> bool:
        """Whether a line that says all is connected tells nothing more, and need not be counted either."""
        return all(text in self.known for text in KNOWN_CONNECTED)

    def _by_scan(self, block: bytes, database: Any) -> Iterator[Candidate]:
        ends, behind = matches_apart(database, block, _STARTS)
        self.starts = behind
        yield from self._continuations(block, 0, 0, ends)
        find, rfind, known, quiet, skips = block.find, block.rfind, self.known, self.quiet, not self.detailed
        start = line_end = number = counted = 0
        continued = self.wrapped > 0
        for end in ends:
            if end <= line_end + 1:  # a match may take in the newline of its line
                continue
            start = rfind(b"\n", start, end - 1) + 1 or start
            line_end = find(b"\n", end - 1)
            if line_end < 0:
                line_end = len(block)
            if skips:
                mark = find(b"NCCL INFO ", start, line_end)
                if mark < 0:
                    mark = find(b"NCCL WARN ", start, line_end)
                if mark >= 0 and (text := block[mark + 5 : line_end]) in known:
                    known[text] += 1
                    continue
                if mark < 0 and not continued and behind_brackets(block[start:line_end]) in quiet:
                    continue
            raw = bounded(block[start:line_end])
            if (raw.find(b" via ") >= 0 and self.counts_channel(raw)) or (
                self.skips_init and raw.find(INIT_MARK) >= 0 and self._says_nothing(raw)
            ):
                continue
            number, counted = number + newlines(block, counted, start), start
            yield number, raw
            continued = raw.find(MARK) < 0 and is_continued(raw)
            if continued:
                self.wrapped = MAX_WRAPPED_LINES
                yield from self._continuations(block, line_end + 1, number + 1, ends)
        self._count(block, number + newlines(block, counted) + 1, ends)

    def counts_channel(self, raw: bytes) -> bool:
        """Whether a line is done with by counting the channel that it tells of."""
        if self.held or (key := channel_key(raw, self.channels)) is None or raw.find(b"CCL") < 0:
            return False
        self.channels[key] += 1
        return True

    def _count(self, block: bytes, lines: int, ends: Sequence[int] | None = None) -> None:
        named = nccl_lines_of(block, lines, by_mark=not (self.detailed or self.sparse), ends=ends)
        self.lines += lines
        self.nccl_lines += named
        self.detail_left -= named

    def _continuations(self, block: bytes, begin: int, number: int, ends: list[int]) -> Iterator[Candidate]:
        """Lines from a place on that may be the rest of a line that was wrapped hard, up to one that comes by itself.

        Where the block ends before, its rest may stand in the next one.
        """
        while self.wrapped and begin <= len(block):
            stop = _line_end(block, begin)
            following = bounded(block[begin:stop])
            matched = bisect_left(ends, stop + 2) > bisect_left(ends, begin + 1)
            if matched or MARK in following or WARN in following:
                self.wrapped = 0
                return
            self.wrapped -= 1
            yield number, following
            begin, number = stop + 1, number + 1

    def _by_late_line(self, block: bytes) -> Iterator[Candidate]:
        """As ``_by_line`` once the detail is used up: of lines that differ in digits only, one is looked at."""
        lines, shapes = block.split(b"\n"), block.translate(None, _DIGITS).split(b"\n")
        fresh = list(compress(range(len(shapes)), map(not_, map(self._dull.__contains__, shapes))))
        chosen, nothing, unmarked = self._sort_out(lines, fresh)
        for number in nothing:
            self._keep_shape(shapes[number], self._dull)
        chosen += self._foreign_lines(lines, shapes, unmarked)
        chosen += self._wrapped_lines(lines, chosen)
        for number in sorted(set(chosen)):
            if not self.counts_channel(raw := bounded(lines[number])):
                yield number, raw
        self._count(block, len(lines))

    def _wrapped_lines(self, lines: list[bytes], chosen: list[int]) -> list[int]:
        """Numbers of the lines behind those that may go on, of this block and the one before."""
        found = list(self._rest_of_line(lines, 0))
        for number in sorted(chosen):
            if is_continued(lines[number]):
                self.wrapped = MAX_WRAPPED_LINES
                found += self._rest_of_line(lines, number + 1)
        return found

    def _rest_of_line(self, lines: list[bytes], begin: int) -> Iterator[int]:
        for number in range(begin, min(begin + self.wrapped, len(lines))):
            if MARK in lines[number] or WARN in lines[number]:
                self.wrapped = 0
                return
            self.wrapped -= 1
            yield number

    def _sort_out(self, lines: list[bytes], fresh: list[int]) -> tuple[list[int], list[int], list[int]]:
        """Numbers of NCCL's lines that tell something, of those that tell nothing, and of lines without its name."""
        chosen, nothing, unmarked, connected = [], [], [], self._knows_connected()
        for number in fresh:
            raw = lines[number]
            if b"CCL" not in raw:
                unmarked.append(number)
                continue
            if self._says_nothing(raw):
                if raw.count(MARK) == 1 and INIT_MARK not in raw:  # which have an address: none is like another
                    nothing.append(number)
            elif not self._is_repeated(raw):
                chosen.append(number)
            elif connected and raw.endswith(KNOWN_CONNECTED) and raw.count(MARK) == 1:
                nothing.append(number)
        return chosen, nothing, unmarked

    def _foreign_lines(self, lines: list[bytes], shapes: list[bytes], unmarked: list[int]) -> list[int]:
        """Numbers of the lines among ``unmarked`` that can matter; of those alike but for digits one is looked at."""
        dull, telling = self._dull, self._telling
        fresh = [number for number in unmarked if shapes[number] not in dull and shapes[number] not in telling]
        found = _foreign_among(lines, fresh)
        silent = sorted(set(fresh).difference(found))
        none_told = not _told_by_digits().any_in(b"\n".join([shapes[number] for number in silent]))
        for number in silent:
            if none_told or not _told_by_digits().any_in(
                shapes[number]
            ):  # else a digit could change that it tells none
                self._keep_shape(shapes[number], dull)
        for number in found:
            self._keep_shape(shapes[number], telling)
        told = set(found)
        return [number for number in unmarked if number in told or shapes[number] in telling]

    def _keep_shape(self, shape: bytes, where: set[bytes]) -> None:
        if shape not in where and len(shape) <= self._shape_bytes_left:
            self._shape_bytes_left -= len(shape) + SHAPE_OVERHEAD_BYTES
            where.add(shape)

    def _by_line(self, block: bytes) -> Iterator[Candidate]:
        lines, shapes = block.split(b"\n"), block.translate(None, _DIGITS).split(b"\n")
        unmarked = [number for number, raw in enumerate(lines) if b"CCL" not in raw]
        foreign = set(self._foreign_lines(lines, shapes, unmarked))
        for number, raw in enumerate(lines):
            if b"CCL" in raw:
                if _is_noise(raw) and b"rror" not in raw:  # of a program, torn into it
                    continue
                if self.counts_channel(bounded(raw)):
                    self.wrapped = 0
                    continue
                self.wrapped = MAX_WRAPPED_LINES if is_continued(raw) else 0
                yield number, bounded(raw)
            elif self.wrapped or number in foreign:
                self.wrapped = MAX_WRAPPED_LINES if is_continued(raw) else max(self.wrapped - 1, 0)
                yield number, bounded(raw)
        self._count(block, len(lines))

    def _says_nothing(self, raw: bytes) -> bool:
        """Whether a marked line is one of those that ODD leaves out."""
        mark = raw.find(b"NCCL INFO ")
        if mark < 0 or raw.find(b"NCCL ", mark + 10) >= 0:
            return False
        if raw[mark + 10 : mark + 16] in HEADS or (self.skips_init and raw.find(INIT_MARK) >= 0):
            via = raw.find(b" via ")
            return via < 0 or raw.find(b" via P2P", via) >= 0 or raw.find(b"/GDRDMA") >= 0
        return raw.find(b": opCount ") >= 0 or raw.find(b" coll channels, ") >= 0

    def _is_repeated(self, raw: bytes) -> bool:
        """Whether a marked line says what was read before; then it is only counted."""
        mark = raw.find(b"NCCL INFO ")
        if mark < 0 or raw[mark + 5 :] not in self.known:
            return False
        self.known[raw[mark + 5 :]] += 1
        return True


def nccl_lines_of(block: bytes, lines: int, *, by_mark: bool, ends: Sequence[int] | None = None) -> int:
    """How many lines of a block name NCCL or RCCL; one that holds several marked messages counts as often.

    ``by_mark``: where many have the mark, only those, which takes a fifth of the time. ``ends``: where the matches of a
    scan end, by which it is known whether any line is a warning.
    """
    marked = block.count(MARK)
    if marked == lines:
        return marked
    if by_mark and marked > MANY_MARKS:
        return marked + (block.count(_WARNING) if ends is None or len(ends) > MANY_ENDS else _warnings_at(block, ends))
    if block.count(b"CCL") == marked:
        return marked
    between = block.split(MARK)
    between[0] = b"\n" + between[0]
    between[-1] += b"\n"
    return marked + sum(_named_lines(text) for text in between if text.count(b"\n") > 1)


def _warnings_at(block: bytes, ends: Sequence[int]) -> int:
    """As ``block.count(_WARNING)``, where a scan tells where all matches end, those of WARN among them."""
    count = behind = 0
    for end in ends:
        if (start := end - len(WARN) - 1) >= behind and block.startswith(_WARNING, start):
            count, behind = count + 1, start + len(_WARNING)
    return count


def _named_lines(text: bytes) -> int:
    """Whole lines that name it. Three letters do not: a third of files of 6 MB of random bytes hold them."""
    named, last = 0, text.rfind(b"\n")
    place = text.find(b"CCL", text.find(b"\n"), last)
    while place >= 0:
        if text[place - 1] in _FIRST_LETTERS:
            named += 1
            place = text.find(b"\n", place)
        place = text.find(b"CCL", place + 1, last)
    return named


def _line_end(block: bytes, start: int) -> int:
    end = block.find(b"\n", start)
    return len(block) if end < 0 else end


def is_foreign(raw: bytes) -> bool:
    """Whether a line without NCCL's mark can matter."""
    return _foreign().any_in(raw)


@cache
def _foreign() -> LiteralIndex:
    return LiteralIndex(FOREIGN)


@cache
def _told_by_digits() -> LiteralIndex:
    return LiteralIndex([stem for literal in FOREIGN if (stem := literal.translate(None, _DIGITS)) != literal])


@cache
def _searched() -> tuple[bytes, ...]:
    """A line that holds any of FOREIGN holds one of these."""
    return _shortest(FOREIGN)


def _shortest(literals: Sequence[bytes]) -> tuple[bytes, ...]:
    """A line that holds any of these literals holds one of those that hold no other."""
    literals = tuple(dict.fromkeys(literals))
    index = LiteralIndex(literals)
    return tuple(one for number, one in enumerate(literals) if index.numbers_in(one) == [number])


@cache
def _index_of_searched() -> LiteralIndex:
    return LiteralIndex(_searched())


def _held_by(text: bytes) -> list[bytes]:
    """Which of the literals that are looked for a text holds: by its windows, of a long one by one after another."""
    searched = _searched()
    if len(text) <= MAX_INDEXED_BYTES:
        return [searched[number] for number in _index_of_searched().numbers_in(text)]
    return [literal for literal in searched if literal in text]


def _foreign_among(lines: list[bytes], unmarked: list[int]) -> list[int]:
    """Numbers of the lines among ``unmarked`` that can matter: each literal is looked for in all of them at once."""
    if not unmarked:
        return []
    starts, total = [], 0
    for number in unmarked:
        starts.append(total)
        total += len(lines[number]) + 1
    joined = b"\n".join([lines[number] for number in unmarked])
    found: set[int] = set()
    for literal in _held_by(joined):
        place = joined.find(literal)
        while place >= 0:
            index = bisect_left(starts, place + 1) - 1
            found.add(unmarked[index])
            place = joined.find(literal, starts[index + 1]) if index + 1 < len(starts) else -1
    return sorted(found)


def is_continued(raw: bytes) -> bool:
    """Whether the next line may belong to this one."""
    find = raw.find
    return find(WARN) >= 0 or find(b"Last error:") >= 0 or find(b"operation timeout:", -60) >= 0 or is_torn(raw)


def is_torn(raw: bytes) -> bool:
    """Whether a line without NCCL's mark is the first of a message on a queue pair that goes on in the next one."""
    return raw.find(b", on dev ") >= 0 and raw.find(b"remote GID") < 0 and raw.find(b"CCL ") < 0


def _is_noise(raw: bytes) -> bool:
    """Whether a marked line is one that no pattern reads: ring lists, trees, affinities."""
    start = raw.find(b"NCCL INFO ") + 10
    if start < 10:
        return False
    head = raw[start : start + 6]
    if head == b"Channe":
        ring = raw[start : start + 10] == b"Channel 00"  # the ranks of the first ring, which rank 0 prints
        return not ring and raw.find(b" via ", start) < 0 and raw.find(b"NCCL ", start) < 0
    return head in NOISE and raw.find(b"NCCL ", start) < 0 and raw.find(b"opCount ", start) < 0


@cache
def _database(frequent: tuple[bytes, ...], mark: bytes = INIT_MARK) -> Any:
    return compiled_database((mark, *_escaped_literals(), *EXPRESSIONS, *frequent))


@cache
def _escaped_literals() -> tuple[bytes, ...]:
    literals = _shortest([literal.encode() for literal in (*ALWAYS, *BODIES)])
    return tuple(escaped(literal.decode()) for literal in literals)
