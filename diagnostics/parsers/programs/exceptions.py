"""Exceptions that are raised without a word at the end of a traceback, such as ``AssertionError``."""

from diagnostics.parsers.base import Pattern
from diagnostics.parsers.pytorch import BEFORE_EXCEPTION

_NAMES = (
    "AssertionError",
    "CancelledError",
    "EOFError",
    "KeyError",
    "MemoryError",
    "NotImplementedError",
    "OutOfMemoryError",
    "RecursionError",
    "RuntimeError",
    "StopIteration",
    "TimeoutError",
    "ValueError",
)

PATTERNS = tuple(
    Pattern(
        kind="python-error",
        literal=name,
        expression=BEFORE_EXCEPTION + rf"(?P<name>(?:\w+\.)*{name})(?P<reason>):?\s*$",
        samples=(f"[rank0]: {name}",),
    )
    for name in _NAMES
)
