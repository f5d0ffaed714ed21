"""What a folder of weights holds, read from the headers of its safetensors files: the driver, too, can look. No torch.

A file is the length of its header (8 bytes, little-endian), a JSON header, and raw data; the header gives each tensor's
type, shape and byte range: ``{"model.norm.weight": {"dtype": "BF16", "shape": [64], "data_offsets": [0, 128]}, ...}``.
"""

import math
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from raybench.benchmarks.training.models.weight_names import pieces_of
from raybench.errors import UsageError

WIDTHS = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}  # bytes an element, of the types that are read
_LONGEST_HEADER = 100_000_000
Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTensor:
    """A tensor in a file: its type as the file names it, and where its ``length`` bytes begin in the file."""

    dtype: str
    shape: Shape
    begin: int
    length: int


def check_weights(folder: str, wanted: Mapping[str, Shape]) -> None:
    """Raises UsageError where the folder, or a tensor of ``wanted``, is missing, damaged or of another shape."""
    missing = dict(wanted)
    for path in files_of(folder):
        for name, entry in entries_of(path).items():
            for piece in pieces_of(name):
                shape = missing.pop(piece.name, None)
                if shape is not None:
                    check_shape(path, name, piece.shape(entry.shape), shape)
    check_all_there(folder, missing)


def files_of(folder: str) -> list[Path]:
    """The safetensors files of a folder of this machine, at least one. Raises UsageError."""
    path, here = Path(folder), f"on {platform.node()}"
    try:
        there = sorted(path.iterdir())
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", None) or error
        raise UsageError(
            f"--weights {folder} cannot be read {here} ({reason}); every node needs that folder, with the model's "
            "*.safetensors"
        ) from error
    files = [file for file in there if file.suffix == ".safetensors"]
    if not files:
        raise UsageError(
            f"--weights {folder} has no *.safetensors file {here}; other formats can hold code and are not read"
        )
    return files


def entries_of(path: Path) -> dict[str, StoredTensor]:
    """The tensors of a file by their names. Raises UsageError for one that is not safetensors, or is cut off."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if size < 8 or not 2 <= length <= min(size - 8, _LONGEST_HEADER):
                raise UsageError(f"{path} is not a safetensors file, or is cut off; fetch it again")
            header: dict[str, Any] = msgspec.json.decode(file.read(length), type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{path} is not a safetensors file: {error}") from error
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    found = {name: _entry(path, name, one, 8 + length) for name, one in header.items() if name != "__metadata__"}
    for name, entry in found.items():
        if entry.begin + entry.length > size:
            raise UsageError(f"{path}: the data of {name} are cut off; fetch the file again")
    return found


def _entry(path: Path, name: str, entry: Any, start: int) -> StoredTensor:
    try:
        width, shape = WIDTHS[entry["dtype"]], tuple(int(size) for size in entry["shape"])
        begin, end = (int(offset) for offset in entry["data_offsets"])
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{path}: the entry of {name} cannot be read ({error!r})") from error
    length = math.prod(shape) * width
    if begin < 0 or min(shape, default=0) < 0 or end - begin != length:
        raise UsageError(f"{path}: {name} has {end - begin} bytes where its shape needs {length}; fetch the file again")
    return StoredTensor(dtype=entry["dtype"], shape=shape, begin=start + begin, length=length)


def check_shape(path: Path, name: str, found: Shape, wanted: Shape) -> None:
    """Raises UsageError for a tensor of another shape than the model's."""
    if found != wanted:
        raise UsageError(
            f"{path}: {name} has the shape {found}, the model {wanted}; choose the --model that these weights are of"
        )


def check_all_there(folder: str, missing: Mapping[str, object]) -> None:
    """Raises UsageError where tensors of the model are missing."""
    if missing:
        raise UsageError(
            f"--weights {folder} lacks {len(missing)} tensors of the model, such as {next(iter(missing))}; choose the "
            "--model that these weights are of"
        )
