"""The records of all ranks to one point of the result. Pure."""

from collections.abc import Mapping, Sequence

from raybench.benchmarks.memory.record import MemoryRecord
from raybench.benchmarks.spec import BenchmarkSpec
from raybench.benchmarks.training.models.shapes import parameter_count
from raybench.documents.run.memory import MemoryPoint, Use

Launch = Mapping[int, MemoryRecord]


def memory_point(launches: Sequence[Launch], spec: BenchmarkSpec) -> MemoryPoint:
    """One point from every rank's record. Of each batch size the rank that takes most counts."""
    records = [record for launch in launches for _, record in sorted(launch.items())]
    first = records[0]
    sizes = sorted({trial.batch_size for record in records for trial in record.trials})
    return MemoryPoint(
        label=first.label,
        uses=tuple(_use(size, records) for size in sizes),
        largest_batch=min(record.largest_batch for record in records),
        reached_most=all(record.reached_most for record in records),
        limit_bytes=min(record.limit_bytes for record in records),
        emulated=first.emulated,
        complete=not any(record.interim for record in records),
        parameter_count=parameter_count(spec.options.training(1)),
    )


def _use(batch_size: int, records: Sequence[MemoryRecord]) -> Use:
    trials = [trial for record in records for trial in record.trials if trial.batch_size == batch_size]
    worst = max(trials, key=lambda trial: trial.peak)
    return Use(
        batch_size=batch_size,
        fits=all(trial.fits for trial in trials),
        parameters=worst.parameters,
        gradients=worst.gradients,
        optimizer_state=worst.optimizer_state,
        activations=worst.activations,
        peak=worst.peak,
        reserved=worst.reserved,
        estimate=records[0].estimates.get(str(batch_size), {}),
    )
