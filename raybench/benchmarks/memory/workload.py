"""Memory as a workload: what training takes of a rank's memory by batch size, and the largest batch that fits."""

from raybench.benchmarks.memory.options import MemoryOptions
from raybench.benchmarks.training.models.config_shape import with_config
from raybench.benchmarks.training.models.shapes import check_model
from raybench.benchmarks.training.options import normalised
from raybench.benchmarks.workload import Workload

WORKLOAD = Workload(
    kind="memory",
    benchmarks={"memory": "raybench.benchmarks.memory.benchmark"},
    options=MemoryOptions,
    normalised=lambda settings: with_config(normalised(settings)),
    check=lambda options: check_model(options.training(1)),
    labels=lambda spec, _: (f"memory {spec.options.called}",),
    fewer="--batch-sizes",
    records="raybench.benchmarks.memory.records:RECORDS",
)
