"""Files, folders, globs, standard input and compressed logs to blocks of raw lines, in constant memory."""

import bz2
import codecs
import glob
import gzip
import lzma
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol, cast

from diagnostics.errors import UnreadableInputError

CHUNK_BYTES = 2**20  # stays in the processor's cache between its passes
MAX_LINE_BYTES = 64 * 2**10  # the rest of a longer line is skipped; NCCL's own lines end at 1 KiB, lists at a few
MAX_EXPANSION = (
    2000  # decompressed over compressed; deflate ends at 1032, so only a bomb made for the purpose gets there
)
MIN_BOMB_BYTES = 2**28
STANDARD_INPUT = "-"
_SKIPPED_SUFFIXES = {".py", ".pyc", ".so", ".json", ".html", ".png", ".xml", ".csv", ".sqlite", ".nsys-rep"}
DUMP_MARK = "nccl_trace_rank"
_STEP_BYTES = 2**16
_PACKED_MARKS = (b"\x1f\x8b", b"\xfd7zXZ", b"BZh", b"\x28\xb5\x2f\xfd")
_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class Readable(Protocol):
    """The part of a binary stream that is used."""

    def read(self, size: int, /) -> bytes:
        """Up to ``size`` bytes; empty at the end."""

    def close(self) -> None:
        """Release the stream."""


class _Stepwise(Protocol):
    """The part of a decompressor's stream that is used."""

    def read1(self, size: int, /) -> bytes:
        """What is there, up to ``size`` bytes; empty at the end."""

    def close(self) -> None:
        """Release the stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Complete lines of one file as one block, newlines between them only. ``first``: the file starts here."""

    file: str
    block: bytes
    first: bool = False
    note: str | None = None


def list_inputs(paths: Sequence[str | Path]) -> list[str]:
    """Every file that the paths, folders and globs name, once, in a stable order. Raises UnreadableInputError."""
    found: dict[str, str] = {}
    for path in paths:
        for name in _expand(str(path)):
            found.setdefault(name if name == STANDARD_INPUT else os.path.realpath(name), name)
    return list(found.values())


def _expand(path: str) -> list[str]:
    if path == STANDARD_INPUT:
        return [path]
    if Path(path).is_dir():
        files = sorted(str(file) for file in Path(path).rglob("*") if file.is_file() and not file.name.startswith("."))
        files = [file for file in files if Path(file).suffix not in _SKIPPED_SUFFIXES or DUMP_MARK in file]
        if not files:
            raise UnreadableInputError(f"'{path}' holds no log file; name a folder or file with NCCL output")
        return files
    if Path(path).exists():
        return [path]
    matches = sorted(name for name in glob.glob(path, recursive=True) if Path(name).is_file())  # noqa: PTH207
    if not matches:
        raise UnreadableInputError(f"'{path}' does not exist and matches no file; check the path")
    return matches


def read_batches(file: str, chunk_bytes: int = CHUNK_BYTES) -> Iterator[Batch]:
    """Batches of lines of one file. Raises UnreadableInputError when it cannot be opened.

    A file that breaks off in the middle (cut gzip member, input/output error) gives what could be read and a last
    batch with a note.
    """
    try:
        stream = _open(file)
    except (OSError, EOFError, lzma.LZMAError) as error:
        raise UnreadableInputError(f"cannot read '{file}': {error}; check that it exists and may be read") from error
    with closing(stream):
        yield from split_stream(stream, file, chunk_bytes)


def split_stream(stream: Readable, file: str, chunk_bytes: int = CHUNK_BYTES) -> Iterator[Batch]:
    """Blocks of lines of an open stream. Of a line longer than MAX_LINE_BYTES the end may be missing."""
    tail, first, note = b"", True, None
    while True:
        try:
            chunk = stream.read(chunk_bytes)
        except (OSError, EOFError, ValueError, lzma.LZMAError, _zstd_error()) as error:
            chunk, note = b"", f"{file}: reading stopped early: {error or type(error).__name__}"
        if not chunk:
            break
        end = chunk.rfind(b"\n")
        if end < 0:
            tail = (tail + chunk)[: MAX_LINE_BYTES + 1]
            continue
        block = b"".join((tail, memoryview(chunk)[:end]))
        tail = chunk[end + 1 :]
        yield Batch(file=file, block=block, first=first)
        first = False
    if tail or note:
        yield Batch(file=file, block=tail, first=first, note=note)


