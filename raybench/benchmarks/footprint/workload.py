"""Memory as a workload: what training takes of a rank's memory by batch size, and the largest batch that fits."""

from raybench.benchmarks.footprint.options import MemoryOptions
from raybench.benchmarks.training.options import normalised
from raybench.benchmarks.training.shapes import check_model
from raybench.benchmarks.workload import Workload

WORKLOAD = Workload(
    kind="memory",
    benchmarks={"memory": "raybench.benchmarks.footprint.benchmark"},
    options=MemoryOptions,
    normalised=normalised,
    check=lambda options: check_model(options.training(1)),
    labels=lambda spec, _: (f"memory {spec.options.model}",),
    fewer="--batch-sizes",
    records="raybench.benchmarks.footprint.records:RECORDS",
)
