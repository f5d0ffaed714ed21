"""Files, pipes and compressed logs to blocks of raw lines, in constant memory."""

import bz2
import codecs
import gzip
import lzma
import os
import re
import sys
import zlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import IO, Protocol, cast

from diagnostics.errors import UnreadableInputError
from diagnostics.inputs.blocks import newlines
from diagnostics.inputs.files import STANDARD_INPUT, Input, input_size, open_input
from diagnostics.scanning.search import holds_any

CHUNK_BYTES = 120 * 2**10  # stays in the cache between its passes; malloc asks the kernel for what is larger each time
MAX_LINE_BYTES = 64 * 2**10  # the middle of a longer line is skipped; NCCL's own lines end at 1 KiB, lists at a few
END_BYTES = 2**12  # of such a line: what failed stands at its front or its end
MAX_EXPANSION = (
    2000  # decompressed over compressed; deflate ends at 1032, so only a bomb made for the purpose gets there
)
MIN_BOMB_BYTES = 2**28
MAX_LARGE_EXPANSION = 500  # of what has become larger than LARGE_BYTES: no log repeats itself that much for so long
LARGE_BYTES = 2**29
MAX_XZ_MEMORY_BYTES = 2**27  # xz -9 takes 65 MiB to decompress; an archive may name any amount
_STEP_BYTES = 2**16
MAX_SPREAD_BYTES = 2**26  # of the lines of one JSON document, in which no file is cut
_JSON_LINE = re.compile(rb'\s*(?:["\]}]|[\[{]\s*$|(?:-?[\d.]{1,20}|true|false|null),?\s*$)')
TRACE_HEAD_BYTES = 2**16
A_TRACE = (
    "it is a trace of a profiler (Kineto, Chrome's format), not a log: open it in https://ui.perfetto.dev, or compare "
    "ranks with HolisticTraceAnalysis"
)
RAS_MARKS = (b'"missing_ranks_count"', b'"PEER_DEAD"')  # in what NCCL's RAS writes, before the objects of its ranks
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
    """Complete lines of one file as one block, newlines between them only. ``first``: reading starts, at ``line``.

    ``place`` is the byte at which the block begins in the file, or in what the file holds once unpacked. Where JSON
    objects are brought on a line each, ``skipped`` lines are between the batch before and this one; -1 where it begins
    on that one's last line. ``torn``: its last line goes on in the next batch. ``unended``: its last line has no end.
    """

    file: str
    block: bytes
    place: int = 0
    first: bool = False
    line: int = 1
    skipped: int | None = None
    torn: bool = False
    unended: bool = False
    note: str | None = None

    @property
    def lines(self) -> int:
        """How many lines end with it."""
        return newlines(self.block) + (not self.torn)

    @property
    def stop(self) -> int:
        """The byte behind it and the end of its last line."""
        return self.place + len(self.block) + (not self.torn)


def read_batches(file: str | Input, chunk_bytes: int = CHUNK_BYTES) -> Iterator[Batch]:
    """Batches of lines of one file. Raises UnreadableInputError when it cannot be opened.

    A file that breaks off in the middle (cut gzip member, input/output error) gives what could be read and a last
    batch with a note.
    """
    one = file if isinstance(file, Input) else Input(name=file)
    try:
        stream = _open(one)
    except UnreadableInputError:
        raise
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise UnreadableInputError(
            f"cannot read '{one.name}': {error}; check that it exists and may be read"
        ) from error
    with closing(stream):
        yield from split_stream(stream, one.name, chunk_bytes)


def plain_size(one: Input) -> int | None:
    """The size of a regular file that is read as it is; None of a pipe, of what is packed, and where it is refused."""
    if one.name == STANDARD_INPUT or not os.path.isfile(one.name):  # noqa: PTH113 - a pipe can be read but once
        return None
    try:
        with closing(open_input(one)) as stream:
            head = stream.read(6) or b""
        return None if is_packed(head) or head.startswith(_UTF16_MARKS) else input_size(one)
    except (OSError, UnreadableInputError):
        return None


def read_range(one: Input, start: int, end: int) -> Iterator[Batch]:
    """The lines of a plain file from one byte to another, both at the start of a line. Raises UnreadableInputError."""
    try:
        stream = open_input(one, start)
    except OSError as error:
        raise UnreadableInputError(f"cannot read '{one.name}': {error}; check that it may be read") from error
    with closing(stream):
        yield from split_stream(_Limited(stream, end - start), one.name, place=start)


