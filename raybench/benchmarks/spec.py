"""What to measure, as data that travels from the driver to every rank. No torch here: the driver never imports it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

DTYPE_BYTES = {
    "float64": 8,
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "int64": 8,
    "int32": 4,
    "int8": 1,
    "uint8": 1,
}
MOST_OWN_SAMPLES = 20  # beside one point
REDUCE_OPS = ("sum", "prod", "min", "max", "avg")


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkSpec:
    """One benchmark with its parameters, as every rank runs it.

    ``iterations`` per block; None lets the ranks choose so that a block takes about ``block_seconds``, within
    ``max_iterations``. ``own_samples``: how often ranks time work of their own beside each point, or over all passes of
    a matrix of pairs. ``reduce_op`` and ``root`` are None for operations without one. ``options`` are those of the
    workload of this kind; one that has options has no sizes.
    """

    name: str
    kind: str
    sizes: tuple[int, ...]
    dtype: str = "float32"
    reduce_op: str | None = None
    root: int | None = None
    in_place: bool = False
    warmup: int = 5
    iterations: int | None = None
    blocks: int = 5
    block_seconds: float = 0.05
    max_iterations: int = 50
    verify: bool = True
    own_samples: int = 0
    options: Any = None

    def __post_init__(self) -> None:
        """Options that come from another process are a mapping until the workload of the kind tells their type."""
        if isinstance(self.options, Mapping):
            from raybench.benchmarks.registry import workload_of  # the table of workloads is built on specs

            typed = msgspec.convert(self.options, workload_of(self.kind).options)
            object.__setattr__(self, "options", typed)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankSamples:
    """What one rank measured at one size.

    ``stamps[block][iteration]`` are seconds from the start of the block to the completion of that iteration on this
    rank. ``contributors`` ranks measure the same point: all, or the two of a pair. ``own_seconds``: of the same local
    work, in every rank at the same time; of a collective they come later, as ``OwnSpeed``.
    """

    message_bytes: int
    element_count: int
    bus_factor: float
    stamps: tuple[tuple[float, ...], ...]
    wrong_elements: int
    verified: bool
    contributors: int
    source_rank: int | None = None
    destination_rank: int | None = None
    own_seconds: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnSpeed:
    """Seconds of the same local work, which all ranks time together after they have measured the point of that size."""

    message_bytes: int
    seconds: tuple[float, ...]
