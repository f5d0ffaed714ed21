"""Which of hundreds of literals are in a text: looked up by windows of the text, not tried one after another."""

import sys
from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache

_WIDTH = 4  # bytes of a window
_MIN_BYTES = 2 * _WIDTH - 1  # a literal of so many holds a whole window wherever in it the first one begins


class LiteralIndex:
    """Finds literals by the windows of a text that begin at every fourth byte; short literals are tried each."""

    def __init__(self, literals: Sequence[bytes]) -> None:
        self._literals = literals
        self._short = [number for number, literal in enumerate(literals) if len(literal) < _MIN_BYTES]
        self._of_window: dict[int, list[int]] = defaultdict(list)
        for number, literal in enumerate(literals):
            for place in range(_WIDTH) if len(literal) >= _MIN_BYTES else ():
                self._of_window[int.from_bytes(literal[place : place + _WIDTH], sys.byteorder)].append(number)
        self._windows = frozenset(self._of_window)

    def numbers_in(self, text: bytes) -> list[int]:
        """The numbers of the literals that a text holds, in order."""
        literals = self._literals
        return sorted({number for number in self._possible(text) if literals[number] in text})

    def any_in(self, text: bytes) -> bool:
        """Whether a text holds any of the literals."""
        literals = self._literals
        for number in self._possible(text):  # noqa: SIM110 - a generator costs more, on many lines of a large log
            if literals[number] in text:
                return True
        return False

    def _possible(self, text: bytes) -> list[int]:
        found = self._short.copy()
        for window in self._windows.intersection(_windows(text)):
            found += self._of_window[window]
        return found


@lru_cache(maxsize=1)  # several tables are asked for the same text, one after another
def _windows(text: bytes) -> frozenset[int]:
    return frozenset(memoryview(text)[: len(text) // _WIDTH * _WIDTH].cast("I"))
