"""A run as rows of a table: one a point, or one a sample."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from raybench.documents.run.benchmark import OF_COLLECTIVES, BenchmarkResult
from raybench.documents.table import Row

if TYPE_CHECKING:
    from raybench.documents.run.result import RunResult

_PLACE = ("label", "message_bytes", "source_rank", "destination_rank")
POINT_COLUMNS = (
    *("benchmark", "kind", "status", *OF_COLLECTIVES),
    *_PLACE,
    "sample_count",
    *(f"{name}_seconds" for name in ("median", "mean", "min", "max", "p95", "p99", "stddev")),
    *("ci95_low_seconds", "ci95_high_seconds"),
    *("algbw_gb_per_s", "busbw_gb_per_s", "expected_ratio"),
    *("samples_per_s", "tokens_per_s", "tflop_per_s_per_rank", "mfu", "overhead", "overhead_band"),
    *("peak_memory_bytes", "largest_batch", "limit_bytes"),
    *("tensor_bytes", "stored_bytes", "save_gb_per_s", "load_gb_per_s"),
    *("complete", "verified", "wrong_elements", "failed"),
)
SAMPLE_COLUMNS = ("benchmark", "kind", *OF_COLLECTIVES, *_PLACE, "launch", "block", "sample", "seconds")


def point_rows(run: "RunResult") -> Iterator[Row]:
    """A row a point. Figures of an installed workload have columns of their own names."""
    for benchmark in run.benchmarks:
        known = {**_known(benchmark), "status": benchmark.status}
        yield from ({**known, **point.row()} for point in (*benchmark.points, *benchmark.workload))


def sample_rows(run: "RunResult") -> Iterator[Row]:
    """A row a timed operation, step or save, the slowest rank deciding, in the order of measuring."""
    for benchmark in run.benchmarks:
        for point in (*benchmark.points, *benchmark.workload):
            row = point.row()
            known = {**_known(benchmark), **{name: row.get(name) for name in _PLACE}}
            for number, (launch, block, seconds) in enumerate(point.samples()):
                yield {**known, "launch": launch, "block": block, "sample": number, "seconds": seconds}


def _known(benchmark: BenchmarkResult) -> Row:
    """Its name and parameters: the same collective may be measured in several types, in place and not."""
    parameters = {name: benchmark.parameters.get(name) for name in OF_COLLECTIVES}
    return {"benchmark": benchmark.name, "kind": benchmark.kind, **parameters}
