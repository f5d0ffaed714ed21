"""A run beside an earlier healthy run of the same cluster: what no published figure can tell, this can.

Published healthy systems of a shape differ by up to 14 %, a lost NIC of eight costs 12.5 %. Published repeats on one
machine type differ by 0.3 to 3 % at large messages, so a cluster's own healthy run finds what the others hide.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from msgspec.structs import replace

from diagnostics.findings import Finding, Recommendation
from raybench.documents.run.benchmark import BenchmarkResult
from raybench.documents.run.cluster import ClusterInfo
from raybench.documents.run.point import Expected, Point
from raybench.documents.run.result import RunResult
from raybench.documents.run.verdict import BASELINE, Check
from raybench.errors import UsageError
from raybench.finding_rules.bandwidth import BELOW_BASELINE, NOT_COMPARABLE
from raybench.units import format_bytes

# Between a cluster against itself, at most 3 % apart, and a lost NIC of eight, 12.5 %.
LIMIT = 0.94
# Smaller messages differ by tens of percent from launch to launch (up to 4 MiB, measured with gloo).
LEAST_BYTES = 64 * 2**20
_Key = tuple[str, str, int]  # benchmark, its parameters as JSON, message bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselinePoint:
    """Bus bandwidth in GB/s: the median, and at the slow end of the 95 % interval of its time."""

    bus_gb_per_s: float
    slow_gb_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """An earlier run: its shape, and its points by benchmark, parameters and message size."""

    run_id: str
    started_at: str
    shape: Mapping[str, Any]
    points: Mapping[_Key, BaselinePoint]


def baseline_of(run: RunResult, where: str) -> Baseline:
    """From an earlier run. Raises UsageError where it has no collective that was measured; ``where`` begins it."""
    points = {
        _key(benchmark.name, benchmark.parameters, point.message_bytes): _point(point)
        for benchmark in run.benchmarks
        if benchmark.kind == "collective"
        for point in benchmark.points
        if point.busbw_gb_per_s and not point.wrong_elements
    }
    if not points:
        raise UsageError(f"{where} has no collective with a bandwidth; run 'raybench run --suite collectives' for one")
    return Baseline(run_id=run.run_id, started_at=run.started_at, shape=shape_of(run.cluster), points=points)


def _key(name: str, parameters: Mapping[str, Any], message_bytes: int) -> _Key:
    return name, json.dumps(dict(parameters), sort_keys=True), message_bytes


def _point(point: Point) -> BaselinePoint:
    busbw, interval = point.busbw_gb_per_s, point.interval_seconds
    slow = busbw * point.seconds.median / interval[1] if interval else busbw
    return BaselinePoint(bus_gb_per_s=busbw, slow_gb_per_s=slow)


def shape_of(cluster: ClusterInfo) -> Mapping[str, Any]:
    """What two runs need to have in common for their figures to be comparable, by the words of messages."""
    return {
        "nodes": len(cluster.nodes),
        "ranks": cluster.world_size,
        "backend": cluster.backend,
        "GPUs": ", ".join(sorted({name for node in cluster.nodes for name in node.gpu_names})) or "none",
        "emulated": cluster.emulated,
    }


def against_baseline(result: RunResult, baseline: Baseline) -> RunResult:
    """The run with the baseline's figure as expected wherever it has one, and a finding for each slower collective.

    Another shape is not compared; that is a finding, too. Emulated nodes are shown beside it and not judged, which is a
    finding as well: their bandwidth is that of whatever else runs on the machine, and changes several times over.
    """
    now = shape_of(result.cluster)
    differing = [name for name, value in now.items() if baseline.shape[name] != value]
    if differing:
        parts = [f"{name} {baseline.shape[name]} then, {now[name]} now" for name in differing]
        other = _incomparable(baseline, f"is of another shape: {'; '.join(parts)}")
        return _with_findings(result, [other], baseline)
    limit = None if result.cluster.emulated else LIMIT
    benchmarks = tuple(_beside(benchmark, baseline, limit) for benchmark in result.benchmarks)
    found = _findings(benchmarks, baseline, result.cluster)
    return _with_findings(replace(result, benchmarks=benchmarks), found, baseline)


def _with_findings(result: RunResult, found: Sequence[Finding], baseline: Baseline) -> RunResult:
    """The run with what came of the comparison, and a check that says which of the three it was."""
    if any(finding.rule == NOT_COMPARABLE.id for finding in found):
        check = Check(name=BASELINE, outcome="not judged", text=f"not compared with the baseline {baseline.run_id}")
    elif found:
        check = Check(name=BASELINE, outcome="failed", text=f"slower than the baseline {baseline.run_id}")
    else:
        check = Check(name=BASELINE, outcome="passed", text=_as_fast(result.benchmarks, baseline))
    return replace(result, findings=(*result.findings, *found), checks=(*result.checks, check))


def _as_fast(benchmarks: Sequence[BenchmarkResult], baseline: Baseline) -> str:
    """Which collectives are as fast as the baseline, where it has not all of them."""
    collectives = [one for one in benchmarks if one.kind == "collective" and one.is_measured]
    compared = [one for one in collectives if _compared(one, baseline)]
    part = "" if len(compared) == len(collectives) else f"{len(compared)} of {len(collectives)} collectives "
    return f"{part}as fast as the baseline {baseline.run_id}"


def _findings(benchmarks: Sequence[BenchmarkResult], baseline: Baseline, cluster: ClusterInfo) -> Sequence[Finding]:
    if cluster.emulated:
        return (
            _incomparable(
                baseline,
                "is shown and not compared: emulated nodes share the processors of one machine",
                advice=NOT_COMPARABLE.advise()[1:],
            ),
        )
    if not any(_compared(benchmark, baseline) for benchmark in benchmarks):
        least = format_bytes(LEAST_BYTES)
        return (_incomparable(baseline, f"has no collective in common with this run at {least} or more"),)
    return [one for benchmark in benchmarks if (one := _slower(benchmark, baseline, cluster)) is not None]


def _beside(benchmark: BenchmarkResult, baseline: Baseline, limit: float | None) -> BenchmarkResult:
    if benchmark.kind != "collective":
        return benchmark
    return replace(benchmark, points=tuple(_expected(benchmark, point, baseline, limit) for point in benchmark.points))


def _expected(benchmark: BenchmarkResult, point: Point, baseline: Baseline, limit: float | None) -> Point:
    before = _before(benchmark, point, baseline)
    if before is None or not point.samples_seconds:
        return point
    basis = f"this cluster's own run {baseline.run_id} of {baseline.started_at[:10]}"
    return replace(point, expected=Expected(bus_gb_per_s=before.bus_gb_per_s, limit=limit, basis=basis))


def _before(benchmark: BenchmarkResult, point: Point, baseline: Baseline) -> BaselinePoint | None:
    return baseline.points.get(_key(benchmark.name, benchmark.parameters, point.message_bytes))


def _compared(benchmark: BenchmarkResult, baseline: Baseline) -> Sequence[tuple[Point, BaselinePoint]]:
    """Points of both runs that decide: large, and within a factor 4 of the largest."""
    both = [
        (point, before)
        for point in benchmark.points
        if benchmark.kind == "collective" and point.samples_seconds and point.message_bytes >= LEAST_BYTES
        if (before := _before(benchmark, point, baseline)) is not None
    ]
    largest = max((point.message_bytes for point, _ in both), default=0)
    return [pair for pair in both if 4 * pair[0].message_bytes >= largest]


def _slower(benchmark: BenchmarkResult, baseline: Baseline, cluster: ClusterInfo) -> Finding | None:
    """A finding where even this run's fast end is below the limit of the baseline's slow end."""
    deciding = _compared(benchmark, baseline)
    if not deciding or median(_fast(point) / before.slow_gb_per_s for point, before in deciding) >= LIMIT:
        return None
    ratio = median(point.busbw_gb_per_s / before.bus_gb_per_s for point, before in deciding)
    point, before = deciding[-1]
    return BELOW_BASELINE.finding(
        confidence="likely",
        summary=f"{benchmark.name} reaches {ratio:.0%} of this cluster's own run {baseline.run_id}: "
        f"{point.busbw_gb_per_s:.1f} GB/s at {format_bytes(point.message_bytes)}, {before.bus_gb_per_s:.1f} then",
        explanation=f"Below {LIMIT:.0%} of it with both 95 % intervals, at the largest messages that both runs have, "
        f"on {len(cluster.nodes)} nodes. A lost NIC of eight costs 12 %; repeats differ by up to 3 %.",
        recommendations=BELOW_BASELINE.advise(),
    )


def _fast(point: Point) -> float:
    low = point.interval_seconds[0] if point.interval_seconds else point.seconds.median
    return point.busbw_gb_per_s * point.seconds.median / low if low > 0 else point.busbw_gb_per_s


def _incomparable(
    baseline: Baseline, why: str, *, advice: tuple[Recommendation, ...] = NOT_COMPARABLE.advise()[:1]
) -> Finding:
    return NOT_COMPARABLE.finding(
        confidence="likely",
        summary=f"the baseline {baseline.run_id} {why}",
        explanation="Bandwidth depends on nodes, ranks, types and sizes, so nothing was judged by it.",
        recommendations=advice,
    )
