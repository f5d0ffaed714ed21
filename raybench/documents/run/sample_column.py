"""One series of a node's samples, as the differences of neighbours: small in memory, smaller in a document.

In a document a column is one text of five fields, ``SCALE;FIRST;WIDTH;ROWS;DIFFERENCES``. A value is a whole number
divided by ``SCALE``, 1 or 1000. ``FIRST`` is the first of them. ``ROWS`` are the rows of the time axis that have a
value, ``0+600,610+20``: a row without one is missing, never 0. ``DIFFERENCES``: each of the others less the one before,
as signed integers of ``WIDTH`` bytes (little endian), compressed by zlib, as base64; of width 0 all are 0, and nothing
is written. Of 600 readings of 284 series that takes 128 KiB, as JSON numbers 870, as a binary file 96.
"""

import array
import base64
import binascii
import math
import re
import sys
import zlib
from collections.abc import Iterator, Sequence
from itertools import accumulate

MOST_ROWS = 2**22
_THOUSANDTHS = 1000
_LARGEST = 2**62  # twice as much is a difference
_CODES = "bhiq"
_WIDTHS = {array.array(code).itemsize: code for code in _CODES}
_TEXT = re.compile(
    r"(1|1000);(-?\d{1,19});([01248]);((?:\d{1,9}\+\d{1,9})(?:,\d{1,9}\+\d{1,9})*)?;([A-Za-z0-9+/=]*)", re.ASCII
)


class ColumnError(ValueError):
    """A text is no column."""


class Column:
    """The values of one series by row of a time axis. Values come in the order of their rows."""

    __slots__ = ("_begin", "_differences", "_end", "_first", "_last", "_latest", "_runs", "scale")

    def __init__(self) -> None:
        self.scale = 1
        self._first = self._last = 0
        self._latest: float | None = None  # the last value, as it came
        self._differences = array.array("b")
        self._runs: list[tuple[int, int]] = []  # (first row, rows) of those that are over
        self._begin = self._end = 0  # rows of the one that goes on

    @classmethod
    def of(cls, values: Sequence[float | None]) -> "Column":
        """A value a row; None where it is missing."""
        column = cls()
        for row, value in enumerate(values):
            if value is not None:
                column.add(row, value)
        return column

    @property
    def end(self) -> int:
        """The row after the last that has a value."""
        return self._end

    @property
    def runs(self) -> list[tuple[int, int]]:
        """(first row, rows) of the rows that have a value."""
        return [*self._runs, (self._begin, self._end - self._begin)] if self._latest is not None else []

    @property
    def stored_bytes(self) -> int:
        """What it takes in memory, about."""
        return 250 + len(self._differences) * self._differences.itemsize + 100 * len(self._runs)

    def add(self, row: int, value: float) -> bool:
        """Put a value into a row after all others. Returns whether it could be: not a number of more than 18 digits."""
        if row == self._end and value == self._latest:  # most of what is counted are errors that do not come
            self._differences.append(0)
            self._end = row + 1
            return True
        number = self._number(value)
        if number is None:
            return False
        if self._latest is None:
            self._first = number
            self._begin = row
        else:
            self._append(number - self._last)
            if row != self._end:
                self._runs.append((self._begin, self._end - self._begin))
                self._begin = row
        self._last, self._latest, self._end = number, value, row + 1
        return True

    def shortened(self, rows: int, count: int) -> "Column | None":
        """Of a value that is the same in all of so many rows, that value in fewer; None of any other column."""
        if any(self._differences) or self.runs != [(0, rows)]:
            return None
        column = Column()
        column.scale, column._first, column._last, column._latest = self.scale, self._first, self._last, self._latest
        column._differences = array.array("b", bytes(count - 1))
        column._end = count
        return column

    def _number(self, value: float) -> int | None:
        if type(value) is not int:
            if not math.isfinite(value):
                return None
            if self.scale == 1 and value != int(value):
                self._rescale()
        if abs(value) * self.scale >= _LARGEST:
            return None
        return int(value) * self.scale if value == int(value) else round(value * self.scale)

    def _rescale(self) -> None:
        """To thousandths: the first value that is no whole number has come."""
        numbers = list(self._numbers())
        rows = [row for first, length in self.runs for row in range(first, first + length)]
        self._runs, self._differences, self._latest, self.scale = [], array.array("b"), None, _THOUSANDTHS
        for row, number in zip(rows, numbers, strict=True):
            self.add(row, number)

    def _append(self, difference: int) -> None:
        try:
            self._differences.append(difference)
        except OverflowError:
            wide = next(code for code in _CODES if abs(difference) < 2 ** (8 * array.array(code).itemsize - 1))
            self._differences = array.array(wide, self._differences)
            self._differences.append(difference)

    def _numbers(self) -> Iterator[int]:
        return iter(()) if self._latest is None else accumulate(self._differences, initial=self._first)

    def values(self, count: int) -> list[float | None]:
        """A value for each of ``count`` rows; None where it is missing."""
        numbers = self._numbers()
        known = list(numbers) if self.scale == 1 else [number / self.scale for number in numbers]
        if self.runs == [(0, count)]:
            return [*known]
        found: list[float | None] = [None] * count
        begin = 0
        for first, length in self.runs:
            found[first : first + length] = known[begin : begin + length]
            begin += length
        return found

    def to_text(self) -> str:
        """The column as in a document."""
        rows = ",".join(f"{first}+{length}" for first, length in self.runs)
        width, data = 0, ""
        if any(self._differences):
            width, differences = self._differences.itemsize, self._differences
            if sys.byteorder == "big":
                differences = differences[:]
                differences.byteswap()
            data = base64.b64encode(zlib.compress(differences.tobytes(), 6)).decode()
        return f"{self.scale};{self._first};{width};{rows};{data}"

    @classmethod
    def of_text(cls, text: str, count: int) -> "Column":
        """The column of ``count`` rows in a text. Raises ColumnError."""
        found = _TEXT.fullmatch(text)
        if found is None:
            raise ColumnError("it is not a column: SCALE;FIRST;WIDTH;ROWS;DIFFERENCES")
        column = cls()
        column.scale, column._first = int(found[1]), int(found[2])
        *column._runs, (begin, length) = _runs(found[4] or "", count) or [(0, 0)]
        numbers = length + sum(rows for _, rows in column._runs)
        column._begin, column._end = begin, begin + length
        column._differences = _differences(int(found[3]), max(numbers - 1, 0), found[5])
        column._latest = column._first if numbers else None
        return column


def _runs(text: str, count: int) -> list[tuple[int, int]]:
    pairs = [one.split("+") for one in text.split(",")] if text else []
    runs = [(int(first), int(length)) for first, length in pairs]
    end = 0
    for first, length in runs:
        if first < end or not length:
            raise ColumnError("its rows are not in order")
        end = first + length
    if end > count:
        raise ColumnError(f"it has rows up to {end}, and its time axis {count}")
    return runs


def _differences(width: int, count: int, text: str) -> "array.array[int]":
    if not width:
        return array.array("b", bytes(count))
    try:
        unpack = zlib.decompressobj()
        data = unpack.decompress(base64.b64decode(text, validate=True), width * count + 1)
    except (binascii.Error, zlib.error) as error:
        raise ColumnError(f"its differences cannot be unpacked ({error})") from error
    if len(data) != width * count:
        raise ColumnError(f"it has {len(data) / width:.0f} differences where its rows have {count}")
    differences = array.array(_WIDTHS[width])
    differences.frombytes(data)
    if sys.byteorder == "big":
        differences.byteswap()
    return differences
