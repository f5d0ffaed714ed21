"""PyTorch flight-recorder dumps (``nccl_trace_rank_<rank>``), read without executing anything from them.

A dump is a pickle of plain dicts, lists, strings and numbers. The loader refuses every reference to a class or
function, so a dump made by a stranger can only be read or rejected. A JSON form exists as well.
"""

import json
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, NoReturn

from diagnostics.errors import DiagnosticsError
from diagnostics.facts import FlightRecord
from diagnostics.parsers.base import compiled
from diagnostics.reader import DUMP_MARK, STANDARD_INPUT

MAX_DUMP_BYTES = 256 * 2**20
MAX_ENTRIES = 20_000


class DamagedDumpError(DiagnosticsError, ValueError):
    """A dump that is cut, foreign, or holds more than plain data."""


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"it refers to {module}.{name}; a dump holds plain data only")

    def persistent_load(self, pid: object) -> NoReturn:  # noqa: ARG002
        raise pickle.UnpicklingError("it refers to outside objects; a dump holds plain data only")


def is_dump(file: str) -> bool:
    """Whether the name, or the pickle mark of a file so named, says that it is a flight-recorder dump."""
    if file == STANDARD_INPUT or not Path(file).is_file():
        return False
    return DUMP_MARK in Path(file).name or Path(file).suffix in (".pkl", ".pickle")


def read_dump(file: str) -> FlightRecord:
    """The last collectives of one rank. Raises DamagedDumpError."""
    if Path(file).stat().st_size > MAX_DUMP_BYTES:
        raise DamagedDumpError(f"{file}: larger than {MAX_DUMP_BYTES >> 20} MiB, not read as a flight-recorder dump")
    with Path(file).open("rb") as stream:
        content = _load(stream, file)
    entries = content.get("entries") if isinstance(content, dict) else None
    if not isinstance(entries, (list, tuple)):
        raise DamagedDumpError(f"{file}: no list of entries, so it is not a flight-recorder dump")
    rows = tuple(_entry(entry) for entry in entries[:MAX_ENTRIES] if isinstance(entry, dict))
    last: dict[str, int] = {}
    for group, sequence, *_ in rows:
        last[group] = max(sequence, last.get(group, -1))
    return FlightRecord(rank=_rank(file, content), file=file, last_sequence=last, entries=rows)


def _load(stream: IO[bytes], file: str) -> Any:
    head = stream.read(1)
    stream.seek(0)
    try:
        return json.load(stream) if head == b"{" else _PlainUnpickler(stream).load()
    except (
        pickle.UnpicklingError,
        EOFError,
        ValueError,
        TypeError,
        IndexError,
        KeyError,
        AttributeError,
        MemoryError,
        OverflowError,
        RecursionError,
        ImportError,
    ) as error:
        raise DamagedDumpError(f"{file}: cannot be read as a flight-recorder dump: {error}") from error


def _entry(entry: Mapping[Any, Any]) -> tuple[str, int, str, str, str]:
    group = entry.get("process_group")
    name = group[0] if isinstance(group, (list, tuple)) and group else entry.get("pg_id", 0)
    sequence = entry.get("collective_seq_id", entry.get("seq_id", -1))
    operation = str(entry.get("profiling_name", ""))[:80].removeprefix("nccl:")
    sizes = str(entry.get("input_sizes", ""))[:120]
    return (
        str(name)[:40],
        sequence if isinstance(sequence, int) else -1,
        operation,
        str(entry.get("state", ""))[:20],
        sizes,
    )


def _rank(file: str, content: Mapping[Any, Any]) -> int:
    match = compiled(r"(\d{1,7})(?:\.\w+)?$").search(Path(file).name)
    rank = content.get("rank")
    return rank if isinstance(rank, int) else int(match[1]) if match else -1
