"""What the driver does with the records of a training benchmark."""

from collections.abc import Mapping

from raybench.benchmarks.spec import BenchmarkSpec
from raybench.benchmarks.timed import are_times
from raybench.benchmarks.training.combine import training_point
from raybench.benchmarks.training.findings import training_findings
from raybench.benchmarks.training.live.progress import TrainingLive
from raybench.benchmarks.training.record import TrainingRecord, first_steps, joined
from raybench.benchmarks.training.same_losses import loss_findings
from raybench.benchmarks.training.step_figures import step_figures
from raybench.benchmarks.workload import Records


def _problem(record: TrainingRecord) -> str | None:
    if record.marks is not None:
        width, steps = len(record.marks.names), len(record.losses)
        return None if width and len(record.marks.at) == width * steps else "marks of other steps than its losses"
    lengths = {len(record.stamps), len(record.losses), *map(len, record.phases.values())}
    if len(lengths) > 1:
        return "times of other steps than its losses"
    seconds = [*record.stamps, *(one for values in record.phases.values() for one in values)]
    return None if are_times(seconds) else "a time that is none"


def _in_common(launch: Mapping[int, TrainingRecord]) -> dict[int, TrainingRecord] | None:
    """With the steps that every rank has ended."""
    steps = min(len(record.stamps) for record in launch.values())
    return {rank: first_steps(record, steps) for rank, record in launch.items()} if steps else None


def _is_kept(part: TrainingRecord, spec: BenchmarkSpec) -> bool:
    """All steps but the last ones: the whole record has them all."""
    return part.marks is not None and part.first_step + len(part.losses) < spec.options.steps


def _steps_seconds(part: TrainingRecord) -> float | None:
    """From the start of the timed steps to the end of the last that the part tells."""
    return None if part.marks is None or not part.marks.at else (part.marks.at[-1] - part.started) / 1e9


RECORDS = Records(
    record=TrainingRecord,
    point=training_point,
    problem=_problem,
    joined=joined,
    in_common=_in_common,
    is_kept=_is_kept,
    live=lambda spec, size, emulated: TrainingLive(spec=spec, world_size=size, emulated=emulated),
    steps_seconds=_steps_seconds,
    step_figures=step_figures,
    findings=lambda benchmark, node_of, emulated: training_findings(benchmark, node_of, emulated=emulated),
    together=loss_findings,
)
