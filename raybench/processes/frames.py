"""Messages of a ``multiprocessing`` pipe, taken in as they come.

``Connection.recv_bytes`` waits for the rest of a message that has begun. A rank that is stopped in the middle of one
would so keep the process that holds all ranks.
"""

import os
import struct
from collections.abc import Iterator

_CHUNK_BYTES = 2**20
_LONG = -1  # in place of a length from 2 GiB on, which follows in eight bytes


class Frames:
    """The reading end of a pipe, which must not be read otherwise any more."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._buffer = bytearray()
        os.set_blocking(descriptor, False)

    def read(self) -> list[bytes]:
        """Messages that are complete by now, none where there is only a part of one. Raises EOFError at the end."""
        try:
            data = os.read(self._descriptor, _CHUNK_BYTES)
        except BlockingIOError:
            return []
        if not data:
            raise EOFError
        self._buffer += data
        return list(self._complete())

    def _complete(self) -> Iterator[bytes]:
        while (bounds := self._bounds()) is not None:
            start, end = bounds
            if len(self._buffer) < end:
                return
            yield bytes(self._buffer[start:end])
            del self._buffer[:end]

    def _bounds(self) -> tuple[int, int] | None:
        """Where the first message begins and ends; None where not even its length is there."""
        if len(self._buffer) < 4:
            return None
        (length,) = struct.unpack_from("!i", self._buffer)
        if length != _LONG:
            return 4, 4 + length
        if len(self._buffer) < 12:
            return None
        (length,) = struct.unpack_from("!Q", self._buffer, 4)
        return 12, 12 + length
