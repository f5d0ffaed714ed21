"""What the driver does with the records of a memory benchmark."""

from collections.abc import Mapping

import msgspec

from raybench.benchmarks.memory.combine import memory_point
from raybench.benchmarks.memory.findings import memory_findings
from raybench.benchmarks.memory.record import MemoryRecord
from raybench.benchmarks.workload import Records


def _in_common(launch: Mapping[int, MemoryRecord]) -> dict[int, MemoryRecord] | None:
    """With the batch sizes that every rank has tried."""
    common = set.intersection(*({trial.batch_size for trial in record.trials} for record in launch.values()))
    return {rank: _tried(record, common) for rank, record in launch.items()} if common else None


def _tried(record: MemoryRecord, batch_sizes: set[int]) -> MemoryRecord:
    trials = tuple(trial for trial in record.trials if trial.batch_size in batch_sizes)
    return msgspec.structs.replace(record, trials=trials)


RECORDS = Records(
    record=MemoryRecord,
    point=lambda launches, spec, *_: memory_point(launches, spec),
    in_common=_in_common,
    note=lambda part: part.text,
    findings=lambda benchmark, *_: memory_findings(benchmark),
)
