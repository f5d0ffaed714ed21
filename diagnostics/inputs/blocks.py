"""Blocks of raw lines: those that a container runtime tore are joined, those that are no text are counted."""

import re

_PARTIAL = re.compile(rb"(?m)^\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d) (?:stdout|stderr) P ")
_RUNTIME = re.compile(rb" std(?:out|err) [PF] ")  # in every line of a container runtime's log
_RUNTIME_HEAD_BYTES = 2**13
_WHOLE = re.compile(rb"\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d) (?:stdout|stderr) F ")
_PLAIN = bytes([9, 13, 27, *range(32, 127)])

_REUSED_BYTES = 2**24
_LONG_BYTES = 2**12


def reuse_freed_memory() -> None:
    """Have malloc keep what blocks of a large log leave, which it would hand back to the kernel after each of them.

    glibc does so from the first large piece on that it took from the kernel by itself and that is freed.
    """
    bytes(_REUSED_BYTES)


def newlines(block: bytes, start: int = 0) -> int:
    """How many newlines there are from a place on.

    ``count`` looks at each byte; ``replace`` finds them with memchr: of lines as long as NCCL's in half the time.
    """
    rest = block[start:] if start else block
    return len(rest) - len(rest.replace(b"\n", b"")) if len(rest) > _LONG_BYTES else rest.count(b"\n")


def with_partial_lines_joined(block: bytes) -> bytes:
    """A block of a container runtime's log, the pieces of long lines (``stderr P``) joined; line numbers stay."""
    head = block[:_RUNTIME_HEAD_BYTES]
    if b" std" not in head or not _RUNTIME.search(head) or not _PARTIAL.search(block):
        return block
    joined: list[bytes] = []
    held, torn = b"", 0
    for line in block.split(b"\n"):
        match = _PARTIAL.match(line)
        if match:
            held += line if not held else line[match.end() :]
            torn += 1
        elif held and (end := _WHOLE.match(line)):
            joined += [held + line[end.end() :], *([b""] * torn)]
            held, torn = b"", 0
        else:
            joined += [*([held] if held else []), *([b""] * max(torn - 1, 0)), line]
            held, torn = b"", 0
    return b"\n".join([*joined, *([held] if held else []), *([b""] * max(torn - 1, 0))])


def count_binary(block: bytes) -> int:
    """The lines that are no text."""
    return sum(map(_is_binary, block.split(b"\n"))) if b"\x00" in block else 0


def _is_binary(raw: bytes) -> bool:
    """Whether a line holds a NUL and more than a third of it is no plain text."""
    return b"\x00" in raw and 3 * len(raw.translate(None, _PLAIN)) > len(raw)
