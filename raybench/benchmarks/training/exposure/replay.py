"""The collectives of a step alone, one by one, and what of them the step would then wait for."""

from collections.abc import Callable, Sequence
from statistics import median
from typing import Any, Protocol

import torch
import torch.distributed as dist

from raybench.benchmarks.base import RankContext
from raybench.benchmarks.timing import synchronize
from raybench.benchmarks.training.exposure.agreement import agreed, timed
from raybench.benchmarks.training.exposure.intervals import serial_end
from raybench.benchmarks.training.exposure.stalls import Dependencies, dependencies_of, stalled_seconds
from raybench.benchmarks.training.exposure.trace import Operation, StepTrace

_REPLAYS = 5


class Grouping(Protocol):
    """A strategy, as far as it knows who talks to whom."""

    has_gradient_marks: bool

    def group_of(self, operation: str) -> Any:
        """The process group that runs a collective of that name; None: all ranks."""


def replay(context: RankContext, operations: Sequence[Operation], grouping: Grouping) -> list[float]:
    """Seconds of each operation alone: the median over repetitions of the shortest over ranks."""
    found = []
    for operation in operations:
        call = _call(context, operation, grouping.group_of(operation.name))
        call()
        times = []
        for _ in range(_REPLAYS):
            synchronize(context)
            times.append(timed(context, call))
        least = agreed(context, times, dist.ReduceOp.MIN)
        found.append(float(median(least or times)))
    return found


def replayed(
    context: RankContext, steps: Sequence[StepTrace], durations: Sequence[float], grouping: Grouping
) -> float | None:
    """Exposed seconds if every operation took as long as alone, from when the last rank had its data ready."""
    waited = _waited_at_the_end if grouping.has_gradient_marks else _waited_on_the_way
    found = [seconds for step in steps if (seconds := waited(context, step, durations)) is not None]
    return float(median(found)) if found else None


def _waited_at_the_end(context: RankContext, step: StepTrace, durations: Sequence[float]) -> float | None:
    """Of replicas: nothing is needed before the backward pass is over, which is when the last gradient is ready."""
    ready = agreed(context, [one.ready for one in step.operations], dist.ReduceOp.MAX)
    if not ready or len(ready) != len(durations):
        return None
    return max(serial_end(ready, durations) - ready[-1], 0.0)


def _waited_on_the_way(context: RankContext, step: StepTrace, durations: Sequence[float]) -> float | None:
    """Of shards, whose parameters are needed again and again."""
    own = dependencies_of(step)
    ready = agreed(context, own.ready if own else [], dist.ReduceOp.MAX)
    needed = agreed(context, own.needed if own else [], dist.ReduceOp.MAX)
    if not ready or not needed or len(ready) != len(durations):
        return None
    return stalled_seconds(Dependencies(ready=tuple(ready), needed=tuple(needed)), durations)


def _call(context: RankContext, operation: Operation, group: Any) -> Callable[[], object]:
    ranks = dist.get_world_size(group)
    whole = torch.zeros(operation.elements, dtype=getattr(torch, operation.dtype), device=context.device)
    part = whole[: operation.elements // ranks].clone()
    if operation.name == "all_reduce":
        return lambda: dist.all_reduce(whole, group=group)
    if operation.name == "broadcast":
        return lambda: dist.broadcast(whole, 0, group=group)
    if operation.name == "all_gather":
        return lambda: dist.all_gather_into_tensor(whole, part, group=group)
    return lambda: dist.reduce_scatter_tensor(part, whole, group=group)
