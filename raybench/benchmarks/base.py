"""What a benchmark is handed, and what a collective is: a handful of facts that one driver sweeps, times and checks."""

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Store

from raybench.benchmarks.messages.pattern import Segment
from raybench.benchmarks.rank.progress import ProgressSlot
from raybench.benchmarks.spec import BenchmarkSpec, OwnSpeed, RankSamples
from raybench.benchmarks.workload import RankRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class RankContext:
    """One rank of an initialised process group.

    ``ranks_on_machine`` share this machine's memory, ``ranks_on_device`` the memory of this rank's GPU.
    ``ranks_on_node`` are those of this rank's node, which on an emulated cluster is a part of the machine. ``ring``
    (``mlx_ring.ring.Ring``) sends messages in place of torch.distributed; None with another backend.
    """

    rank: int
    local_rank: int
    world_size: int
    ranks_on_machine: int
    backend: str
    device: torch.device
    progress: ProgressSlot
    store: Store
    ranks_on_device: int = 1
    ranks_on_node: int = 1
    ring: Any = None


class Benchmark(Protocol):
    """The ``run`` function of a benchmark module: yields what this rank measured, size after size, in every rank alike.

    Returns how many of the largest sizes were left out because they do not fit the memory of every rank. Raises
    UnsupportedError, in every rank alike, when the backend lacks the operation, TooLargeError when nothing fits.
    """

    def __call__(
        self, context: RankContext, spec: BenchmarkSpec
    ) -> Generator[RankSamples | OwnSpeed | RankRecord, None, int]:
        """Measure on this rank."""


class UnsupportedError(Exception):
    """The backend, or this number of ranks, does not offer the operation with these parameters."""


class TooLargeError(UnsupportedError):
    """Not even the smallest of the ``too_large`` sizes fits the memory of every rank."""

    def __init__(self, message: str, *, too_large: int) -> None:
        super().__init__(message)
        self.too_large = too_large


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveArguments:
    """What a collective needs to lay out its buffers: ``elements`` is the message size S of nccl-tests in elements."""

    rank: int
    world_size: int
    elements: int
    dtype: str
    reduce_op: str | None
    root: int | None

    @property
    def part(self) -> int:
        """Elements of one rank's share of the message."""
        return self.elements // self.world_size

    @property
    def is_root(self) -> bool:
        """Whether this rank is the root."""
        return self.rank == self.root


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffers:
    """One-dimensional tensors of this size; in place, ``send`` is a part of ``receive`` or the same memory."""

    send: torch.Tensor
    receive: torch.Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """The call to be timed. ``load`` before it where the send buffer has changed, ``store`` to see what was received.

    Both do nothing where the operation works on the buffers themselves.
    """

    call: Callable[[], object]
    load: Callable[[], None] = lambda: None
    store: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True, kw_only=True)
class Collective:
    """The facts of one operation.

    - ``lengths(args)``: elements of the send and of the receive buffer of this rank.
    - ``bus_factor(world_size)``: busbw / algbw, derived in docs/methods.md.
    - ``sent(args)``, ``expected(args)``: what the send buffer holds before, the receive buffer after; nothing expected
      means nothing is defined there.
    - ``in_place_offset(args)``: where in the receive buffer the send buffer lies when the operation is in place.
    - ``prepare(args, buffers)``: the call to be timed.
    """

    lengths: Callable[[CollectiveArguments], tuple[int, int]]
    bus_factor: Callable[[int], float]
    sent: Callable[[CollectiveArguments], Iterable[Segment]]
    expected: Callable[[CollectiveArguments], Iterable[Segment]]
    prepare: Callable[[CollectiveArguments, Buffers], Callable[[], object]]
    in_place_offset: Callable[[CollectiveArguments], int] = lambda _: 0


def torch_reduce_op(reduce_op: str | None) -> dist.ReduceOp.RedOpType:
    """The torch.distributed operation of a name in ``spec.REDUCE_OPS``."""
    name = {"prod": "PRODUCT"}.get(reduce_op or "sum", (reduce_op or "sum").upper())
    operation: dist.ReduceOp.RedOpType = getattr(dist.ReduceOp, name)
    return operation
