"""Records of a workload's ranks to a point of the result, whatever the workload."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from raybench.benchmarks.checkpoint.combine import checkpoint_point
from raybench.benchmarks.checkpoint.record import CheckpointRecord
from raybench.benchmarks.events import Record
from raybench.benchmarks.footprint.combine import memory_point
from raybench.benchmarks.footprint.record import MemoryRecord
from raybench.benchmarks.spec import BenchmarkSpec
from raybench.benchmarks.training.combine import training_point
from raybench.benchmarks.training.record import TrainingRecord, first_steps, joined
from raybench.documents.result import MeasuredWorkload


def workload_point(
    launches: Sequence[Mapping[int, Record]],
    spec: BenchmarkSpec,
    world_size: int,
    cut: Mapping[int, Record] | None = None,
) -> MeasuredWorkload:
    """One point from ``launches[launch][rank]``, of at least one launch. ``cut``: a further launch that was cut."""
    if spec.kind == "checkpoint":
        return checkpoint_point(cast("Sequence[Mapping[int, CheckpointRecord]]", launches), spec)
    if spec.kind == "memory":
        return memory_point(cast("Sequence[Mapping[int, MemoryRecord]]", launches))
    whole = cast("Sequence[Mapping[int, TrainingRecord]]", launches)
    return training_point(whole, spec, world_size, cast("Mapping[int, TrainingRecord] | None", cut))


def of_parts(parts: Sequence[Record]) -> Record:
    """What the parts of a rank say together, in their order: of steps each says its own, else the last says all."""
    if isinstance(parts[-1], TrainingRecord):
        return joined(cast("Sequence[TrainingRecord]", parts))
    return parts[-1]


def in_common(launch: Mapping[int, Record]) -> dict[int, Record] | None:
    """A launch that was cut, as far as all of its ranks came; None where that is nothing."""
    records: Any = launch.values()
    first = next(iter(records))
    if isinstance(first, TrainingRecord):
        steps = min(len(record.stamps) for record in records)
        return {rank: first_steps(one, steps) for rank, one in zip(launch, records, strict=True)} if steps else None
    if isinstance(first, MemoryRecord):
        common = set.intersection(*({trial.batch_size for trial in record.trials} for record in records))
        return {rank: _tried(one, common) for rank, one in zip(launch, records, strict=True)} if common else None
    return dict(launch)


def _tried(record: MemoryRecord, batch_sizes: set[int]) -> MemoryRecord:
    trials = tuple(trial for trial in record.trials if trial.batch_size in batch_sizes)
    return msgspec.structs.replace(record, trials=trials)
