"""Records of a workload's ranks to a point of the result, whatever the workload."""

from collections.abc import Mapping, Sequence
from typing import cast

from raybench.benchmarks.checkpoint.combine import checkpoint_point
from raybench.benchmarks.checkpoint.record import CheckpointRecord
from raybench.benchmarks.events import Record
from raybench.benchmarks.footprint.combine import memory_point
from raybench.benchmarks.footprint.record import MemoryRecord
from raybench.benchmarks.spec import BenchmarkSpec
from raybench.benchmarks.training.combine import training_point
from raybench.benchmarks.training.record import TrainingRecord
from raybench.workloads.base import WorkloadPoint


def workload_point(launches: Sequence[Mapping[int, Record]], spec: BenchmarkSpec, world_size: int) -> WorkloadPoint:
    """One point from ``launches[launch][rank]``, of at least one launch."""
    if spec.kind == "checkpoint":
        return checkpoint_point(cast("Sequence[Mapping[int, CheckpointRecord]]", launches))
    if spec.kind == "memory":
        return memory_point(cast("Sequence[Mapping[int, MemoryRecord]]", launches))
    return training_point(cast("Sequence[Mapping[int, TrainingRecord]]", launches), spec, world_size)
