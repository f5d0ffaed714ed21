"""Local text to learn from: plain text, JSON lines, parquet or Arrow, one file or a folder.

No torch: the driver looks as well. Nothing that is read is evaluated.
"""

import itertools
import json
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from raybench.errors import UsageError

MOST_BYTES = 2**28  # of text that a rank holds; what is beyond is not read
_LONGEST_LINE = 2**24
_MOST_FILES = 10_000
_INDEXED = b"ARROW1"  # how an Arrow file with an index begins
_FIELDS = ("text", "content")  # of a line or a row, the first that is there


def check_data(name: str) -> None:
    """Raises UsageError where the file or folder is not there, has no text of a known format, or lacks a library."""
    first_text(name)


def first_text(name: str) -> bytes:
    """The first document, or piece of one. Raises UsageError as ``check_data`` does."""
    for text in _texts(name):
        return text
    raise UsageError(f"--data {name} has no text; give text, JSON lines, parquet or Arrow, a file or a folder of such")


def read_text(name: str) -> tuple[bytes, bool]:
    """The text of all files, a line end between documents, and whether there is more than MOST_BYTES of it.

    Raises UsageError as ``check_data`` does.
    """
    parts, size = [], 0
    for text in _texts(name):
        parts.append(text[: MOST_BYTES - size])
        size += len(parts[-1]) + 1
        if size >= MOST_BYTES:
            return b"\n".join(parts), True
    return b"\n".join(parts), False


def _texts(name: str) -> Iterator[bytes]:
    """Documents, or pieces of one, of every file in the order of names."""
    for path in _files(name):
        try:
            yield from _READERS[path.suffix.lower()](path)
        except UsageError:
            raise
        except (OSError, ValueError) as error:
            raise _unreadable(str(path), error) from error


def _files(name: str) -> list[Path]:
    path = Path(name)
    try:
        if not path.is_dir():
            path.stat()
            found = [path]
        else:
            found = sorted(
                itertools.islice((one for one in path.iterdir() if one.suffix.lower() in _READERS), _MOST_FILES)
            )
            if any(one.suffix.lower() == ".arrow" for one in found):  # the others tell of the data set
                found = [one for one in found if one.suffix.lower() == ".arrow"]
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise _unreadable(name, error) from error
    if not found or found[0].suffix.lower() not in _READERS:
        raise UsageError(
            f"--data {name} has no file that can be read: {', '.join(_READERS)} are; or take --data text, --data spiral"
        )
    return found


def _unreadable(name: str, error: Exception) -> UsageError:
    reason = getattr(error, "strerror", None) or error
    return UsageError(
        f"--data {name} cannot be read on {platform.node()} ({reason}); every node needs that file; --data text is "
        "made on the spot"
    )


def _plain(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while part := file.read(2**20):
            yield part


def _json_lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        for number in itertools.count(1):
            line = file.readline(_LONGEST_LINE)
            if not line:
                return
            if line.strip():
                yield _of_line(path, number, line)


def _of_line(path: Path, number: int, line: bytes) -> bytes:
    try:
        content = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"--data {path}: line {number} is not JSON ({error}); one object a line is read") from error
    text = _field(content) if isinstance(content, Mapping) else None
    if text is None:
        raise UsageError(f"--data {path}: line {number} has no text in {' or '.join(map(repr, _FIELDS))}")
    return text.encode("utf-8", "replace")


def _field(content: Mapping[str, Any]) -> str | None:
    return next((text for name in _FIELDS if isinstance(text := content.get(name), str)), None)


def _parquet(path: Path) -> Iterator[bytes]:
    pyarrow = _pyarrow(path)
    try:
        file = pyarrow.parquet.ParquetFile(path)
        column = _column(path, file.schema_arrow.names)
        for batch in file.iter_batches(batch_size=256, columns=[column]):
            yield from _of_column(batch.column(0))
    except pyarrow.ArrowException as error:
        raise UsageError(f"--data {path} is not a parquet file that can be read: {error}") from error


def _arrow(path: Path) -> Iterator[bytes]:
    """A stream, as ``save_to_disk`` of ``datasets`` writes, or a file with an index."""
    pyarrow = _pyarrow(path)
    try:
        with pyarrow.memory_map(str(path)) as source:
            for batch in _batches(pyarrow, source):
                yield from _of_column(batch.column(batch.schema.names.index(_column(path, batch.schema.names))))
    except pyarrow.ArrowException as error:
        raise UsageError(f"--data {path} is not an Arrow file that can be read: {error}") from error


def _batches(pyarrow: Any, source: Any) -> Iterator[Any]:
    if source.read(len(_INDEXED)) != _INDEXED:
        source.seek(0)
        yield from pyarrow.ipc.open_stream(source)
        return
    reader = pyarrow.ipc.open_file(source)
    yield from map(reader.get_batch, range(reader.num_record_batches))


def _pyarrow(path: Path) -> Any:
    try:
        import pyarrow  # an optional library, which datasets brings along
        import pyarrow.parquet
    except ImportError as error:
        raise UsageError(
            f"--data {path} needs pyarrow, which is not installed on {platform.node()}: pip install pyarrow (or "
            "datasets); or give text or JSON lines"
        ) from error
    return pyarrow


def _column(path: Path, names: Iterable[str]) -> str:
    known = {*names}
    column = next((name for name in _FIELDS if name in known), None)
    if column is None:
        raise UsageError(f"--data {path} has no column {' or '.join(map(repr, _FIELDS))}")
    return column


def _of_column(column: Any) -> Iterator[bytes]:
    return (str(text).encode("utf-8", "replace") for text in column.to_pylist() if text)


_READERS: Mapping[str, Callable[[Path], Iterable[bytes]]] = {
    ".txt": _plain, ".md": _plain, ".text": _plain, ".jsonl": _json_lines, ".json": _json_lines, ".ndjson": _json_lines,
    ".parquet": _parquet, ".arrow": _arrow,
}  # fmt: skip
