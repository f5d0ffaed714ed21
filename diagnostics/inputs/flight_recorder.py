"""PyTorch flight-recorder dumps (``nccl_trace_rank_<rank>``), read without executing or believing anything in them.

A dump is a pickle of plain dicts, lists, strings and numbers (``plain_pickle``), or JSON. What others made can only
be read or rejected: its size, its work and what is made of it are bounded, and so is what all dumps together may take.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from diagnostics.errors import DiagnosticsError
from diagnostics.inputs.files import DUMP_KEYS, DUMP_MARK, STANDARD_INPUT, Input, holds, open_input
from diagnostics.inputs.plain_pickle import NotPlainError, load_plain

if TYPE_CHECKING:
    from diagnostics.facts import FlightRecord

MAX_DUMP_BYTES = 64 * 2**20
MAX_JSON_VALUES = 2_000_000  # brackets, braces and commas; a value takes 60 bytes and more
MAX_ENTRIES = 20_000  # of one dump, the newest
MAX_ALL_ENTRIES = 1_000_000  # of all dumps; those that come later keep MIN_ENTRIES
MIN_ENTRIES = 50
MAX_TIMES = 200  # of one dump, the newest
MAX_SEQUENCE = 2**63
MAX_RANK = 10**7
_MAX_SIZES_CHARACTERS = 120
_Entry = tuple[str, int, str, str, str]


class DamagedDumpError(DiagnosticsError, ValueError):
    """A dump that is cut, foreign, too large, or holds more than plain data."""


@dataclass(slots=True)
class Recorder:
    """Reads dumps one after another, within a bound for all of them."""

    _left: int = MAX_ALL_ENTRIES
    _texts: dict[str, str] = field(default_factory=dict)

    def read(self, dump: Input | str) -> "FlightRecord":
        """The last collectives of one rank. Raises DamagedDumpError; OSError where the file cannot be opened."""
        from diagnostics.facts import FlightRecord  # seldom needed where files are only found

        one = dump if isinstance(dump, Input) else Input(name=dump)
        content = _load(one)
        entries = content.get("entries") if isinstance(content, dict) else None
        if not isinstance(content, dict) or not isinstance(entries, (list, tuple)):
            raise DamagedDumpError(f"{one.name}: no list of entries, so it is not a flight-recorder dump")
        kept = entries[-min(MAX_ENTRIES, max(MIN_ENTRIES, self._left)) :]
        rows = tuple(self._entry(entry) for entry in kept if isinstance(entry, dict))
        self._left -= len(rows)
        last: dict[str, int] = {}
        for group, sequence, *_ in rows:
            last[group] = max(sequence, last.get(group, -1))
        return FlightRecord(
            rank=_rank(one.name, content),
            file=one.name,
            last_sequence=last,
            entries=rows,
            created_ns=self._created([entry for entry in kept[-MAX_TIMES:] if isinstance(entry, dict)]),
        )

    def _created(self, entries: Sequence[Mapping[str, object]]) -> dict[tuple[str, int], int]:
        times = ((self._entry(entry)[:2], entry.get("time_created_ns")) for entry in entries)
        return {key: time for key, time in times if type(time) is int and 0 < time < MAX_SEQUENCE}

    def _entry(self, entry: Mapping[str, object]) -> _Entry:
        group = entry.get("process_group")
        name = group[0] if isinstance(group, (list, tuple)) and group else entry.get("pg_id", 0)
        sequence = entry.get("collective_seq_id", entry.get("seq_id", -1))
        return (
            self._shared(_word(name, 40)),
            sequence if type(sequence) is int and 0 <= sequence < MAX_SEQUENCE else -1,
            self._shared(_word(entry.get("profiling_name", ""), 80).removeprefix("nccl:")),
            self._shared(_word(entry.get("state", ""), 20)),
            self._shared(_sizes(entry.get("input_sizes", ""))),
        )

    def _shared(self, text: str) -> str:
        """The text, held once: a dump says the same few things thousands of times."""
        if len(self._texts) >= MAX_ENTRIES:
            return self._texts.get(text, text)
        return self._texts.setdefault(text, text)


def is_dump(name: str) -> bool:
    """Whether a file is so named as a flight-recorder dump is, or is JSON that begins as one in that form."""
    if name == STANDARD_INPUT:
        return False
    if DUMP_MARK in Path(name).name or Path(name).suffix in (".pkl", ".pickle"):
        return True
    return Path(name).suffix == ".json" and holds(Input(name=name), DUMP_KEYS)


def _load(one: Input) -> object:
    stream = open_input(one)
    try:
        data = stream.read(MAX_DUMP_BYTES + 1)
    finally:
        stream.close()
    if len(data) > MAX_DUMP_BYTES:
        raise DamagedDumpError(
            f"{one.name}: larger than {MAX_DUMP_BYTES >> 20} MiB, not read as a flight-recorder dump"
        )
    try:
        return _load_json(data) if data.lstrip()[:1] == b"{" else load_plain(data)
    except (NotPlainError, ValueError, RecursionError, MemoryError) as error:
        reason = str(error) or "it is nested too deeply"
        raise DamagedDumpError(f"{one.name}: cannot be read as a flight-recorder dump: {reason}") from error


def _load_json(data: bytes) -> object:
    if sum(data.count(sign) for sign in (b"[", b"{", b",")) > MAX_JSON_VALUES:
        raise NotPlainError(f"it holds more than {MAX_JSON_VALUES:,} values")
    return json.loads(data, parse_constant=float, parse_int=_integer)


def _integer(digits: str) -> int:
    return int(digits) if len(digits) < 20 else -1  # no number of a dump is longer; thousands of digits take minutes


def _word(value: object, limit: int) -> str:
    """A text or a number, cut; nothing for what else stands where one is expected."""
    if isinstance(value, str):
        return value[:limit]
    return str(value)[:limit] if type(value) is int and abs(value) < MAX_SEQUENCE else ""


def _sizes(value: object) -> str:
    """``[[4, 1024], [4]]`` as text, cut: two levels of numbers, whatever else is inside."""
    if not isinstance(value, (list, tuple)):
        return _word(value, _MAX_SIZES_CHARACTERS)
    shapes: list[str] = []
    for shape in islice(value, _MAX_SIZES_CHARACTERS):
        numbers: Sequence[object] = shape[:_MAX_SIZES_CHARACTERS] if isinstance(shape, (list, tuple)) else ()
        shapes.append(
            f"[{', '.join(_word(number, 20) for number in numbers)}]" if numbers else _word(shape, 20) or "[]"
        )
    return f"[{', '.join(shapes)}]"[:_MAX_SIZES_CHARACTERS]


def _rank(name: str, content: Mapping[str, object]) -> int:
    match = re.search(r"(\d{1,7})(?:\.\w+)?$", Path(name).name)
    rank = content.get("rank")
    if type(rank) is int and 0 <= rank < MAX_RANK:
        return rank
    return int(match[1]) if match else -1
