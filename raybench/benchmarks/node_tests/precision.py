"""The precisions that matrices are multiplied in: how operands are made of fp32 or int8, and what multiplies them."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple

from raybench.benchmarks.node_tests.devices import Device

Product = Callable[[], Any]


class Precision(NamedTuple):
    """A precision. ``bound`` turns two matrices on the device into a product that can be done again and again."""

    name: str
    bound: Callable[[Any, Any], Product]
    why_not: Callable[[Device], str]
    tf32: bool = False


def _plain(dtype_name: str) -> Callable[[Any, Any], Product]:
    def bound(first: Any, second: Any) -> Product:
        import torch

        dtype = getattr(torch, dtype_name)
        left, right = first.to(dtype), second.to(dtype)
        out = torch.empty(left.shape[0], right.shape[1], dtype=dtype, device=left.device)
        return lambda: torch.mm(left, right, out=out)

    return bound


def _whole(first: Any, second: Any) -> Product:
    import torch

    if first.is_floating_point():  # of a wide range, so that all bits of the product move
        first, second = ((one * 40).round().clamp(-127, 127) for one in (first, second))
    left, right = first.to(torch.int8), second.to(torch.int8).t().contiguous().t()
    multiply: Any = torch._int_mm
    return lambda: multiply(left, right)


def _float8(first: Any, second: Any) -> Product:  # gpu: node-tests
    import torch

    dtype = torch.float8_e4m3fn if not torch.version.hip or _has_ocp_float8() else torch.float8_e4m3fnuz
    left, right = first.float().to(dtype), second.float().t().contiguous().to(dtype).t()
    one = torch.ones((), device=first.device)
    multiply: Any = torch._scaled_mm
    return lambda: multiply(left, right, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)


def _has_ocp_float8() -> bool:  # gpu: node-tests
    """MI350 and later have the OCP's float8; MI300 has its own (gfx942)."""
    import torch

    return "gfx94" not in str(getattr(torch.cuda.get_device_properties(0), "gcnArchName", ""))


def _capability(device: Device) -> tuple[int, int]:  # gpu: node-tests
    import torch

    found = torch.cuda.get_device_capability(device.torch_name)
    return int(found[0]), int(found[1])


def _always(_: Device) -> str:
    return ""


def _no_tf32(device: Device) -> str:
    if not device.is_gpu:
        return "a CPU has no tf32"
    return "" if _capability(device) >= (8, 0) else "this GPU has no tf32"  # gpu: node-tests


def _no_bf16(device: Device) -> str:
    return "" if not device.is_gpu or _capability(device) >= (8, 0) else "this GPU has no bf16"


def _no_fp16(device: Device) -> str:
    return "" if device.is_gpu else "on a CPU torch computes fp16 step by step"


def _no_fp8(device: Device) -> str:
    import torch

    if not device.is_gpu:
        return "on a CPU torch computes fp8 step by step"
    if not hasattr(torch, "_scaled_mm"):  # gpu: node-tests
        return f"torch {torch.__version__} has no products in fp8"
    least = (9, 4) if torch.version.hip else (8, 9)  # gpu: node-tests
    return "" if _capability(device) >= least else "this GPU has no fp8"  # gpu: node-tests


def _no_int8(device: Device) -> str:
    import torch

    if not hasattr(torch, "_int_mm"):
        return f"torch {torch.__version__} has no products in int8"
    return "" if not device.is_gpu or _capability(device) >= (7, 5) else "this GPU has no int8"


PRECISIONS = (
    Precision("fp32", _plain("float32"), _always),
    Precision("tf32", _plain("float32"), _no_tf32, tf32=True),
    Precision("bf16", _plain("bfloat16"), _no_bf16),
    Precision("fp16", _plain("float16"), _no_fp16),
    Precision("fp8", _float8, _no_fp8),
    Precision("int8", _whole, _no_int8),
)
