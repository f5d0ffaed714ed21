"""TensorBoard's event files, written without TensorBoard: a head node rarely has it. Pure but for the file.

A file is a row of records: the length (8 bytes), its checksum, the content, its checksum (TFRecord). A checksum is
CRC-32C, turned by 15 bits and increased by 0xa282ead8. A content is the protocol buffer ``tensorflow.Event``: field 1
``wall_time`` (double), 2 ``step`` (int64), 3 ``file_version`` (the first record's alone), 5 ``summary``, of ``value``s
(field 1) with 1 ``tag``, 2 ``simple_value`` (float), 8 ``tensor``, 9 ``metadata``.
"""

import os
import socket
import struct
from collections.abc import Mapping
from pathlib import Path

_POLYNOMIAL = 0x82F63B78
_DT_STRING = 7


def _table() -> tuple[int, ...]:
    rows = []
    for number in range(256):
        row = number
        for _ in range(8):
            row = row >> 1 ^ (_POLYNOMIAL if row & 1 else 0)
        rows.append(row)
    return tuple(rows)


_TABLE = _table()


def crc32c(data: bytes) -> int:
    """CRC-32C (Castagnoli), RFC 3720 B.4: of 32 zero bytes it is 0x8a9136aa."""
    found = 0xFFFFFFFF
    for byte in data:
        found = _TABLE[(found ^ byte) & 0xFF] ^ found >> 8
    return found ^ 0xFFFFFFFF


def _checksum(data: bytes) -> bytes:
    found = crc32c(data)
    return struct.pack("<I", ((found >> 15 | found << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def record(content: bytes) -> bytes:
    """A content as it stands in the file."""
    length = struct.pack("<Q", len(content))
    return length + _checksum(length) + content + _checksum(content)


def _varint(number: int) -> bytes:
    number &= 0xFFFFFFFFFFFFFFFF
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*parts, number])


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _event(at: float, step: int, rest: bytes) -> bytes:
    return b"\x09" + struct.pack("<d", at) + b"\x10" + _varint(step) + rest


def scalars(values: Mapping[str, float], *, step: int, at: float) -> bytes:
    """An event of figures by their tags."""
    found = b"".join(
        _field(1, _field(1, tag.encode()) + b"\x15" + struct.pack("<f", value)) for tag, value in values.items()
    )
    return _event(at, step, _field(5, found))


def text(tag: str, content: str, *, step: int, at: float) -> bytes:
    """An event of a text in Markdown, for the text plugin."""
    tensor = b"\x08" + _varint(_DT_STRING) + _field(2, _field(2, b"\x08\x01")) + _field(8, content.encode())
    metadata = _field(1, _field(1, b"text"))
    return _event(at, step, _field(5, _field(1, _field(1, tag.encode()) + _field(8, tensor) + _field(9, metadata))))


class EventFile:
    """One open file; each event is on its way to the disk when its call returns."""

    def __init__(self, folder: Path, at: float) -> None:
        """Make it in a folder. Raises OSError where it cannot be."""
        folder.mkdir(parents=True, exist_ok=True)
        host = socket.gethostname().replace("/", "_") or "host"
        self.path = folder / f"events.out.tfevents.{int(at)}.{host}.{os.getpid()}.0"
        self._file = self.path.open("xb", buffering=0)
        self._size = 0
        self.write(_event(at, 0, _field(3, b"brain.Event:2")))

    def write(self, event: bytes) -> None:
        """Append an event whole or not at all: a reader stops at half of one. Raises OSError for a full disk."""
        data = record(event)
        done = 0
        try:
            while done < len(data):
                done += self._file.write(data[done:])
        except OSError:
            self._file.truncate(self._size)
            self._file.seek(self._size)
            raise
        self._size += len(data)

    def close(self) -> None:
        """Close it."""
        self._file.close()
