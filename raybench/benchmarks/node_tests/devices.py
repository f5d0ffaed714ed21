"""The devices that tests use, as torch knows them: every GPU, or where there is none the CPU."""

from __future__ import annotations

import os
import time
from typing import Any, Callable, NamedTuple


class Device(NamedTuple):
    """A device: its name in figures, torch's name, what model it is, and what its code can be compared with.

    ``stack`` is what computes on it: torch's version, and the version of CUDA or ROCm, or the CPU's threads.
    """

    name: str
    torch_name: str
    model: str
    stack: str
    is_gpu: bool


def devices() -> list[Device]:
    """All GPUs, CUDA's or ROCm's; the CPU where there is none. Needs torch."""
    import torch

    if torch.cuda.is_available():  # gpu: node-tests
        toolkit = f"ROCm {torch.version.hip}" if torch.version.hip else f"CUDA {torch.version.cuda}"
        return [
            Device(f"gpu{index}", f"cuda:{index}", torch.cuda.get_device_name(index), _stack(toolkit), is_gpu=True)
            for index in range(torch.cuda.device_count())
        ]
    return [Device("cpu", "cpu", cpu_model(), _stack(f"{torch.get_num_threads()} threads"), is_gpu=False)]


def _stack(beside: str) -> str:
    import torch

    return f"torch {torch.__version__}, {beside}"


def cpu_model() -> str:
    """The processor's name as the kernel has it; the machine's architecture where it has none."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            named = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    except OSError:
        named = []
    return named[0] if named else os.uname().machine


def seconds_of(work: Callable[[], object], times: int, device: Device) -> float:
    """How long it takes to do some work so often, in seconds; on a GPU by its own clock, without what starts it."""
    if device.is_gpu:  # gpu: node-tests
        return _device_seconds(work, times, device)
    began = time.perf_counter()
    for _ in range(times):
        work()
    return time.perf_counter() - began


def _device_seconds(work: Callable[[], object], times: int, device: Device) -> float:  # gpu: node-tests
    import torch

    make_event: Any = torch.cuda.Event
    with torch.cuda.device(device.torch_name):
        begin, end = make_event(enable_timing=True), make_event(enable_timing=True)
        begin.record()
        for _ in range(times):
            work()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) / 1e3


def repeats_for(work: Callable[[], object], device: Device, seconds: float) -> int:
    """How often some work is done in a block of about so many seconds. Does it a few times, so that it is warm."""
    seconds_of(work, 2, device)
    once = seconds_of(work, 1, device)
    return max(1, min(10_000, round(seconds / max(once, 1e-7))))


def is_out_of_order(error: BaseException) -> bool:
    """Whether an error of torch tells of a device that is in trouble, and not of something that it cannot do."""
    said = str(error)
    unsupported = ("NOT_SUPPORTED", "not supported", "not implemented", "only supported", "is supported only")
    return any(word in said for word in ("CUDA error", "HIP error", "uncorrectable", "unspecified launch")) and not any(
        word in said for word in unsupported
    )