def is_packed(head: bytes) -> bool:
    """Whether a file that begins so is compressed, in a way that is read here."""
    return head.startswith(_PACKED_MARKS)


def utf16_decoder(head: bytes) -> codecs.IncrementalDecoder | None:
    """What decodes a file that begins so, if that is the mark of UTF-16."""
    return codecs.getincrementaldecoder("utf-16")("replace") if head.startswith(_UTF16_MARKS) else None


def _open(file: str) -> Readable:
    raw = _standard_input() if file == STANDARD_INPUT else Path(file).open("rb")  # noqa: SIM115 - closed by the caller
    source = _Source(raw)
    opened = _decompressor(source, file)
    if opened is not None:
        return _Bounded(opened, source)
    decoder = utf16_decoder(source.head)
    return _FromUtf16(source, decoder) if decoder is not None else source


def _standard_input() -> IO[bytes]:
    if sys.stdin is None:
        raise UnreadableInputError("standard input is closed; name a file, or feed it through a pipe")
    return sys.stdin.buffer


def _decompressor(source: "_Source", file: str) -> _Stepwise | None:
    raw = cast("IO[bytes]", source)
    if source.head.startswith(b"\x1f\x8b"):
        return cast("_Stepwise", gzip.open(raw))
    if source.head.startswith(b"\xfd7zXZ"):
        return cast("_Stepwise", lzma.open(raw))
    if source.head.startswith(b"BZh"):
        return cast("_Stepwise", bz2.open(raw))
    if source.head.startswith(b"\x28\xb5\x2f\xfd"):
        return _open_zstd(raw, file)
    return None


def _open_zstd(raw: IO[bytes], file: str) -> _Stepwise:
    try:
        import zstandard  # noqa: PLC0415 - optional
    except ImportError:
        raise UnreadableInputError(
            f"'{file}' is compressed with zstd, which needs the zstandard package: pip install zstandard"
        ) from None
    return cast(
        "_Stepwise", zstandard.ZstdDecompressor(max_window_size=2**27).stream_reader(raw, read_across_frames=True)
    )


def _zstd_error() -> type[Exception]:
    module = sys.modules.get("zstandard")
    return cast("type[Exception]", module.ZstdError) if module else EOFError


class _FromUtf16:
    """A stream that begins with the mark of UTF-16, as PowerShell writes what it redirects, in UTF-8."""

    def __init__(self, raw: Readable, decoder: codecs.IncrementalDecoder) -> None:
        self._raw, self._decoder = raw, decoder

    def read(self, size: int, /) -> bytes:
        while chunk := self._raw.read(size):
            if text := self._decoder.decode(chunk):
                return text.encode("utf-8", "replace")
        return self._decoder.decode(b"", final=True).encode("utf-8", "replace")

    def close(self) -> None:
        self._raw.close()


class _Source:
    """An open file or pipe whose first bytes were looked at without being lost. ``taken``: bytes read so far."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw = raw
        self.head = self._rest = raw.read(6)
        self.taken = 0

    def read(self, size: int = -1, /) -> bytes:
        part = self._rest[:size] if size >= 0 else self._rest
        self._rest = self._rest[len(part) :]
        part = part or self._raw.read(size)
        self.taken += len(part)
        return part

    def close(self) -> None:
        self._raw.close()


class _Bounded:
    """A decompressed stream, taken in small steps: what stands before a damaged place is not lost.

    It ends where its expansion becomes absurd.
    """

    def __init__(self, opened: _Stepwise, source: _Source) -> None:
        self._opened, self._source, self._total = opened, source, 0
        self._error: Exception | None = None

    def read(self, size: int, /) -> bytes:
        if self._error is not None:
            raise self._error
        parts: list[bytes] = []
        taken = 0
        while taken < size:
            try:
                part = self._step()
            except (OSError, EOFError, ValueError, lzma.LZMAError, _zstd_error()) as error:
                self._error = error
                if not parts:
                    raise
                break
            if not part:
                break
            parts.append(part)
            taken += len(part)
        return b"".join(parts)

    def _step(self) -> bytes:
        part = self._opened.read1(_STEP_BYTES)
        self._total += len(part)
        if self._total > MIN_BOMB_BYTES and self._total > MAX_EXPANSION * max(1, self._source.taken):
            raise UnreadableInputError(f"it expands more than {MAX_EXPANSION} times, like a decompression bomb")
        return part

    def close(self) -> None:
        self._opened.close()
        self._source.close()
