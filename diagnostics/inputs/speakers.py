"""Who speaks in a file, and where communicators begin: a quick look, before any line is read for what it says."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from diagnostics.events import ProcessKey
from diagnostics.inputs.files import Input
from diagnostics.inputs.forked import map_ahead
from diagnostics.inputs.reader import Batch, read_lines_begun
from diagnostics.scanning.literals import INIT_MARK, START_MARK
from diagnostics.scanning.search import places

_MARK = b"] NCCL INFO "
_INIT = re.compile(
    rb"([A-Za-z0-9_][\w.\-]{0,200}):(\d{1,9}):\d{1,9} \[\d{1,4}\] NCCL INFO .{0,80}?comm 0x[0-9a-f]+ rank (\d{1,9}) "
    rb"nranks (\d{1,9}) [^\n]{0,80}?busId ([0-9a-f]{1,12})(?:[^\n]{0,200}?commId (0x[0-9a-f]{1,32}))?"
)
_PREFIX = re.compile(rb"(?<![\w.\-])([A-Za-z0-9_][\w.\-]{0,200}):(\d{1,9}):\d{1,9} \[\d{1,4}\] ")
MAX_INIT_LINES = 50_000  # of one file, or of one process that reads pieces of it; later ones only of new speakers
MAX_HEADS = 20_000
MAX_PREFIXES = 2000
SPEAKERS_BYTES = 2**20  # who speaks in a file is known by its first lines
SAMPLED_BYTES = 2**15

Seen = TypeVar("Seen")


class Start(NamedTuple):
    """What a line on the start or completion of a communicator says."""

    place: int
    process: tuple[str, int]
    rank: int
    nranks: int
    bus: str
    comm_id: str | None


@dataclass(slots=True, kw_only=True)
class Look:
    """What is seen in a file or a piece of it."""

    speakers: set[ProcessKey] = field(default_factory=set)
    starts: list[Start] = field(default_factory=list)


@dataclass(slots=True)
class Starts:
    """Finds starts and completions of communicators: ``left`` of any, then those of new processes and GPUs."""

    left: int = MAX_INIT_LINES
    told: bool = False  # one of these was a start, which releases before 2.18.3 do not print
    has_first_gpu: bool = False  # one of these was of GPU 0
    _heads: set[bytes] = field(default_factory=set)  # how lines of those that are known begin
    _speakers: set[tuple[bytes, bytes]] = field(default_factory=set)

    def of(self, block: bytes, place: int = 0, ends: Sequence[int] | None = None) -> Iterator[Start]:
        """Those of a block that begins at ``place``. ``ends``: where their mark ends in it, if that is known."""
        find, rfind, heads = block.find, block.rfind, self._heads
        if ends is None:
            ends = places(block, START_MARK if self.told and self.left <= 0 else INIT_MARK)
        for end in ends:
            begin = rfind(b"\n", 0, end) + 1
            mark = find(_MARK, begin, end)
            head = block[begin : mark if mark >= 0 else end - len(INIT_MARK)]
            if self.left <= 0 and (head in heads or self._is_known(head)):
                continue
            self.left -= 1
            self.told |= block.startswith(START_MARK, end - len(INIT_MARK))
            found = _start(_INIT.search(block, max(begin, end - 600), end - len(INIT_MARK)), place + begin)
            if found is None:
                continue
            if found.nranks > 1:
                self._speakers.add(speaker := _speaker(head))
                self.has_first_gpu |= speaker[1] == b"0"
            yield found

    def _is_known(self, head: bytes) -> bool:
        known = _speaker(head) in self._speakers
        if known and len(self._heads) < MAX_HEADS:
            self._heads.add(head)
        return known


def _speaker(head: bytes) -> tuple[bytes, bytes]:
    """Who speaks in a line that begins so, without the time and the thread: ``host:pid`` and the device."""
    before, _, device = head.rpartition(b" [")
    return before.rpartition(b":")[0].rpartition(b" ")[2], device


@dataclass(slots=True, kw_only=True)
class Sampling:
    """What is seen of a large file that holds several launches, or of a piece of it."""

    samples: list[tuple[int, ProcessKey]] = field(default_factory=list)  # a place, and who speaks there
    lines: list[tuple[int, int]] = field(default_factory=list)  # where a block begins, and how many lines it has


def look_at(batches: Iterable[Batch]) -> Look:
    """A look at batches of a file."""
    look, prefixes, starts = Look(), 0, Starts()
    for batch in batches:
        if batch.place < SPEAKERS_BYTES and prefixes <= MAX_PREFIXES:
            found = [(match[1].decode(), int(match[2])) for _, match in prefixes_of(batch.block)]
            look.speakers.update(found[: MAX_PREFIXES + 1 - prefixes])
            prefixes += len(found)
        look.starts += starts.of(batch.block, batch.place)
    return look


def sample(batches: Iterable[Batch]) -> Sampling:
    """One speaker of every SAMPLED_BYTES of batches, and their lines."""
    found = Sampling()
    for batch in batches:
        found.lines.append((batch.place, batch.lines))
        found.samples += _samples(batch)
    return found


def in_pieces(read: Callable[[Iterable[Batch]], Seen], file: Input, size: int, processes: int) -> list[Seen]:
    """What is seen in pieces of a large file, by several processes."""
    step = -(-size // (2 * processes))
    ranges = [(place, min(place + step, size)) for place in range(0, size, step)]

    def work(limits: tuple[int, int]) -> Seen:
        return read(read_lines_begun(file, *limits))

    seen = map_ahead(work, ranges, processes)
    return [one or work(limits) for one, limits in zip(seen, ranges, strict=True)]


def _samples(batch: Batch) -> Iterator[tuple[int, ProcessKey]]:
    for begin in range(0, len(batch.block), SAMPLED_BYTES):
        found = next(prefixes_of(batch.block, begin, begin + SAMPLED_BYTES), None)
        if found is not None:
            yield batch.place + found[0], (found[1][1].decode(), int(found[1][2]))


def prefixes_of(block: bytes, start: int = 0, stop: int | None = None) -> Iterator[tuple[int, re.Match[bytes]]]:
    """NCCL's prefix on each line that has one, with the place where the line begins."""
    place = block.find(b" NCCL ", start, stop)
    while place >= 0:
        start = block.rfind(b"\n", 0, place) + 1
        if match := _PREFIX.search(block, max(start, place - 400), place + 1):
            yield start, match
        end = block.find(b"\n", place)
        place = block.find(b" NCCL ", end, stop) if end >= 0 else -1


def _start(match: re.Match[bytes] | None, place: int) -> Start | None:
    if match is None:
        return None
    host, pid, rank, nranks, bus, comm_id = match.groups()
    return Start(
        place=place,
        process=(host.decode(), int(pid)),
        rank=int(rank),
        nranks=int(nranks),
        bus=bus.decode(),
        comm_id=comm_id.decode() if comm_id is not None else None,
    )
