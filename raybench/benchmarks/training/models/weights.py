"""Real weights from a local folder: safetensors files as Hugging Face writes them, read without executing anything."""

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import torch
from torch import nn

from raybench.benchmarks.training.models.initial import set_whole
from raybench.benchmarks.training.models.weight_files import (
    StoredTensor,
    check_all_there,
    check_shape,
    entries_of,
    files_of,
)
from raybench.benchmarks.training.models.weight_names import Piece, pieces_of
from raybench.errors import UsageError

_TYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


def load_weights(model: nn.Module, folder: str) -> None:
    """Copy every parameter from the folder's ``*.safetensors``.

    Raises UsageError where the folder, a tensor or a shape is missing or wrong.
    """
    wanted = dict(model.named_parameters())
    for path in files_of(folder):
        for name, tensor in tensors_of(path):
            for piece in pieces_of(name):
                parameter = wanted.pop(piece.name, None)
                if parameter is not None:
                    check_shape(path, name, piece.shape(tuple(tensor.shape)), tuple(parameter.shape))
                    with torch.no_grad():
                        set_whole(parameter, _part(tensor, piece).to(parameter.device))
    check_all_there(folder, wanted)


def _part(tensor: torch.Tensor, piece: Piece) -> torch.Tensor:
    whole = tensor.t() if piece.turned else tensor
    return whole.chunk(piece.parts)[piece.part]


def tensors_of(path: Path) -> Iterator[tuple[str, torch.Tensor]]:
    """(name, tensor) of one file. Raises UsageError for a file that is not safetensors, or is cut off."""
    entries = entries_of(path)
    with path.open("rb") as file:
        for name, entry in entries.items():
            yield name, _tensor(path, name, entry, file)


def _tensor(path: Path, name: str, entry: StoredTensor, file: BinaryIO) -> torch.Tensor:
    dtype = _TYPES[entry.dtype]
    file.seek(entry.begin)
    data = bytearray(file.read(entry.length))
    if len(data) != entry.length:
        raise UsageError(f"{path}: the data of {name} are cut off; fetch the file again")
    return torch.frombuffer(data, dtype=dtype).reshape(entry.shape) if data else torch.empty(entry.shape, dtype=dtype)
