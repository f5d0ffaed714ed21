"""The ``.wandb`` file of a run of Weights & Biases that was kept offline: the client's own records, checked.

Up to 0.19 the client has a reader of its own, ``wandb.sdk.internal.datastore``, which finds the same records in a file
of 0.31; later ones read it in Go only. Blocks of 32 KiB hold records in fragments, with checksum, length and kind.
"""

import json
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_BLOCK, _HEADER = 32768, struct.Struct("<IHB")
_BEGIN = struct.Struct("<4sHB")
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4


def records(path: Path) -> Iterator[Any]:
    """Every record, as the client's protocol has it. Raises ValueError where one is damaged."""
    from wandb.proto import wandb_internal_pb2

    for content in contents(path.read_bytes()):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(content)
        yield record


def contents(data: bytes) -> Iterator[bytes]:
    """What the records hold. Raises ValueError where a checksum or an order is wrong."""
    if _BEGIN.unpack_from(data) != (b":W&B", 0xBEE1, 0):
        raise ValueError("this is no file of wandb")
    at, whole = _BEGIN.size, b""
    while at < len(data):
        left = _BLOCK - at % _BLOCK
        if left < _HEADER.size:
            at += left
            continue
        checksum, length, kind = _HEADER.unpack_from(data, at)
        part = data[at + _HEADER.size : at + _HEADER.size + length]
        if zlib.crc32(part, zlib.crc32(bytes([kind]))) != checksum or (kind in (_FULL, _FIRST)) != (not whole):
            raise ValueError(f"the record at {at} is damaged")
        at, whole = at + _HEADER.size + length, whole + part
        if kind in (_FULL, _LAST):
            yield whole
            whole = b""


def items(rows: Any) -> dict[str, Any]:
    """The values of a configuration, a summary or a row, by name; nested ones joined with dots."""
    return {one.key or ".".join(one.nested_key): json.loads(one.value_json) for one in rows}
