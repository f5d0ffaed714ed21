"""Blocks of raw lines: those that a container runtime tore are joined, those that are no text are counted."""

import json
import re

_PARTIAL = re.compile(rb"(?m)^\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d) (?:stdout|stderr) P ")
_RUNTIME = re.compile(rb" std(?:out|err) [PF] ")  # in every line of a container runtime's log
_RUNTIME_HEAD_BYTES = 2**13
_PIECE = re.compile(rb"\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d) (stdout|stderr) ([PF]) ")
_JOURNAL_HEAD_BYTES = 2**14
_BYTES = re.compile(rb'"MESSAGE" ?: ?\[ ?(\d{1,3}(?:, ?\d{1,3}){0,100000}) ?\]')
_PLAIN = bytes([9, 13, 27, *range(32, 127)])

_REUSED_BYTES = 2**24
_LONG_BYTES = 2**12


def reuse_freed_memory() -> None:
    """Have malloc keep what blocks of a large log leave, which it would hand back to the kernel after each of them.

    glibc does so from the first large piece on that it took from the kernel by itself and that is freed.
    """
    bytes(_REUSED_BYTES)


def newlines(block: bytes, start: int = 0, stop: int | None = None) -> int:
    """How many newlines there are from one place to another.

    ``count`` looks at each byte; ``replace`` finds them with memchr: of lines as long as NCCL's in half the time.
    """
    stop = len(block) if stop is None else stop
    if stop - start <= _LONG_BYTES:
        return block.count(b"\n", start, stop)
    rest = block[start:stop]
    return len(rest) - len(rest.replace(b"\n", b""))


def with_partial_lines_joined(block: bytes) -> bytes:
    """A block of a container runtime's log, the pieces of long lines (``stderr P``) joined; line numbers stay."""
    head = block[:_RUNTIME_HEAD_BYTES]
    if b" std" not in head or not _RUNTIME.search(head) or not _PARTIAL.search(block):
        return block
    lines = block.split(b"\n")
    held: dict[bytes, int] = {}  # each stream's line that goes on, by its number
    for number, line in enumerate(lines):
        if (piece := _PIECE.match(line)) is None:
            held.clear()
            continue
        stream, state = piece.groups()
        if (first := held.get(stream)) is not None:
            lines[first] += line[piece.end() :]
            lines[number] = b""
        if state == b"F":
            held.pop(stream, None)
        elif first is None:
            held[stream] = number
    return b"\n".join(lines)


def as_written(block: bytes) -> bytes:
    """A block as the program wrote its lines, of what a container runtime tore and journald lists as bytes."""
    return with_bytes_as_text(with_partial_lines_joined(block))


def with_bytes_as_text(block: bytes) -> bytes:
    """A block of journald's JSON, in which a message with colours is a list of bytes, with its text in their place."""
    head = block[:_JOURNAL_HEAD_BYTES]
    if b'"' not in head or b'"MESSAGE"' not in head:  # a quote is found much faster than a word
        return block
    return _BYTES.sub(_as_text, block)


def _as_text(match: re.Match[bytes]) -> bytes:
    numbers = [int(number) for number in match[1].split(b",")]
    if any(number > 255 for number in numbers):
        return match[0]
    return b'"MESSAGE":' + json.dumps(bytes(numbers).decode("utf-8", "replace")).encode()


def count_binary(block: bytes) -> int:
    """The lines that are no text."""
    return sum(map(_is_binary, block.split(b"\n"))) if b"\x00" in block else 0


def _is_binary(raw: bytes) -> bool:
    """Whether a line holds a NUL and more than a third of it is no plain text."""
    return b"\x00" in raw and 3 * len(raw.translate(None, _PLAIN)) > len(raw)
