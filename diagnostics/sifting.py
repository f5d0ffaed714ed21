"""Large logs read in pieces by several processes, each of which keeps only the lines that its reader needs to see.

Once the first lines of a job have been read one by one, most of what follows repeats them. What a process counts and
what it passes on is what the scanner would do with the same lines itself.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from diagnostics.blocks import count_binary, with_partial_lines_joined
from diagnostics.errors import UnreadableInputError
from diagnostics.flight_recorder import is_dump
from diagnostics.gate import MAX_WRAPPED_LINES, Gate, is_continued
from diagnostics.json_objects import holds_objects
from diagnostics.part import Part, read_part
from diagnostics.reader import line_from, plain_size
from diagnostics.repetition import behind_brackets, behind_mark, channel_key, names_its_rank
from diagnostics.scanner import Scanner

PIECE_BYTES = 2**23
MIN_BYTES = 2**25  # of less, starting the processes costs more than it saves


@dataclass(slots=True, kw_only=True)
class Sifted:
    """What one piece holds. ``candidates`` are (number of the line, from 0; line); ``known`` and ``channels`` count."""

    candidates: list[tuple[int, bytes]] = field(default_factory=list)
    known: Mapping[bytes, int] = field(default_factory=dict)
    channels: dict[bytes, int] = field(default_factory=dict)
    lines: int = 0
    nccl_lines: int = 0
    unreadable: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A piece of a part. ``begins`` the part, or goes on with the one before; ``alone``: not to be sifted apart."""

    part: Part
    begins: bool
    alone: bool = False


def pieces_of(parts: Iterable[Part]) -> list[Piece]:
    """The parts in pieces of about PIECE_BYTES that begin at a line, as far as they are plain files."""
    return [piece for part in parts for piece in _pieces(part)]


def bytes_to_sift(pieces: Iterable[Piece]) -> int:
    """How much several processes have to do."""
    return sum((piece.part.end or 0) - piece.part.start for piece in pieces if not piece.alone)


def _pieces(part: Part) -> Iterator[Piece]:
    size = None if is_dump(part.file.name) else plain_size(part.file)
    if size is None or (size >= MIN_BYTES and holds_objects(part.file)):
        yield Piece(part=part, begins=True, alone=True)
        return
    start, stop = part.start, size if part.end is None else min(part.end, size)
    while start < stop:
        end = min(line_from(part.file, start + PIECE_BYTES), stop)
        yield Piece(part=replace(part, start=start, end=end), begins=start == part.start)
        start = end


@dataclass(slots=True)
class Sieve:
    """Sifts pieces in a forked process, beside what the scanner knew by then and what was passed on to it since.

    ``room``: how many texts and channels it may learn, so that the scanner has room for those of all processes.
    """

    scanner: Scanner
    room: int

    def sift(self, piece: Piece) -> Sifted | None:
        """What a piece holds; None where it has to be read otherwise."""
        if piece.alone:
            return None
        gate, sifted = self._gate(), Sifted()
        try:
            for batch in read_part(piece.part):
                if batch.note:
                    return None
                block = with_partial_lines_joined(batch.block)
                sifted.unreadable += count_binary(block)
                self._keep(block, gate, sifted)
        except (OSError, UnreadableInputError):
            return None
        self.scanner.gate.known.update(gate.known)
        sifted.known = {text: count for text, count in gate.known.items() if count}
        sifted.lines, sifted.nccl_lines = gate.lines, gate.nccl_lines
        return sifted

    def _gate(self) -> Gate:
        gate = self.scanner.gate
        return replace(gate, lines=0, nccl_lines=0, wrapped=MAX_WRAPPED_LINES, known=dict.fromkeys(gate.known, 0))

    def _keep(self, block: bytes, gate: Gate, sifted: Sifted) -> None:
        """Take the candidates of a block, without those that the scanner would only count or pass over."""
        before, continued = gate.lines, False
        for number, raw in gate.candidates(block):
            if not continued:
                if b"CCL" not in raw:
                    if behind_brackets(raw) in self.scanner.quiet:
                        continue
                elif (key := channel_key(raw, self.scanner.channels)) is not None:
                    sifted.channels[key] = sifted.channels.get(key, 0) + 1
                    continue
                elif raw in gate.known:  # names NCCL without its mark
                    gate.known[raw] += 1
                    continue
            continued = is_continued(raw)
            sifted.candidates.append((before + number, raw))
            self._learn(raw, gate)

    def _learn(self, raw: bytes, gate: Gate) -> None:
        """Only count from here on what the scanner will know, once it has read this line."""
        if self.room > 0 and b"CCL" in raw and not names_its_rank(raw) and (text := behind_mark(raw)) not in gate.known:
            self.room -= 1
            gate.known[text] = 0
