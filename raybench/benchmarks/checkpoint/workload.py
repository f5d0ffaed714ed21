"""Checkpoints as a workload: a sharded model with its optimizer, saved to and loaded from each place."""

from collections.abc import Iterator
from pathlib import Path

from raybench.benchmarks.checkpoint.options import CheckpointOptions
from raybench.benchmarks.checkpoint.stores import BACKENDS, divided
from raybench.benchmarks.spec import BenchmarkSpec
from raybench.benchmarks.training.models.shapes import check_model
from raybench.benchmarks.training.options import TrainingOptions
from raybench.benchmarks.workload import Workload
from raybench.errors import UsageError
from raybench.run_folder import check_can_be_folder


def _needs(spec: BenchmarkSpec) -> Iterator[tuple[str, str]]:
    for place in spec.options.to:
        backend = BACKENDS[divided(place)[0]]
        if backend.library and backend.extra:
            yield backend.library, backend.extra


def _check_machine(spec: BenchmarkSpec, _: int) -> None:
    """Raises UsageError for a place on this machine that is no folder and cannot become one."""
    for place in spec.options.to:
        scheme, path = divided(place)
        if scheme != "file":
            continue
        try:
            check_can_be_folder(Path(path))
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise UsageError(
                f"--to {place} cannot be written: {reason}; name a folder, or one that can be made"
            ) from error


WORKLOAD = Workload(
    kind="checkpoint",
    benchmarks={"checkpoint": "raybench.benchmarks.checkpoint.benchmark"},
    options=CheckpointOptions,
    check=lambda options: check_model(TrainingOptions(model=options.model)),
    labels=lambda spec, _: spec.options.labels(),
    fewer="--saves",
    needs=_needs,
    check_machine=_check_machine,
    records="raybench.benchmarks.checkpoint.records:RECORDS",
)
