"""Real weights from a local folder: safetensors files as Hugging Face writes them, read without executing anything.

A file is the length of its header (8 bytes, little-endian), a JSON header, and raw data; the header gives each tensor's
type, shape and byte range: ``{"model.norm.weight": {"dtype": "BF16", "shape": [64], "data_offsets": [0, 128]}, ...}``.
"""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import torch
from torch import nn

from raybench.benchmarks.training.initial import set_whole
from raybench.errors import UsageError

_TYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
_LONGEST_HEADER = 100_000_000


def load_weights(model: nn.Module, folder: str) -> None:
    """Copy every parameter from the folder's ``*.safetensors``.

    Raises UsageError where the folder, a tensor or a shape is missing or wrong.
    """
    files = sorted(Path(folder).glob("*.safetensors"))
    if not files:
        raise UsageError(f"--weights {folder} has no *.safetensors file; other formats can hold code and are not read")
    wanted = dict(model.named_parameters())
    for path in files:
        for name, tensor in tensors_of(path):
            parameter = wanted.pop(name, None)
            if parameter is None:
                continue
            if tuple(parameter.shape) != tuple(tensor.shape):
                raise UsageError(
                    f"{path}: {name} has the shape {tuple(tensor.shape)}, the model {tuple(parameter.shape)}; "
                    "choose the --model that these weights are of"
                )
            with torch.no_grad():
                set_whole(parameter, tensor.to(parameter.device))
    if wanted:
        raise UsageError(f"--weights {folder} lacks {len(wanted)} tensors of the model, such as {next(iter(wanted))}")


def tensors_of(path: Path) -> Iterator[tuple[str, torch.Tensor]]:
    """(name, tensor) of one file. Raises UsageError for a file that is not safetensors, or is cut off."""
    with path.open("rb") as file:
        size = path.stat().st_size
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or not 2 <= length <= min(size - 8, _LONGEST_HEADER):
            raise UsageError(f"{path} is not a safetensors file, or is cut off; fetch it again")
        try:
            header: dict[str, Any] = msgspec.json.decode(file.read(length), type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise UsageError(f"{path} is not a safetensors file: {error}") from error
        for name, entry in header.items():
            if name != "__metadata__":
                yield name, _tensor(path, name, entry, file, 8 + length)


def _tensor(path: Path, name: str, entry: Any, file: BinaryIO, start: int) -> torch.Tensor:
    try:
        dtype, shape = _TYPES[entry["dtype"]], [int(size) for size in entry["shape"]]
        begin, end = (int(offset) for offset in entry["data_offsets"])
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{path}: the entry of {name} cannot be read ({error!r})") from error
    wanted = math.prod(shape) * dtype.itemsize
    if begin < 0 or end - begin != wanted:
        raise UsageError(f"{path}: {name} has {end - begin} bytes where its shape needs {wanted}; fetch the file again")
    file.seek(start + begin)
    data = bytearray(file.read(wanted))
    if len(data) != wanted:
        raise UsageError(f"{path}: the data of {name} are cut off; fetch the file again")
    return torch.frombuffer(data, dtype=dtype).reshape(shape) if data else torch.empty(shape, dtype=dtype)
