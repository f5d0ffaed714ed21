"""The phases of a step as named ranges: for PyTorch's profiler, and on a GPU as NVTX ranges for Nsight Systems.

``raybench.data``, ``.copy``, ``.forward``, ``.backward``, ``.optimizer``; of replicas ``.gradient_sync``, from the
moment at which the last gradient is ready; of shards each collective by its name in ``torch.distributed``. They are
marked with ``--profile``, and where Nsight Systems profiles the rank.
"""

import contextlib
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any, Protocol

import torch

from raybench.benchmarks.training.options import TrainingOptions

_NOTHING = contextlib.nullcontext()


class Ranges(Protocol):
    """Where the phases of a step begin and end."""

    def phase(self, name: str) -> AbstractContextManager[Any]:
        """A range on this thread."""

    def begin(self, name: str) -> None:
        """A range that may end on another thread."""

    def end(self) -> None:
        """Its end; nothing where none has begun."""


class NoRanges:
    """Nothing is marked."""

    def phase(self, name: str) -> AbstractContextManager[Any]:  # noqa: ARG002 - as Ranges has it
        """Nothing."""
        return _NOTHING

    def begin(self, name: str) -> None:
        """Nothing."""

    def end(self) -> None:
        """Nothing."""


class HostRanges(NoRanges):
    """Ranges for PyTorch's profiler, which sees those of one thread only."""

    def phase(self, name: str) -> AbstractContextManager[Any]:
        """An annotation in the trace."""
        return torch.profiler.record_function(f"raybench.{name}")


class DeviceRanges(HostRanges):  # gpu: profiler-overlap
    """The same, and NVTX ranges."""

    def __init__(self) -> None:
        self._begun: int | None = None

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """An annotation in the trace, and a range on Nsight Systems' timeline."""
        nvtx: Any = torch.cuda.nvtx
        with super().phase(name):
            nvtx.range_push(f"raybench.{name}")
            try:
                yield
            finally:
                nvtx.range_pop()

    def begin(self, name: str) -> None:
        """By a handle: the threads of a backward pass on a GPU are autograd's own."""
        start: Any = torch.cuda.nvtx.range_start
        self.end()
        self._begun = start(f"raybench.{name}")

    def end(self) -> None:
        """By its handle."""
        if self._begun is not None:
            stop: Any = torch.cuda.nvtx.range_end
            stop(self._begun)
            self._begun = None


def ranges_of(device: torch.device, options: TrainingOptions) -> Ranges:
    """What is marked on a device."""
    if not options.profile and not in_nsight_systems():
        return NoRanges()
    return DeviceRanges() if device.type == "cuda" else HostRanges()  # gpu: profiler-overlap


def in_nsight_systems() -> bool:
    """Whether ``nsys profile`` watches this process, which then has CUPTI to itself: PyTorch's profiler gets no kernel.

    nsys sets the variable in what it starts; CUPTI admits one subscriber
    (CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED).
    """
    return "NSYS_PROFILING_SESSION_ID" in os.environ
