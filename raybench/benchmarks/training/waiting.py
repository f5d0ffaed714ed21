"""How long a rank's collectives take in each step, and what is between them: of shards, whose hooks tell nothing.

FSDP calls ``torch.distributed`` for each of its collectives. Within ``installed`` these calls are timed: on a CPU,
where they block, by the clock; on a GPU by events on the stream that they are queued on. The time includes waiting for
ranks that come late; that is what tells who does.
"""

import contextlib
import functools
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist

from raybench.benchmarks.training.ranges import NoRanges, Ranges

# all_gather_single and reduce_scatter_single are the names from PyTorch 2.13 on.
_NAMES = (
    "all_gather_into_tensor",
    "all_gather_single",
    "reduce_scatter_tensor",
    "reduce_scatter_single",
    "all_reduce",
)


class CollectiveClock:
    """Times the collectives of one step after another."""

    def __init__(self, device: torch.device, ranges: Ranges | None = None) -> None:
        self._ranges = ranges or NoRanges()
        self._on_gpu = device.type == "cuda"  # gpu: train-fsdp
        self._steps: list[list[tuple[Any, Any]]] = []
        self._calls: list[tuple[Any, Any]] = []
        self._ends: list[float] = []
        self._begins: list[float] = []  # of each step, that which goes on included
        self._depth = 0

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Time what is called within."""
        originals = {name: getattr(dist, name) for name in _NAMES if hasattr(dist, name)}
        for name, function in originals.items():
            setattr(dist, name, self._timing(function))
        self._begins.append(time.perf_counter())
        try:
            yield
        finally:
            for name, function in originals.items():
                setattr(dist, name, function)

    def end_step(self) -> None:
        """The step is over."""
        self._steps.append(self._calls)
        self._ends.append(time.perf_counter())
        self._begins.append(self._ends[-1])
        self._calls = []

    @contextlib.contextmanager
    def pausing(self) -> Iterator[None]:
        """What is called within, between two steps, is in neither."""
        try:
            yield
        finally:
            self._calls = []
            if self._begins:
                self._begins[-1] = time.perf_counter()

    def read(self) -> tuple[float, ...]:
        """Seconds of all collectives in each step; empty where none was seen in some step."""
        return self.of(0, len(self._steps))

    def of(self, first: int, after: int) -> tuple[float, ...]:
        """The same of the steps from ``first`` to before ``after``; empty, too, where one is not over."""
        steps = self._steps[first:after]
        if not all(steps) or not all(self._is_over(end) for step in steps for _, end in step):
            return ()
        return tuple(sum(self._seconds(*call) for call in step) for step in steps)

    def pieces(self) -> tuple[tuple[float, ...], ...]:
        """Seconds before, between and after the collectives of each step.

        Empty on a GPU, where computation goes on beside them, and where steps differ in their number.
        """
        if self._on_gpu or len({len(calls) for calls in self._steps}) != 1:  # gpu: train-fsdp
            return ()
        edges = [
            [begin, *(moment for call in calls for moment in call), end]
            for begin, calls, end in zip(self._begins, self._steps, self._ends, strict=False)
        ]
        return tuple(
            tuple(after - before for before, after in zip(step[::2], step[1::2], strict=True)) for step in edges
        )

    def _timing(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*arguments: Any, **options: Any) -> Any:
            self._depth += 1
            begin = self._now() if self._depth == 1 else None  # a new name may call the old one
            try:
                with self._ranges.phase(function.__name__):
                    return function(*arguments, **options)
            finally:
                self._depth -= 1
                if begin is not None:
                    self._calls.append((begin, self._now()))

        return call

    def _now(self) -> Any:  # gpu: train-fsdp
        if not self._on_gpu:
            return time.perf_counter()
        make: Any = torch.cuda.Event
        event = make(enable_timing=True)
        event.record()
        return event

    def _is_over(self, end: Any) -> bool:  # gpu: train-fsdp
        return not self._on_gpu or bool(end.query())

    def _seconds(self, begin: Any, end: Any) -> float:  # gpu: train-fsdp
        return float(begin.elapsed_time(end) / 1e3) if self._on_gpu else float(end - begin)
