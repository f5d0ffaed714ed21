"""Pickles of plain data, read by an interpreter of the few instructions that plain data needs.

Python's own loader trusts what it reads: nine bytes make it take four gigabytes, and it calls what it is told to call.
Here nothing can be called, the memo is a table of what was really stored, and the work and the objects of one pickle
are counted. Lists may still hold each other many times over: who walks the result bounds the walk.
"""

import struct
from collections.abc import Callable, Mapping

from diagnostics.errors import DiagnosticsError

MAX_INSTRUCTIONS = 6_000_000  # a dump of 20,000 collectives with their stacks has about five million
MAX_CONTAINERS = 1_500_000  # of at most about 230 bytes while they hold one thing
MAX_MEMO = 2_500_000  # of about 110 bytes each; a writer stores each list, dict and text once
MAX_OPEN_MARKS = 1000  # a dump has five levels


class NotPlainError(DiagnosticsError, ValueError):
    """A pickle that is cut, holds more than plain data, or more of it than is read."""


def load_plain(data: bytes) -> object:
    """The dicts, lists, tuples, texts and numbers of a pickle of protocol 1 to 5. Raises NotPlainError.

    Keys that are no text are left out with their values: hashes of numbers can be chosen to collide.
    """
    try:
        return _Interpreter(data).run()
    except (IndexError, KeyError, TypeError, AttributeError, struct.error) as error:
        raise NotPlainError("it is cut, or no pickle") from error


class _Interpreter:
    """The stack, the marks and the memo of one pickle."""

    __slots__ = ("containers", "data", "marks", "memo", "place", "stack")

    def __init__(self, data: bytes) -> None:
        self.data, self.place, self.containers = data, 0, 0
        self.stack: list[object] = []
        self.marks: list[list[object]] = []
        self.memo: dict[int, object] = {}

    def remember(self, key: int) -> None:
        if len(self.memo) >= MAX_MEMO:
            raise NotPlainError(f"it stores more than {MAX_MEMO:,} values to use again")
        self.memo[key] = self.stack[-1]

    def run(self) -> object:
        data, table = self.data, _INSTRUCTIONS
        for _ in range(MAX_INSTRUCTIONS):
            code = data[self.place]
            self.place += 1
            if code == _STOP:
                return self.stack.pop()
            instruction = table.get(code)
            if instruction is None:
                raise NotPlainError(f"it holds the instruction {code:#04x}; a dump holds plain data only")
            instruction(self)
        raise NotPlainError(f"it has more than {MAX_INSTRUCTIONS:,} instructions")

    def take(self, size: int) -> bytes:
        part = self.data[self.place : self.place + size]
        self.place += size
        if len(part) < size:
            raise IndexError
        return part

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "little")

    def push_container(self, value: object) -> None:
        self.containers += 1
        if self.containers > MAX_CONTAINERS:
            raise NotPlainError(f"it has more than {MAX_CONTAINERS:,} lists and dicts")
        self.stack.append(value)

    def pop_mark(self) -> list[object]:
        items, self.stack = self.stack, self.marks.pop()
        return items

    def mark(self) -> None:
        if len(self.marks) >= MAX_OPEN_MARKS:
            raise NotPlainError(f"it is nested more than {MAX_OPEN_MARKS} levels deep")
        self.marks.append(self.stack)
        self.stack = []

    def long(self) -> None:
        self.stack.append(int.from_bytes(self.take(self.number(1)), "little", signed=True))

    def last_tuple(self, size: int) -> None:
        items = self.stack[-size:]
        if len(items) < size:
            raise IndexError
        del self.stack[-size:]
        self.push_container(tuple(items))

    def append(self) -> None:
        value = self.stack.pop()
        _as_list(self.stack[-1]).append(value)

    def extend(self) -> None:
        items = self.pop_mark()
        _as_list(self.stack[-1]).extend(items)

    def set_item(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        _store(self.stack[-1], [key, value])

    def set_items(self) -> None:
        items = self.pop_mark()
        _store(self.stack[-1], items)

    def new_dict(self) -> None:
        made: dict[object, object] = {}
        _store(made, self.pop_mark())
        self.push_container(made)


def _as_list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise TypeError
    return value


def _store(target: object, items: list[object]) -> None:
    if not isinstance(target, dict) or len(items) % 2:
        raise TypeError
    target.update((key, value) for key, value in zip(items[::2], items[1::2], strict=True) if isinstance(key, str))


def _text(length_bytes: int) -> Callable[[_Interpreter], None]:
    def instruction(self: _Interpreter) -> None:
        self.stack.append(self.take(self.number(length_bytes)).decode("utf-8", "replace"))

    return instruction


def _skip(size: int) -> Callable[[_Interpreter], None]:
    def instruction(self: _Interpreter) -> None:
        self.take(size)

    return instruction


def _signed(size: int, *, signed: bool) -> Callable[[_Interpreter], None]:
    def instruction(self: _Interpreter) -> None:
        self.stack.append(int.from_bytes(self.take(size), "little", signed=signed))

    return instruction


def _constant(value: object) -> Callable[[_Interpreter], None]:
    return lambda self: self.stack.append(value)


def _put(length_bytes: int) -> Callable[[_Interpreter], None]:
    def instruction(self: _Interpreter) -> None:
        self.remember(self.number(length_bytes))

    return instruction


def _get(length_bytes: int) -> Callable[[_Interpreter], None]:
    def instruction(self: _Interpreter) -> None:
        self.stack.append(self.memo[self.number(length_bytes)])

    return instruction


_STOP = ord(".")
_INSTRUCTIONS: Mapping[int, Callable[[_Interpreter], None]] = {
    0x80: _skip(1),  # the protocol
    0x95: _skip(8),  # the length of a frame, which is of use to readers of streams only
    ord("("): _Interpreter.mark,
    ord("0"): lambda self: _ignore(self.stack.pop()),
    ord("1"): lambda self: _ignore(self.pop_mark()),
    ord("2"): lambda self: self.stack.append(self.stack[-1]),
    ord("N"): _constant(None),
    0x88: _constant(True),
    0x89: _constant(False),
    ord("J"): _signed(4, signed=True),
    ord("K"): _signed(1, signed=False),
    ord("M"): _signed(2, signed=False),
    0x8A: _Interpreter.long,
    ord("G"): lambda self: self.stack.append(struct.unpack(">d", self.take(8))[0]),
    ord("U"): _text(1),
    ord("T"): _text(4),
    ord("C"): _text(1),
    ord("B"): _text(4),
    0x8E: _text(8),
    0x8C: _text(1),
    ord("X"): _text(4),
    0x8D: _text(8),
    ord("]"): lambda self: self.push_container([]),
    ord("a"): _Interpreter.append,
    ord("e"): _Interpreter.extend,
    ord("l"): lambda self: self.push_container(self.pop_mark()),
    ord("}"): lambda self: self.push_container({}),
    ord("s"): _Interpreter.set_item,
    ord("u"): _Interpreter.set_items,
    ord("d"): _Interpreter.new_dict,
    ord(")"): _constant(()),
    ord("t"): lambda self: self.push_container(tuple(self.pop_mark())),
    0x85: lambda self: self.last_tuple(1),
    0x86: lambda self: self.last_tuple(2),
    0x87: lambda self: self.last_tuple(3),
    ord("q"): _put(1),
    ord("r"): _put(4),
    0x94: lambda self: self.remember(len(self.memo)),
    ord("h"): _get(1),
    ord("j"): _get(4),
}


def _ignore(_value: object) -> None:
    """Drop what an instruction takes off the stack."""
