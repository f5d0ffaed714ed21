"""Places of literals and expressions in a block: by hyperscan, or by Python's own search where it is not installed.

Where many lines are looked at one by one, ``line.find(literal) >= 0`` takes half the time of ``literal in line``, which
tries to take the literal for a number first.
"""

from functools import cache
from typing import Any

from diagnostics.scanning import pattern_cache

MIN_KEPT = 50  # fewer expressions are compiled at once


@cache
def compiled_database(expressions: tuple[bytes, ...]) -> Any:
    """The expressions compiled for one scan; None where hyperscan is not installed."""
    try:
        import hyperscan  # optional, and only big logs pay for it
    except ImportError:
        return None
    kept = pattern_cache.file_of(expressions, _release(hyperscan)) if len(expressions) >= MIN_KEPT else None
    database = _loaded(hyperscan, pattern_cache.read(kept)) if kept is not None else None
    if database is None:
        count = len(expressions)
        database = hyperscan.Database()
        database.compile(
            expressions=expressions, ids=range(count), elements=count, flags=[hyperscan.HS_FLAG_DOTALL] * count
        )
        if kept is not None:
            pattern_cache.write(kept, hyperscan.dumpb(database))
    return database


def _release(hyperscan: Any) -> str:
    return str(hyperscan.__version__)


def _loaded(hyperscan: Any, kept: bytes | None) -> Any:
    """What was compiled before; None where there is none, or another release or processor made it."""
    if kept is None:
        return None
    try:
        database = hyperscan.loadb(kept, mode=hyperscan.HS_MODE_BLOCK)
        database.scratch = hyperscan.Scratch(database)
    except hyperscan.error:
        return None
    return database


def matches_apart(database: Any, block: bytes, number: int) -> tuple[list[int], list[int]]:
    """As ``matches``, those of the expression with a number apart from the others."""
    ends: list[int] = []
    others: list[int] = []
    append, append_other = ends.append, others.append

    def note(found: int, _start: int, end: int, _flags: int, _context: object) -> None:
        if found == number:
            append_other(end)
        else:
            append(end)

    database.scan(block, match_event_handler=note)
    ends.sort()
    others.sort()
    return ends, others


def matches(database: Any, block: bytes) -> list[int]:
    """Where the matches of a compiled database end, in order."""
    ends: list[int] = []
    append = ends.append

    def note(_id: int, _start: int, end: int, _flags: int, _context: object) -> None:
        append(end)

    database.scan(block, match_event_handler=note)
    ends.sort()
    return ends


def places(block: bytes, literal: bytes) -> list[int]:
    """Where a literal ends in a block, in order; hyperscan finds a rare one at 8 GB/s, Python at 1.6."""
    database = _of_literals((literal,))
    if database is not None:
        return matches(database, block)
    found, place = [], block.find(literal)
    while place >= 0:
        found.append(place + len(literal))
        place = block.find(literal, place + len(literal))
    return found


@cache
def _of_literals(literals: tuple[bytes, ...]) -> Any:
    return compiled_database(tuple(escaped(literal.decode()) for literal in literals))


def holds_any(block: bytes, literals: tuple[bytes, ...]) -> bool:
    """Whether a block holds any of these literals, which are rare."""
    database = _of_literals(literals)
    if database is not None:
        return bool(matches(database, block))
    return any(literal in block for literal in literals)


def escaped(text: str) -> bytes:
    """A literal as an expression."""
    return "".join(f"\\x{ord(character):02x}" if not character.isalnum() else character for character in text).encode()
