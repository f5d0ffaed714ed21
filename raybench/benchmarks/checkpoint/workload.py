"""Checkpoints as a workload: a sharded model with its optimizer, saved to and loaded from each place."""

from collections.abc import Iterator
from pathlib import Path

from raybench.benchmarks.checkpoint.options import CheckpointOptions
from raybench.benchmarks.spec import BenchmarkSpec
from raybench.benchmarks.training.options import TrainingOptions
from raybench.benchmarks.training.shapes import check_model
from raybench.benchmarks.workload import Workload
from raybench.errors import UsageError
from raybench.run_folder import check_can_be_folder

# Libraries of storage: (how a place begins, module, extra).
_STORES = (("s3://", "boto3", "s3"), ("gs://", "gcsfs", "gcs"))


def _needs(spec: BenchmarkSpec) -> Iterator[tuple[str, str]]:
    for place in spec.options.to:
        yield from ((module, extra) for start, module, extra in _STORES if place.startswith(start))


def _check_machine(spec: BenchmarkSpec) -> None:
    """Raises UsageError for a place on this machine that is no folder and cannot become one."""
    for place in spec.options.to:
        scheme, separator, rest = place.partition("://")
        if separator and scheme != "file":
            continue
        try:
            check_can_be_folder(Path(rest if separator else place))
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
