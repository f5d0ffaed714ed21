"""A warning that a terminal or a chat program may have wrapped hard: kept back until the lines behind it are known."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from diagnostics.parsers import FOREIGN_PATTERNS, PATTERNS
from diagnostics.parsers.base import read_message
from diagnostics.parsers.steps import is_step
from diagnostics.scanning.gate import MAX_WRAPPED_LINES
from diagnostics.scanning.prefix import Message, bare_message

MAX_PATTERN_CHARACTERS = 6000  # of one message; bounds the time of any expression on hostile text


_WIDTHS = range(45, 141)  # of lines that are wrapped hard; between words, the rest of a line may be a long one
_OF_PROGRAMS = frozenset({"python-error", "traceback"})
_QUOTE_MARKS = "> |"


class KeptBack(NamedTuple):
    """A warning with the physical line that it stands in."""

    text: str
    message: Message
    line: int
    place: int  # among all events


def may_go_on(text: str, message: Message) -> bool:
    """Whether a warning may go on in the next line: its line is as long as wrapped ones are, or nothing is said yet."""
    return len(text) in _WIDTHS or (not message.text and len(text) < _WIDTHS.stop)


@dataclass(slots=True)
class Wrapped:
    """The warning kept back, and the lines behind it that may be the rest of it."""

    _pending: KeptBack | None = None
    _continued: list[str] = field(default_factory=list)

    def keep(self, text: str, message: Message, line: int, place: int) -> None:
        """Keep a warning back."""
        self._pending = KeptBack(text, message, line, place)

    def takes(self, text: str) -> bool:
        """Whether a line may be the rest of the warning kept back; it is kept with it."""
        if self._pending is None or not text.strip() or len(self._continued) >= MAX_WRAPPED_LINES:
            return False
        if _stands_alone(text):
            return False
        self._continued.append(text)
        return True

    def release(self) -> KeptBack | None:
        """The warning kept back, joined with the lines behind it where hard wraps tore it to pieces."""
        if self._pending is None:
            return None
        (text, message, line, place), self._pending = self._pending, None
        rest, self._continued = self._continued, []
        best = max(_joinings(message.text, rest), key=_fields)  # the first of equals: the line as it stands
        if best != message.text:
            text = f"{text}{best.removeprefix(message.text)}"
            message = message._replace(text=best)
        return KeptBack(text, message, line, place)


def _stands_alone(text: str) -> bool:
    """Whether a line is a step of a training or the error of a program: nothing of a warning before it."""
    line = text[:MAX_PATTERN_CHARACTERS]
    return is_step(line) or any(kind in _OF_PROGRAMS for kind, _ in read_message(FOREIGN_PATTERNS, bare_message(line)))


def _joinings(head: str, rest: Sequence[str]) -> Iterator[str]:
    """The head of a message alone, and with more and more of the lines behind it, torn in a word or between two."""
    yield head
    for count in range(1, len(rest) + 1):
        for between in ("", " "):
            yield between.join([head, *(_behind_marks(part) for part in rest[:count])])[:MAX_PATTERN_CHARACTERS]


def _behind_marks(part: str) -> str:
    """What a line says, without its indentation, and the marks of a quotation."""
    return part.lstrip(_QUOTE_MARKS).rstrip()


def _fields(text: str) -> int:
    """How much is read of a message; one on a queue pair is whole with the address of the peer, its last field."""
    return sum(1 + len(fields) for _, fields in read_message(PATTERNS, text)) + text.count("remote GID")
