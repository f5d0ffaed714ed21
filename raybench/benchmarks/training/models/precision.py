"""Number types of a training step: what the device offers, how the forward pass is run in them, loss scaling."""

import contextlib
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from raybench.benchmarks.base import UnsupportedError

_FP8_CAPABILITY = (8, 9)  # Ada; Hopper is 9.0
_BF16_CAPABILITY = (8, 0)  # Ampere; PyTorch emulates it below


def chosen_dtype(wanted: str | None, device: torch.device) -> str:
    """The type asked for, or bfloat16 on a GPU that has it and float32 elsewhere.

    Raises UnsupportedError, in every rank of alike devices alike, for a type that the device lacks.
    """
    capability = torch.cuda.get_device_capability(device) if device.type == "cuda" else None  # gpu: train-bf16
    if wanted is None:
        return "bfloat16" if capability is not None and capability >= _BF16_CAPABILITY else "float32"
    if wanted == "float8" and (capability is None or capability < _FP8_CAPABILITY):
        where = "a CPU" if capability is None else f"a GPU of compute capability {capability[0]}.{capability[1]}"
        raise UnsupportedError(
            f"float8 needs a GPU of compute capability 8.9 or newer, and this is {where}; take bfloat16"
        )
    if wanted == "bfloat16" and capability is not None and capability < _BF16_CAPABILITY:
        raise UnsupportedError("this GPU has no bfloat16 units, it would be emulated; take float16")
    return wanted


def compute_dtype(dtype: str) -> torch.dtype:
    """The type of activations: float8 is of matrix products alone, around them is bfloat16."""
    found: torch.dtype = getattr(torch, "bfloat16" if dtype == "float8" else dtype)
    return found


def forward_context(dtype: str, device: torch.device) -> Callable[[], contextlib.AbstractContextManager[Any]]:
    """Makes the context of a forward pass: autocast for the 16-bit types, nothing for float32."""
    if dtype == "float32":
        return contextlib.nullcontext
    return lambda: torch.autocast(device.type, compute_dtype(dtype))


def loss_scaler(dtype: str, device: torch.device) -> torch.amp.GradScaler:
    """Scales losses for float16, whose small gradients vanish otherwise; does nothing for other types."""
    return torch.amp.GradScaler(device.type, enabled=dtype == "float16")  # gpu: train-fp16


class Float8Product(torch.autograd.Function):  # gpu: train-fp8
    """``inputs @ weight.T`` in float8 (E4M3 forward, E5M2 gradients), each tensor scaled by its largest value."""

    @staticmethod
    def forward(ctx: Any, inputs: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """``inputs`` (rows, in), ``weight`` (out, in) to (rows, out) in the type of the inputs."""
        ctx.save_for_backward(inputs, weight)
        return _product(inputs, weight.t(), torch.float8_e4m3fn, torch.float8_e4m3fn)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Gradients of both."""
        inputs, weight = ctx.saved_tensors
        (gradient,) = gradients
        of_inputs = _product(gradient, weight, torch.float8_e5m2, torch.float8_e4m3fn)
        of_weight = _product(gradient.t(), inputs, torch.float8_e5m2, torch.float8_e4m3fn)
        return of_inputs, of_weight.to(weight.dtype)


def _product(  # gpu: train-fp8
    left: torch.Tensor, right: torch.Tensor, left_type: torch.dtype, right_type: torch.dtype
) -> torch.Tensor:
    first, first_scale = _scaled(left, left_type)
    second, second_scale = _scaled(right, right_type)
    product: torch.Tensor = torch._scaled_mm(
        first.contiguous(),
        second.t().contiguous().t(),  # the kernel wants its second factor by columns
        scale_a=first_scale,
        scale_b=second_scale,
        out_dtype=torch.bfloat16,
    )
    return product


def _scaled(tensor: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    scale = (tensor.abs().amax().float() / torch.finfo(dtype).max).clamp(min=1e-12)
    return (tensor.float() / scale).to(dtype), scale


class Float8Linear(nn.Linear):
    """A linear layer whose three products run in float8."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """(..., in) to (..., out)."""
        flat = inputs.reshape(-1, inputs.shape[-1]).bfloat16()
        output: torch.Tensor = Float8Product.apply(flat, self.weight.bfloat16())  # type: ignore[no-untyped-call]  # torch's
        output = output.view(*inputs.shape[:-1], -1)
        return output if self.bias is None else output + self.bias.to(output.dtype)


def use_float8(model: nn.Module) -> None:
    """Turn every linear layer but the last into float8, where its sizes are multiples of 16 as the kernel needs."""
    for name, module in model.named_modules():
        fits = isinstance(module, nn.Linear) and not (module.in_features % 16 or module.out_features % 16)
        if fits and not name.endswith("lm_head"):
            module.__class__ = Float8Linear
