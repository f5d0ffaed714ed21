"""What a reader of the fuzzer is, and how bytes become what it takes."""

import json
import pickle
import tempfile
import zlib
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """``read`` takes an input as bytes and may raise ``refuses`` only. ``seeds``: documents, or texts as lines."""

    read: Callable[[bytes], object]
    seeds: Callable[[], Sequence[Any]]
    refuses: tuple[type[Exception], ...] = ()
    encode: Callable[[bytes], bytes] = bytes  # what the damaged JSON is packed into
    inputs_in_ci: int = 100


@contextmanager
def kept(data: bytes, name: str = "input") -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        yield path


def read_file(load: Callable[[Path], object], name: str) -> Callable[[bytes], object]:
    def read(data: bytes) -> object:
        with kept(data, name) as path:
            return load(path)

    return read


def parse_all(
    parsers: Sequence[Callable[[str], object]], refuses: tuple[type[Exception], ...] = ()
) -> Callable[[bytes], object]:
    """What the parsers found, of those that found something and did not refuse."""

    def read(data: bytes) -> list[object]:
        text, found = data.decode("utf-8", "replace"), []
        for parse in parsers:
            with suppress(*refuses):
                found.append(parse(text))
        return [one for one in found if one]

    return read


def in_msgpack(data: bytes) -> bytes:
    """JSON as MessagePack, where it still is JSON; else the bytes as they are."""
    try:
        return msgspec.msgpack.encode(json.loads(data))
    except (ValueError, RecursionError, OverflowError, msgspec.MsgspecError):
        return data


def in_pickle(data: bytes) -> bytes:
    try:
        return pickle.dumps(json.loads(data))
    except (ValueError, RecursionError):
        return data


def in_probe(data: bytes) -> bytes:
    return b64encode(zlib.compress(data))


def with_length(data: bytes) -> bytes:
    """A header as safetensors has it, and some bytes of tensors."""
    return len(data).to_bytes(8, "little") + data + bytes(64)


def signed(data: bytes) -> bytes:
    """The damaged manifest with a checksum that is right, so that its content is read."""
    try:
        content = json.dumps(json.loads(data)["content"]).encode()
    except (ValueError, LookupError, TypeError, RecursionError):
        return data
    return b'{"crc32":%d,"content":%s}' % (zlib.crc32(content), content)
