"""Timed loops.

On a CPU the monotonic clock is read after every operation, which there blocks until it is complete. On a GPU an event
is recorded after every operation and read when the block is over, so the host never waits within it.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist

from raybench.benchmarks.base import RankContext
from raybench.benchmarks.rank.recording import inside

Stamps = tuple[float, ...]
_LOOK_SECONDS = 2e-4  # between two looks at the events of a block


def timed_block(context: RankContext, operation: Callable[[], object], iterations: int) -> Stamps:
    """Seconds from the start of the block to the completion of each iteration on this rank. Length ``iterations``.

    All ranks leave a barrier first; what their leaving differs by (some 10 to 100 us) falls on the first iteration.
    """
    synchronize(context)
    if context.device.type == "cuda":  # gpu: event-clock, collectives-2
        return _device_block(context, operation, iterations)
    return _host_block(context, operation, iterations)


def synchronize(context: RankContext) -> None:
    """Wait until every rank and, on a GPU, every queued kernel is done."""
    if context.device.type == "cuda":  # gpu: event-clock, collectives-2
        _wait_for_device(context)
    dist.barrier()
    if context.device.type == "cuda":  # gpu: event-clock, collectives-2
        _wait_for_device(context)


def _wait_for_device(context: RankContext) -> None:  # gpu: event-clock, collectives-2
    with inside("device"):
        torch.cuda.synchronize(context.device)


def _host_block(context: RankContext, operation: Callable[[], object], iterations: int) -> Stamps:
    clock, mark = time.perf_counter_ns, context.progress.iteration
    stamps = [0] * iterations
    start = clock()
    for index in range(iterations):
        operation()
        stamps[index] = clock()
        mark(index + 1)
    return tuple((stamp - start) / 1e9 for stamp in stamps)


def _device_block(context: RankContext, operation: Callable[[], object], iterations: int) -> Stamps:  # gpu: event-clock
    make_event: Any = torch.cuda.Event
    events = [make_event(enable_timing=True) for _ in range(iterations + 1)]
    events[0].record()
    for index in range(iterations):
        operation()
        events[index + 1].record()
    with inside("device"):
        follow(events[1:], context.progress.iteration)
        torch.cuda.synchronize(context.device)
    return tuple(events[0].elapsed_time(event) / 1e3 for event in events[1:])


def follow(events: Sequence[Any], mark: Callable[[int], None]) -> None:  # gpu: event-clock
    """Mark each iteration when its event is complete, so that a hang on the device shows where it is.

    All events are recorded already: looking at them costs no time within the measurement.
    """
    for index, event in enumerate(events):
        while not event.query():
            time.sleep(_LOOK_SECONDS)
        mark(index + 1)


def iterations_for(context: RankContext, seconds_each: float, *, target_seconds: float, most: int) -> int:
    """Iterations that take about ``target_seconds``: rank 0's figure, the same in every rank. See ``fitting``."""
    wanted = fitting(seconds_each, target_seconds=target_seconds, most=most)
    agreed = torch.tensor([wanted], device=context.device)
    dist.broadcast(agreed, 0)
    return int(agreed.item())


def fitting(seconds_each: float, *, target_seconds: float, most: int) -> int:
    """Iterations that take about ``target_seconds``, from 4 (1 where one takes longer than a second) to ``most``.

    Five blocks of four are the twenty samples below which no statement about the median is worth much.
    """
    least = min(4 if seconds_each < 1.0 else 1, most)
    return most if seconds_each <= 0 else min(max(round(target_seconds / seconds_each), least), most)
