"""LoRA, and QLoRA's 4-bit base, in plain PyTorch: no further library, the same on a CPU and a GPU.

NF4 (Dettmers et al. 2023, QLoRA): each block of 64 weights is divided by its largest and each quotient rounded to one
of 16 values at equal shares of a normal distribution, with an exact zero. The blocks' scales are rounded to 8 bits
themselves, in groups of 256 ("double quantisation"): 4 + 8/64 + 32/(64 x 256) = 4.127 bits a weight.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from raybench.benchmarks.training.models.trainable import blocks_of

BLOCK, GROUP = 64, 256
_OFFSET = 0.9677083  # the outermost share: halfway between 1 - 1/30 and 1 - 1/32 (QLoRA, appendix E)
_PIECE = 2**22  # weights quantised at a time


def nf4_values() -> torch.Tensor:
    """The 16 values, ascending from -1 to 1. Shape (16,)."""
    above = torch.special.ndtri(torch.linspace(_OFFSET, 0.5, 9)[:-1])
    below = -torch.special.ndtri(torch.linspace(_OFFSET, 0.5, 8)[:-1])
    values = torch.cat((above, torch.zeros(1), below)).sort().values
    return values / values.max()


class QuantisedWeight(nn.Module):
    """A frozen matrix in NF4. Buffers, not parameters: nothing of it is trained, sharded or sent."""

    packed: torch.Tensor
    scales: torch.Tensor
    group_scales: torch.Tensor
    mean_scale: torch.Tensor
    values: torch.Tensor

    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__()
        self.shape = weight.shape
        flat = weight.detach().reshape(-1)
        flat = functional.pad(flat, (0, -len(flat) % BLOCK))
        values = nf4_values().to(weight.device)
        pieces = [_quantised(flat[start : start + _PIECE], values) for start in range(0, len(flat), _PIECE)]
        self.register_buffer("packed", torch.cat([packed for packed, _ in pieces]))
        scales, groups, mean = _rounded_scales(torch.cat([scale for _, scale in pieces]))
        self.register_buffer("scales", scales)
        self.register_buffer("group_scales", groups)
        self.register_buffer("mean_scale", mean)
        self.register_buffer("values", values)

    def dense(self, dtype: torch.dtype) -> torch.Tensor:
        """The matrix that the 4 bits stand for."""
        pairs = torch.cartesian_prod(self.values, self.values)  # of each byte; an index a weight would be 8 bytes of it
        whole = functional.embedding(self.packed.int(), pairs).view(-1, BLOCK)
        groups = self.group_scales.repeat_interleave(GROUP)[: len(self.scales)]
        scales = self.scales.float() * groups + self.mean_scale
        whole *= scales[:, None]
        return whole.view(-1)[: math.prod(self.shape)].to(dtype).view(self.shape)

    @property
    def stored_bytes(self) -> int:
        """Bytes of everything that is kept of the matrix."""
        return sum(buffer.numel() * buffer.element_size() for buffer in (self.packed, self.scales, self.group_scales))


def _quantised(flat: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Packed codes, two a byte, and each block's largest absolute value."""
    blocks = flat.float().reshape(-1, BLOCK)
    scales = blocks.abs().amax(dim=1)
    bounds = (values[1:] + values[:-1]) / 2
    codes = torch.bucketize(blocks / scales.clamp(min=1e-12)[:, None], bounds).to(torch.uint8).reshape(-1, 2)
    return codes[:, 0] << 4 | codes[:, 1], scales


def _rounded_scales(scales: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Scales in 8 bits around their mean, the step of each group of 256 and that mean."""
    mean = scales.mean()
    centred = functional.pad(scales - mean, (0, -len(scales) % GROUP)).reshape(-1, GROUP)
    steps = (centred.abs().amax(dim=1) / 127).clamp(min=1e-12)
    rounded = (centred / steps[:, None]).round().to(torch.int8).reshape(-1)[: len(scales)]
    return rounded, steps, mean


class _FrozenProduct(torch.autograd.Function):
    """``inputs @ weight.T`` for a quantised weight: made dense for the product, and again for the gradient."""

    @staticmethod
    def forward(ctx: Any, inputs: torch.Tensor, weight: QuantisedWeight) -> torch.Tensor:
        ctx.weight = weight
        return inputs @ weight.dense(inputs.dtype).t()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        (gradient,) = gradients
        return gradient @ ctx.weight.dense(gradient.dtype), None


class FrozenLinear(nn.Module):
    """A linear layer that is not trained, in 4 bits where it is ``quantised``."""

    def __init__(self, base: nn.Linear, *, quantised: bool) -> None:
        super().__init__()
        self.quantised = QuantisedWeight(base.weight) if quantised else None
        self.frozen = None if quantised else nn.Parameter(base.weight.detach(), requires_grad=False)
        self.bias = None if base.bias is None else nn.Parameter(base.bias.detach(), requires_grad=False)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """(..., in) to (..., out)."""
        return self._base(_cast(inputs))

    def _base(self, states: torch.Tensor) -> torch.Tensor:
        if self.quantised is not None:
            output: torch.Tensor = _FrozenProduct.apply(states, self.quantised)  # type: ignore[no-untyped-call]  # torch's
        else:
            assert self.frozen is not None
            output = functional.linear(states, self.frozen.to(states.dtype))
        return output if self.bias is None else output + self.bias.to(output.dtype)


class AdaptedLinear(FrozenLinear):
    """A frozen linear layer plus a trained product of two thin matrices: ``base(x) + alpha / rank * x A^T B^T``.

    As in LoRA (Hu et al. 2021) A is random and B zero, so that training starts from the base.
    """

    def __init__(self, base: nn.Linear, *, rank: int, alpha: float, quantised: bool) -> None:
        super().__init__(base, quantised=quantised)
        rank = min(rank, base.in_features, base.out_features)
        device = base.weight.device
        self._scale = alpha / rank
        self.lora_a = nn.Parameter(torch.empty(rank, base.in_features, device=device))
        self.lora_b = nn.Parameter(torch.zeros(base.out_features, rank, device=device))
        bound = 1 / math.sqrt(base.in_features)
        generator = torch.Generator(device=device).manual_seed(base.in_features * 65537 + base.out_features)
        nn.init.uniform_(self.lora_a, -bound, bound, generator=generator)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """(..., in) to (..., out)."""
        states = _cast(inputs)
        thin = functional.linear(states, self.lora_a.to(states.dtype))
        return self._base(states) + functional.linear(thin, self.lora_b.to(states.dtype)) * self._scale


def _cast(inputs: torch.Tensor) -> torch.Tensor:
    """In the type that autocast computes in, where it is on."""
    kind = inputs.device.type
    return inputs.to(torch.get_autocast_dtype(kind)) if torch.is_autocast_enabled(kind) else inputs


def adapt(model: nn.Module, *, rank: int, alpha: float, quantised: bool, targets: Sequence[str] = ()) -> None:
    """Freeze a model and put an adapter beside each linear layer of its blocks that ``targets`` name; none: all.

    The base of all layers is quantised in place, one at a time, so the peak is the dense model and one layer.
    Embeddings and the output layer stay as they are, frozen, as in QLoRA.
    """
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    for block in blocks_of(model):
        for name, module in list(block.named_modules()):
            if isinstance(module, nn.Linear):
                parent, _, last = name.rpartition(".")
                if last in targets or not targets:
                    frozen: FrozenLinear = AdaptedLinear(module, rank=rank, alpha=alpha, quantised=quantised)
                else:
                    frozen = FrozenLinear(module, quantised=quantised)
                setattr(block.get_submodule(parent), last, frozen)
