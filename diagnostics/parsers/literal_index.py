"""Which of hundreds of literals are in a text: looked up by windows of the text, not tried one after another."""

import sys
from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

_WIDTHS: dict[int, Literal["I", "H"]] = {4: "I", 2: "H"}  # bytes of a window, and the type of such numbers


class LiteralIndex:
    """Finds literals by windows side by side: one of 2 w - 1 bytes holds a whole window of w bytes wherever it stands.

    The widest windows that do so are taken; only literals of less than three bytes are tried on each text.
    """

    def __init__(self, literals: Sequence[bytes]) -> None:
        self._literals = literals
        self._short: list[int] = []
        self._of_window: dict[int, dict[int, list[int]]] = {width: defaultdict(list) for width in _WIDTHS}
        for number, literal in enumerate(literals):
            width = next((width for width in _WIDTHS if len(literal) >= 2 * width - 1), 0)
            for place in range(width):
                window = int.from_bytes(literal[place : place + width], sys.byteorder)
                self._of_window[width][window].append(number)
            self._short += [] if width else [number]
        self._known = {width: frozenset(found) for width, found in self._of_window.items()}

    def numbers_in(self, text: bytes) -> list[int]:
        """The numbers of the literals that a text holds, in order."""
        literals, find = self._literals, text.find
        return sorted({number for number in self._possible(text) if find(literals[number]) >= 0})

    def any_in(self, text: bytes) -> bool:
        """Whether a text holds any of the literals."""
        literals, find = self._literals, text.find
        return any(find(literals[number]) >= 0 for number in self._possible(text))

    def _possible(self, text: bytes) -> list[int]:
        possible = self._short.copy()
        for width, known in self._known.items():
            of_window = self._of_window[width]
            for window in known.intersection(_windows(text, width)):
                possible += of_window[window]
        return possible


@lru_cache(maxsize=2)  # several tables are asked for the same text, one after another
def _windows(text: bytes, width: int) -> frozenset[int]:
    return frozenset(memoryview(text)[: len(text) // width * width].cast(_WIDTHS[width]))
