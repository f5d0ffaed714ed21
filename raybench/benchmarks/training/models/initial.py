"""Models with parameters that depend on the seed and their names alone: equal in every rank, however sharded."""

import zlib

import torch
from torch import nn
from torch.distributed.tensor import DTensor, distribute_tensor

_DEVIATION = 0.02


def fill(model: nn.Module, *, seed: int) -> None:
    """Normal values of deviation 0.02 for matrices, ones for scales, zeros for shifts and biases.

    A model with ``scaled_by_inputs`` has deviations of (2 / inputs)^0.5 instead, for ReLU (He et al., 2015).

    Each parameter is drawn whole, one at a time, and of a sharded one this rank keeps its part; so sharded and whole
    models are the same, with no more memory than the largest parameter.
    """
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            scaled = getattr(model, "scaled_by_inputs", False) and parameter.dim() > 1
            _fill(name, parameter, seed, (2 / parameter.shape[1]) ** 0.5 if scaled else _DEVIATION)


def _fill(name: str, parameter: torch.Tensor, seed: int, deviation: float) -> None:
    if parameter.dim() < 2:
        parameter.fill_(0.0 if name.endswith("bias") else 1.0)
        return
    generator = torch.Generator(device=parameter.device).manual_seed(seed * 2**32 + zlib.crc32(name.encode()))
    whole = torch.empty(parameter.shape, dtype=torch.float32, device=parameter.device)
    whole.normal_(0.0, deviation, generator=generator)
    set_whole(parameter, whole)


def set_whole(parameter: torch.Tensor, whole: torch.Tensor) -> None:
    """Give a parameter the value of a whole tensor; of a sharded one this rank takes its part. Nothing is sent."""
    if isinstance(parameter, DTensor):
        part = distribute_tensor(
            whole.to(parameter.dtype), parameter.device_mesh, parameter.placements, src_data_rank=None
        )
        parameter.to_local().copy_(part.to_local())
    else:
        parameter.copy_(whole)
