"""Matrices whose product is known exactly, in every precision that has products at all.

A holds whole numbers from -2 to 2; B is circulant: each column has 1 or -1 in ``_TERMS`` places and 0 elsewhere, moved
down by one from column to column. So each element of A B is a sum of 32 numbers, at most 64 in size, and so is every
sum on the way, in whichever order. All of these are exact in fp32, tf32, bf16 (8 bits), fp16, fp8 e4m3 (4 bits for
what goes in) and int8: an element that differs was computed wrong, whatever the library does.
"""

from __future__ import annotations

from typing import Any

_TERMS = 32
_LARGEST = 2
_SEED = 20240521


def exact_operands(width: int) -> tuple[Any, Any, Any]:
    """A, B and A B as int8 on the CPU, each ``width`` by ``width``, which is at least 64."""
    import torch

    generator = torch.Generator().manual_seed(_SEED)
    first = torch.randint(-_LARGEST, _LARGEST + 1, (width, width), generator=generator, dtype=torch.int8)
    offsets = torch.randperm(width, generator=generator)[:_TERMS].tolist()
    signs = [1 if number % 3 else -1 for number in range(_TERMS)]
    second = torch.zeros(width, width, dtype=torch.int8)
    product = torch.zeros(width, width, dtype=torch.int8)
    columns = torch.arange(width)
    for offset, sign in zip(offsets, signs):
        second[(columns + offset) % width, columns] = sign
        product += sign * torch.roll(first, -offset, dims=1)
    return first, second, product


def dense_operands(width: int) -> tuple[Any, Any]:
    """Two matrices of normal random numbers, fp32, on the CPU: what keeps all of a multiplier's bits moving."""
    import torch

    generator = torch.Generator().manual_seed(_SEED)
    return tuple(torch.randn(width, width, generator=generator) / width**0.25 for _ in range(2))
