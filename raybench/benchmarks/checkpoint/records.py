"""What the driver does with the records of a checkpoint benchmark."""

from raybench.benchmarks.checkpoint.combine import checkpoint_point
from raybench.benchmarks.checkpoint.record import CheckpointRecord
from raybench.benchmarks.timed import are_times
from raybench.benchmarks.workload import Records


def _problem(record: CheckpointRecord) -> str | None:
    seconds = [*record.blocked_seconds, *record.durable_seconds, *record.load_seconds]
    return None if are_times(seconds) else "a time that is none"


RECORDS = Records(
    record=CheckpointRecord,
    point=lambda launches, spec, _, __: checkpoint_point(launches, spec),
    problem=_problem,
)
