"""Every plot of the workloads of a run."""

from collections.abc import Sequence

from raybench.documents.benchmark import BenchmarkResult
from raybench.documents.checkpoint import CheckpointPoint
from raybench.documents.memory import MemoryPoint
from raybench.documents.training import TrainingPoint
from raybench.reports.plots.checkpoint import checkpoint_plots
from raybench.reports.plots.memory import memory_plots
from raybench.reports.plots.svg import Plot, plot_style
from raybench.reports.plots.training import training_plots


def workload_plots(benchmarks: Sequence[BenchmarkResult], *, emulated: bool) -> tuple[Plot, ...]:
    """Training, then memory, then checkpoints; none of what was not measured."""
    points = [point for benchmark in benchmarks for point in benchmark.workload if point.failed is None]
    trained = [point for point in points if isinstance(point, TrainingPoint)]
    fitted = [point for point in points if isinstance(point, MemoryPoint)]
    saved = [one for benchmark in benchmarks for one in benchmark.workload if isinstance(one, CheckpointPoint)]
    with plot_style():
        return (
            *training_plots(trained, emulated=emulated),
            *memory_plots(fitted, emulated=emulated),
            *checkpoint_plots(saved, emulated=emulated),
        )
