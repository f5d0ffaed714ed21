"""The records of all ranks to one point of the result. Pure."""

from collections.abc import Mapping, Sequence

from raybench.benchmarks.checkpoint.record import CheckpointRecord
from raybench.benchmarks.spec import BenchmarkSpec
from raybench.documents.run.checkpoint import CheckpointPoint

Launch = Mapping[int, CheckpointRecord]


def checkpoint_point(launches: Sequence[Launch], spec: BenchmarkSpec | None = None) -> CheckpointPoint:
    """One point from every rank's record, ``launches[launch][rank]``. The slowest rank decides each repetition."""
    first = [record for _, record in sorted(launches[0].items())]
    writing = [record for record in first if record.tensor_bytes]
    failed = next((one.failed for launch in launches for one in launch.values() if one.failed), None)
    verified = all(one.verified for launch in launches for one in launch.values())
    cut = any(one.interim for launch in launches for one in launch.values())
    wrong = sum(one.wrong_elements for launch in launches for one in launch.values())
    return CheckpointPoint(
        label=first[0].label,
        blocked_seconds=_slowest(launches, "blocked_seconds"),
        durable_seconds=_slowest(launches, "durable_seconds"),
        load_seconds=_slowest(launches, "load_seconds"),
        writing_ranks=max(len(writing), 1),
        tensor_bytes=sum(record.tensor_bytes for record in first),
        stored_bytes=sum(record.stored_bytes for record in first),
        wrong_elements=wrong,
        verified=not wrong if verified else None,
        failed=failed,
        complete=not cut,
        saves_asked=spec.options.saves * len(launches) if spec else None,
        kept=next((one.kept for one in reversed([launch[min(launch)] for launch in launches]) if one.kept), None),
    )


def _slowest(launches: Sequence[Launch], name: str) -> tuple[float, ...]:
    found: list[float] = []
    for launch in launches:
        by_rank = [values for record in launch.values() if (values := getattr(record, name))]
        found += [max(repetition) for repetition in zip(*by_rank, strict=False)]
    return tuple(found)
