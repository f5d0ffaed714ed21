"""Records of a workload's ranks to a point of the result, whatever the workload."""

from collections.abc import Mapping, Sequence

from raybench.benchmarks.events import Record
from raybench.benchmarks.spec import BenchmarkSpec
from raybench.benchmarks.training.combine import training_point
from raybench.workloads.base import WorkloadPoint


def workload_point(launches: Sequence[Mapping[int, Record]], spec: BenchmarkSpec, world_size: int) -> WorkloadPoint:
    """One point from ``launches[launch][rank]``, of at least one launch."""
    return training_point(launches, spec, world_size)
