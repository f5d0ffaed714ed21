"""What a memory benchmark finds out. Pure."""

from collections.abc import Iterator

from diagnostics.findings import Finding
from raybench.documents.run.benchmark import BenchmarkResult
from raybench.documents.run.memory import MemoryPoint
from raybench.finding_rules.workloads import DOES_NOT_FIT
from raybench.units import format_bytes


def memory_findings(benchmark: BenchmarkResult) -> Iterator[Finding]:
    """A model of which not one sample fits: `raybench estimate` calls that a problem, too."""
    for point in benchmark.workload:
        if isinstance(point, MemoryPoint) and point.complete and not (point.failed or point.largest_batch):
            yield _unfit(point)


def _unfit(point: MemoryPoint) -> Finding:
    return DOES_NOT_FIT.finding(
        confidence="certain",
        summary=f"{point.label}: not even one sample fits into {format_bytes(point.limit_bytes)}",
        explanation=(
            "A training step with a batch of one takes more memory than there is, or than --memory-limit allows."
        ),
        recommendations=DOES_NOT_FIT.advise(),
    )
