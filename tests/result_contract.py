"""A strict reading of ``raybench.result/1`` as the contract has it: nothing missing, nothing of another type."""

import statistics
from typing import Any

import msgspec
import pytest

FACTORS = {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    **dict.fromkeys(("all_gather", "reduce_scatter", "gather", "scatter", "all_to_all"), lambda n: (n - 1) / n),
    **dict.fromkeys(("broadcast", "reduce", "send_recv", "p2p_matrix"), lambda _: 1.0),
}


class Seconds(msgspec.Struct):
    median: float
    mean: float
    min: float
    max: float
    p99: float
    stddev: float


class ResultPoint(msgspec.Struct, kw_only=True):
    message_bytes: int
    element_count: int
    iterations: int
    seconds: Seconds
    ci95_seconds: tuple[float, float] | None
    samples_seconds: list[float]
    block_iterations: list[list[int]]
    rank_seconds: list[float]
    algbw_gb_per_s: float
    busbw_gb_per_s: float
    verified: bool | None
    wrong_elements: int
    slowest_rank: int
    expected: dict[str, Any]  # of every measured point: what a healthy system reaches, or why that is not known
    source_rank: int | None = None
    destination_rank: int | None = None


class ResultBenchmark(msgspec.Struct, kw_only=True):
    name: str
    kind: str
    status: str
    reason: str | None
    parameters: dict[str, Any]
    warnings: list[str]
    points: list[ResultPoint]


class ResultNode(msgspec.Struct, kw_only=True):
    name: str
    address: str
    ranks: list[int]
    gpu_count: int
    facts: dict[str, Any]


class Dropped(msgspec.Struct):
    node: str
    reason: str


class Cluster(msgspec.Struct, kw_only=True):
    nodes: list[ResultNode]
    world_size: int
    backend: str
    emulated: bool
    dropped: list[Dropped]


class Environment(msgspec.Struct):
    versions: dict[str, str]
    variables: dict[str, str]


class Result(msgspec.Struct, kw_only=True):
    schema: str
    run_id: str
    status: str
    verdict: str
    verdict_reason: str
    checks: list[dict[str, str]]
    started_at: str
    finished_at: str
    cluster: Cluster
    environment: Environment
    config: dict[str, Any]
    benchmarks: list[ResultBenchmark]
    findings: list[dict[str, Any]]
    timings_seconds: dict[str, float]


def read_result(content: str | bytes) -> Result:
    """A result.json, checked against the contract and in itself. Raises ValidationError or AssertionError."""
    result = msgspec.json.decode(content, type=Result, strict=True)
    assert result.schema == "raybench.result/1"
    assert result.status in ("complete", "partial", "failed")
    assert result.verdict in ("ok", "warning", "critical", "incomplete", "unknown")
    assert result.verdict_reason
    assert result.started_at <= result.finished_at
    ranks = [rank for node in result.cluster.nodes for rank in node.ranks]
    assert ranks == list(range(result.cluster.world_size))
    for finding in result.findings:
        assert {"rule", "severity", "confidence", "summary", "explanation", "ranks", "hosts", "evidence"} <= set(
            finding
        )
    for benchmark in result.benchmarks:
        _check_benchmark(benchmark, result)
    return result


def _check_benchmark(benchmark: ResultBenchmark, result: Result) -> None:
    assert benchmark.kind in ("collective", "p2p")
    assert benchmark.status in ("complete", "partial", "failed", "skipped")
    assert benchmark.reason or benchmark.status == "complete"
    assert set(benchmark.parameters) == {"dtype", "reduce_op", "root", "in_place"}
    factor = FACTORS[benchmark.name](result.cluster.world_size)
    for point in benchmark.points:
        _check_point(point, factor)
        contributors = 2 if benchmark.name == "p2p_matrix" else result.cluster.world_size
        assert len(point.rank_seconds) == contributors
        assert 0 <= point.slowest_rank < result.cluster.world_size


def _check_point(point: ResultPoint, factor: float) -> None:
    assert set(point.expected) in ({"unknown"}, {"busbw_gb_per_s", "ratio", "limit", "basis"})
    samples = point.samples_seconds
    assert all(sample > 0 for sample in samples)
    assert point.iterations == len(samples) == sum(map(sum, point.block_iterations))
    assert point.seconds.median == pytest.approx(statistics.median(samples))
    assert point.seconds.mean == pytest.approx(statistics.fmean(samples))
    assert (point.seconds.min, point.seconds.max) == (min(samples), max(samples))
    assert point.algbw_gb_per_s == pytest.approx(point.message_bytes / statistics.median(samples) / 1e9)
    assert point.busbw_gb_per_s == pytest.approx(point.algbw_gb_per_s * factor)
    if point.ci95_seconds is not None:
        low, high = point.ci95_seconds
        assert min(samples) <= low <= high <= max(samples)
