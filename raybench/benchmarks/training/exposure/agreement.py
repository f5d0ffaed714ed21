"""What ranks tell each other of their measurements, and how they time one thing."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist

from raybench.benchmarks.base import RankContext


def agreed(context: RankContext, values: Sequence[float], how: Any) -> list[float] | None:
    """Each value reduced over all ranks; None, in every rank, where they have different numbers of them."""
    count = torch.tensor([len(values), -len(values)], device=context.device)
    dist.all_reduce(count, dist.ReduceOp.MAX)
    if count[0].item() != -count[1].item():
        return None
    if not values:
        return []
    shared = torch.tensor(list(values), dtype=torch.float64, device=context.device)
    dist.all_reduce(shared, how)
    return [float(value) for value in shared.tolist()]


def timed(context: RankContext, operation: Callable[[], object]) -> float:
    """Seconds until an operation is through on the device."""
    begin = time.perf_counter()
    operation()
    if context.device.type == "cuda":  # gpu: profiler-overlap
        torch.cuda.synchronize(context.device)
    return time.perf_counter() - begin