def read_lines_begun(one: Input, start: int, end: int) -> Iterator[Batch]:
    """The lines of a plain file that begin between two bytes. Raises UnreadableInputError."""
    yield from read_range(one, line_from(one, start), line_from(one, end))


def line_from(one: Input, place: int) -> int:
    """Where the first line begins that does not begin before a place, or the end of the file."""
    if place == 0:
        return 0
    with closing(open_input(one, place - 1)) as stream:
        while block := stream.read(_STEP_BYTES):
            if (found := block.find(b"\n")) >= 0:
                return place + found
            place += len(block)
    return place - 1


def cut_from(one: Input, place: int) -> int:
    """Where the first line begins, from a place on, before which a file may be cut: in no JSON spread over lines.

    Where JSON goes on for MAX_SPREAD_BYTES, it is cut all the same.
    """
    begin = at = line_from(one, place)
    with closing(open_input(one, at)) as stream:
        for batch in split_stream(stream, one.name, _STEP_BYTES, at):
            for line in batch.block.split(b"\n"):
                if not _is_within_json(line):
                    return at
                at += len(line) + 1
            if at - begin > MAX_SPREAD_BYTES:
                return begin
    return at


def _is_within_json(line: bytes) -> bool:
    """Whether a line is one of several of a JSON document; an object that is complete on its line is by itself."""
    if line.lstrip()[:1] == b"{" and line.count(b"{") != line.count(b"}"):
        return True
    return _JSON_LINE.match(line) is not None


def bounded(line: bytes, ending: bytes = b"") -> bytes:
    """A line without its middle where it is too long, or goes on up to ``ending``."""
    if len(line) <= MAX_LINE_BYTES and not ending:
        return line
    return line[: MAX_LINE_BYTES - END_BYTES - 5] + b" ... " + (ending or line)[-END_BYTES:]


def split_stream(stream: Readable, file: str, chunk_bytes: int = CHUNK_BYTES, place: int = 0) -> Iterator[Batch]:
    """Blocks of lines of an open stream that begins at ``place``.

    Of a line longer than MAX_LINE_BYTES, then a block by itself, the middle may be missing. A document of NCCL's
    RAS on one line comes in several blocks, each of which ends behind a brace.
    """
    tail, first, note, dropped, torn = b"", True, None, 0, False
    ending = b""  # of a line that is too long
    while True:
        try:
            chunk = stream.read(chunk_bytes)
        except (OSError, EOFError, ValueError, lzma.LZMAError, zlib.error, _zstd_error()) as error:
            chunk, note = b"", f"{file}: reading stopped early: {error or type(error).__name__}"
        if not chunk:
            break
        end = chunk.rfind(b"\n")
        if end < 0:
            whole = len(tail) + len(chunk)
            tail = tail + chunk
            torn = torn or (whole > MAX_LINE_BYTES and not dropped and is_of_ras(tail))
            if torn and (done := tail.rfind(b"}") + 1):
                yield Batch(file=file, block=tail[:done], place=place, first=first, torn=True)
                place, tail, first = place + done, tail[done:], False
                continue
            ending = (ending + tail[MAX_LINE_BYTES + 1 :])[-END_BYTES:]
            tail, torn = tail[: MAX_LINE_BYTES + 1], False
            dropped += whole - len(tail)
            continue
        begin = 0
        if dropped:
            begin = chunk.find(b"\n") + 1
            ending = (ending + chunk[: begin - 1])[-END_BYTES:]
            yield Batch(file=file, block=bounded(tail, ending), place=place, first=first)
            place += len(tail) + dropped + begin
            tail, ending, dropped, first = b"", b"", 0, False
            if begin > end:
                tail = chunk[begin:]
                continue
        block = b"".join((tail, memoryview(chunk)[begin:end]))
        tail, torn = chunk[end + 1 :], False
        yield Batch(file=file, block=block, place=place, first=first)
        place += len(block) + 1
        first = False
    if tail or note or torn:
        block = bounded(tail, ending) if dropped else tail
        yield Batch(file=file, block=block, place=place, first=first, unended=bool(tail), note=note)


