"""A fixed piece of local work, timed beside the points of a collective: how fast each rank is without the others.

On a CPU the time is without what a rank waited for a processor, as the kernel counts it: who happens to have fewer
neighbours is no faster machine. A process that is stopped, or held back by its own clock, memory or power, is slower
all the same.
"""

import os
import time
from functools import cache
from pathlib import Path
from typing import Any

import torch

from raybench.benchmarks.base import RankContext
from raybench.benchmarks.timing import synchronize

_CPU_WIDTH, _CPU_PRODUCTS = 192, 120  # some 20 ms on one core
_GPU_WIDTH, _GPU_PRODUCTS = 2048, 40  # some ms
_LEAST_PRODUCTS = 8


def own_seconds(context: RankContext, samples: int) -> tuple[float, ...]:
    """Seconds of the same local work, ``samples`` times; all ranks begin each together."""
    if not samples:
        return ()
    work = _work(context.device)
    on_gpu = context.device.type == "cuda"  # gpu: ray-masking
    crowd = -(-context.ranks_on_machine // len(os.sched_getaffinity(0)))
    found = []
    for _ in range(samples):
        synchronize(context)
        found.append(_device_seconds(work) if on_gpu else _host_seconds(work, crowd))  # gpu: ray-masking
    return tuple(found)


@cache
def _work(device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    on_gpu = device.type == "cuda"  # gpu: ray-masking
    width, dtype = (_GPU_WIDTH, torch.float16) if on_gpu else (_CPU_WIDTH, torch.float32)  # gpu: ray-masking
    factor = torch.full((width, width), 1 / width, dtype=dtype, device=device)
    product = torch.empty_like(factor)
    for _ in range(3):  # libraries choose and load what they use
        torch.mm(factor, factor, out=product)
    return factor, product


def _host_seconds(work: tuple[torch.Tensor, torch.Tensor], crowd: int) -> float:
    """Per product, fewer of them the more ranks share a processor; without the time that it was ready and had none."""
    factor, product = work
    products = max(_CPU_PRODUCTS // crowd, _LEAST_PRODUCTS)
    waited, began = _waited_seconds() or 0.0, time.perf_counter()
    for _ in range(products):
        torch.mm(factor, factor, out=product)
    elapsed = time.perf_counter() - began
    return max(elapsed - ((_waited_seconds() or 0.0) - waited), elapsed / 1000) / products


def processor_wait() -> str:
    """Whether the kernel counts what a thread waits for a processor: without that, a crowd looks like a slow rank."""
    return "not counted" if _waited_seconds() is None else "counted"


def _waited_seconds() -> float | None:
    """What this thread has waited for a processor so far (the kernel's run delay); None where that is not counted."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text(encoding="ascii").split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return None


def _device_seconds(work: tuple[torch.Tensor, torch.Tensor]) -> float:  # gpu: ray-masking
    factor, product = work
    make_event: Any = torch.cuda.Event
    begin, end = make_event(enable_timing=True), make_event(enable_timing=True)
    begin.record()
    for _ in range(_GPU_PRODUCTS):
        torch.mm(factor, factor, out=product)
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) / 1e3 / _GPU_PRODUCTS
