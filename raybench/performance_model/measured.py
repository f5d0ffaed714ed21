"""Bandwidth and latency for estimates out of a run's result.json: alpha and beta measured instead of assumed."""

from collections.abc import Sequence
from dataclasses import dataclass

from raybench.documents.run.benchmark import BenchmarkResult
from raybench.documents.run.point import Point
from raybench.documents.run.result import RunResult
from raybench.errors import UsageError

_SMALL_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredLinks:
    """``bus_gb_per_s``: the best all_reduce over all ranks; ``latency_seconds``: its smallest message, None without.

    ``nodes`` and ``ranks`` are those it was measured on; ``basis`` says so.
    """

    bus_gb_per_s: float
    latency_seconds: float | None
    nodes: int
    ranks: int
    basis: str


def measured_links(run: RunResult) -> MeasuredLinks:
    """What a run measured with all_reduce. Raises UsageError where it has none."""
    points = _all_reduce_points(run.benchmarks)
    if not points:
        raise UsageError("this result has no measured all_reduce; run 'raybench run --suite all_reduce' first")
    fastest = max(points, key=lambda point: point.busbw_gb_per_s)
    smallest = min(points, key=lambda point: point.message_bytes)
    nodes, ranks = len(run.cluster.nodes), run.cluster.world_size
    emulated = ", EMULATED nodes" if run.cluster.emulated else ""
    return MeasuredLinks(
        bus_gb_per_s=fastest.busbw_gb_per_s,
        latency_seconds=smallest.seconds.median if smallest.message_bytes <= _SMALL_BYTES else None,
        nodes=nodes,
        ranks=ranks,
        basis=f"measured by run {run.run_id}: {ranks} ranks on {nodes} node(s){emulated}",
    )


def _all_reduce_points(benchmarks: Sequence[BenchmarkResult]) -> list[Point]:
    return [
        point
        for benchmark in benchmarks
        if benchmark.name == "all_reduce"
        for point in benchmark.points
        if point.busbw_gb_per_s and not point.wrong_elements
    ]