def is_of_ras(block: bytes) -> bool:
    """Whether objects of RAS begin in a block; a quote is found much faster than a word, and most blocks have none."""
    return b'"' in block and holds_any(block, RAS_MARKS)


def is_trace(block: bytes) -> bool:
    """Whether a file that begins so is a trace in Chrome's format, such as PyTorch's profiler (Kineto) writes."""
    head = block[:TRACE_HEAD_BYTES].lstrip()
    return head.startswith(b"{") and (
        b'"traceEvents"' in head or (b'"schemaVersion"' in head and b'"deviceProperties"' in head)
    )


def is_packed(head: bytes) -> bool:
    """Whether a file that begins so is compressed, in a way that is read here."""
    return head.startswith(_PACKED_MARKS)


def utf16_decoder(head: bytes) -> codecs.IncrementalDecoder | None:
    """What decodes a file that begins so, if that is the mark of UTF-16."""
    return codecs.getincrementaldecoder("utf-16")("replace") if head.startswith(_UTF16_MARKS) else None


def _open(one: Input) -> Readable:
    source = _Source(open_input(one))
    opened = _decompressor(source, one.name)
    if opened is not None:
        return _Bounded(opened, source)
    decoder = utf16_decoder(source.head)
    return _FromUtf16(source, decoder) if decoder is not None else source


def _decompressor(source: "_Source", file: str) -> _Stepwise | None:
    raw = cast("IO[bytes]", source)
    if source.head.startswith(b"\x1f\x8b"):
        return cast("_Stepwise", gzip.open(raw))
    if source.head.startswith(b"\xfd7zXZ"):
        return _Xz(source)
    if source.head.startswith(b"BZh"):
        return cast("_Stepwise", bz2.open(raw))
    if source.head.startswith(b"\x28\xb5\x2f\xfd"):
        return _open_zstd(raw, file)
    return None


def _open_zstd(raw: IO[bytes], file: str) -> _Stepwise:
    try:
        import zstandard  # optional
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


class _Xz:
    """An xz archive, several streams one after another, within bounded memory."""

    def __init__(self, source: "_Source") -> None:
        self._source, self._opened, self._spare = source, self._next(), b""

    @staticmethod
    def _next() -> lzma.LZMADecompressor:
        return lzma.LZMADecompressor(memlimit=MAX_XZ_MEMORY_BYTES)

    def read1(self, size: int, /) -> bytes:
        while True:
            if self._opened.eof:
                self._spare = self._opened.unused_data.lstrip(b"\x00") or self._source.read(_STEP_BYTES).lstrip(b"\x00")
                if not self._spare:
                    return b""
                self._opened = self._next()
            if self._opened.needs_input:
                self._spare = self._spare or self._source.read(_STEP_BYTES)
                if not self._spare:
                    raise EOFError("the archive ends before its end-of-stream marker was reached")
            part = self._opened.decompress(self._spare, size)
            self._spare = b""
            if part:
                return part

    def close(self) -> None:
        self._source.close()


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
        self.head = self._rest = raw.read(6) or b""
        self.taken = 0

    def read(self, size: int = -1, /) -> bytes:
        part = self._rest[:size] if size >= 0 else self._rest
        self._rest = self._rest[len(part) :]
        part = part or self._raw.read(size) or b""  # None: a kernel file that has nothing to say at the moment
        self.taken += len(part)
        return part

    def close(self) -> None:
        self._raw.close()


class _Limited:
    """The next so many bytes of a stream."""

    def __init__(self, raw: Readable, size: int) -> None:
        self._raw, self._left = raw, size

    def read(self, size: int, /) -> bytes:
        part = self._raw.read(min(size, self._left)) or b""
        self._left -= len(part)
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
            except (OSError, EOFError, ValueError, lzma.LZMAError, zlib.error, _zstd_error()) as error:
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
        limit = MAX_LARGE_EXPANSION if self._total > LARGE_BYTES else MAX_EXPANSION
        if self._total > MIN_BOMB_BYTES and self._total > limit * max(1, self._source.taken):
            raise UnreadableInputError(f"it expands more than {limit} times, like a decompression bomb")
        return part

    def close(self) -> None:
        self._opened.close()
        self._source.close()
