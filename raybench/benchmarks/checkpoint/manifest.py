"""What a checkpoint holds, as JSON with checksums: read without executing anything. Pure.

``manifest.json`` is written last, so a checkpoint without it was never finished. Each part of a tensor has its file,
place and CRC-32, and the manifest has one of itself:

``{"format": "raybench.checkpoint/1", "crc32": 912873, "tensors": {"model.norm.weight": {"dtype": "float32", "shape":
[64], "parts": [{"offsets": [0], "sizes": [32], "file": "rank-0.bin", "start": 0, "length": 128, "crc32": 77}]}}}``
"""

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod

import msgspec

from raybench.benchmarks.checkpoint.options import COMPRESSIONS

FORMAT = "raybench.checkpoint/1"
MANIFEST = "manifest.json"
# Types that a tensor may have: names of torch's, and nothing else that torch has by a name.
DTYPES = frozenset(
    {"float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "complex64", "complex128", "bool"}
    | {"int64", "int32", "int16", "int8", "uint8"}
)
_LONGEST_PART = 2**50


class CheckpointError(Exception):
    """A checkpoint is missing, unfinished, cut off or altered. The message says what and where."""


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A block of a tensor: its place in the tensor, and its ``length`` bytes from ``start`` of a file."""

    offsets: tuple[int, ...]
    sizes: tuple[int, ...]
    file: str
    start: int
    length: int
    crc32: int


class Tensor(msgspec.Struct, frozen=True, kw_only=True):
    """A whole tensor and its parts."""

    dtype: str
    shape: tuple[int, ...]
    parts: tuple[Part, ...]


class _Content(msgspec.Struct, frozen=True, kw_only=True):
    format: str
    compression: str
    tensors: dict[str, Tensor]


class _Signed(msgspec.Struct, frozen=True, kw_only=True):
    crc32: int
    content: msgspec.Raw


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A checkpoint's tensors by name."""

    tensors: Mapping[str, Tensor]
    compression: str

    def encode(self) -> bytes:
        """As written."""
        content = msgspec.json.encode(
            _Content(format=FORMAT, compression=self.compression, tensors=dict(self.tensors)), order="sorted"
        )
        return msgspec.json.encode(_Signed(crc32=zlib.crc32(content), content=msgspec.Raw(content)))

    def parts(self) -> Iterable[tuple[str, Part]]:
        """(tensor's name, part) of all."""
        return ((name, part) for name, tensor in self.tensors.items() for part in tensor.parts)


def decode(data: bytes, where: str) -> Manifest:
    """Raises CheckpointError for anything that ``Manifest.encode`` did not write, or that was altered since."""
    advice = "the checkpoint is cut off or damaged; use an older one, or save again"
    try:
        signed = msgspec.json.decode(data, type=_Signed)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CheckpointError(f"{where}/{MANIFEST} cannot be read ({error}): {advice}") from error
    if zlib.crc32(bytes(signed.content)) != signed.crc32:
        raise CheckpointError(f"{where}/{MANIFEST} does not match its checksum: {advice}")
    try:
        content = msgspec.json.decode(signed.content, type=_Content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CheckpointError(f"{where}/{MANIFEST} is not of this format ({error}): {advice}") from error
    if content.format != FORMAT:
        raise CheckpointError(f"{where} has the format '{content.format}', and this reads '{FORMAT}'")
    if content.compression not in COMPRESSIONS:
        raise CheckpointError(f"{where}/{MANIFEST} names the compression '{content.compression}': {advice}")
    for name, tensor in content.tensors.items():
        fault = _fault_of(tensor)
        if fault is not None:
            raise CheckpointError(f"{where}/{MANIFEST} {fault} for {name}: {advice}")
    if not content.tensors:
        raise CheckpointError(f"{where}/{MANIFEST} has no tensors: {advice}")
    return Manifest(tensors=content.tensors, compression=content.compression)


def _fault_of(tensor: Tensor) -> str | None:
    """What no writer puts into a manifest: a type or file that there is not, parts that do not make up the tensor."""
    if tensor.dtype not in DTYPES:
        return f"names the type '{tensor.dtype}'"
    for part in tensor.parts:
        if "/" in part.file or part.file.startswith(".") or min(part.start, part.length) < 0:
            return f"names the file '{part.file}'"
        if max(part.start, part.length) > _LONGEST_PART or not _is_inside(part, tensor.shape):
            return f"has a part outside the shape {list(tensor.shape)}"
    filled = [part for part in tensor.parts if prod(part.sizes)]
    places = {part.offsets for part in filled}
    if len(places) < len(filled) or sum(prod(part.sizes) for part in filled) != prod(tensor.shape):
        return f"has parts that do not make up the shape {list(tensor.shape)}"
    return None


def _is_inside(part: Part, shape: tuple[int, ...]) -> bool:
    if not len(part.offsets) == len(part.sizes) == len(shape):
        return False
    edges = zip(part.offsets, part.sizes, shape, strict=True)
    return all(offset >= 0 and size >= 0 and offset + size <= whole for offset, size, whole in edges)


def check_part(name: str, part: Part, data: bytes, where: str) -> None:
    """Raises CheckpointError where the stored bytes of a part are too few, or not those that were written."""
    if len(data) != part.length:
        raise CheckpointError(
            f"{where}/{part.file} is cut off: {name} has {len(data)} of its {part.length} bytes at {part.start}; "
            "use an older checkpoint"
        )
    if zlib.crc32(data) != part.crc32:
        raise CheckpointError(
            f"{where}/{part.file} is damaged: the bytes of {name} at {part.start} do not match their checksum; "
            "use an older checkpoint"
        )
