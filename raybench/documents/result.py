"""What a run measured: immutable, raw samples first, statistics derived on read. ``result.json`` is written from here.

Schema ``raybench.result/1``: keys are added, never renamed or removed. GB is 10^9 bytes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from raybench.documents.workload import WorkloadPoint
from raybench.stats import Summary, median_interval, summarize
from raybench.verdicts import Check, Conclusion, all_checks, conclude_run

SCHEMA = "raybench.result/1"

Status = Literal["complete", "partial", "failed"]
BenchmarkStatus = Literal["complete", "partial", "failed", "skipped"]
Kind = Literal["collective", "p2p", "training", "memory", "checkpoint"]
Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What a healthy system of the run's shape reaches at a point, and the reason for the figure.

    ``bus_gb_per_s`` is None where nothing is known; ``basis`` then says why. ``limit`` is the share of it below which a
    large message is slow; None where the figure is shown and nothing is judged by it.
    """

    bus_gb_per_s: float | None
    limit: float | None
    basis: str


@dataclass(frozen=True, kw_only=True)
class Point:
    """One message size of one benchmark.

    ``launches[launch][block][iteration]`` are seconds per operation, each taken as the slowest rank: the time between
    the moments at which the last rank completed one operation and the next. ``rank_seconds[rank]`` is that rank's own
    mean. ``bus_factor`` turns algbw into busbw (derived in docs/methods.md). ``wrong_elements`` counts elements over
    all ranks that differ from the exact expected value; ``verified`` is None when the check was switched off.
    """

    message_bytes: int
    element_count: int
    bus_factor: float
    launches: tuple[tuple[tuple[float, ...], ...], ...]
    rank_seconds: tuple[float, ...]
    verified: bool | None
    wrong_elements: int
    source_rank: int | None = None  # of a pair in a point-to-point matrix
    destination_rank: int | None = None
    ranks: tuple[int, ...] = ()  # whose times rank_seconds are; all of the run, in order, where empty
    wrong_by_rank: Mapping[int, int] = field(default_factory=dict)  # only ranks that have any
    algorithm: str | None = None  # what NCCL chose, where its log says so
    expected: Expected | None = None
    own_seconds: tuple[tuple[float, ...], ...] = ()  # [rank][sample], of the same local work in every rank

    @cached_property
    def samples_seconds(self) -> tuple[float, ...]:
        """Every timed operation of every launch and block, in order."""
        return tuple(sample for launch in self.launches for block in launch for sample in block)

    @cached_property
    def seconds(self) -> Summary:
        """Statistics over all samples."""
        return summarize(self.samples_seconds)

    @cached_property
    def interval_seconds(self) -> tuple[float, float] | None:
        """95 % bootstrap interval of the median; None where there are fewer than two blocks."""
        return median_interval(self.launches)

    @property
    def launch_medians_seconds(self) -> tuple[float, ...]:
        """The median of each launch (``--repeats``): their spread is what one launch cannot show."""
        pooled = ([sample for block in launch for sample in block] for launch in self.launches)
        return tuple(summarize(samples).median for samples in pooled if samples)

    @property
    def algbw_gb_per_s(self) -> float:
        """Message size over median time."""
        return self.message_bytes / self.seconds.median / 1e9

    @property
    def busbw_gb_per_s(self) -> float:
        """algbw times the bus factor: comparable with the link's own bandwidth whatever the number of ranks."""
        return self.algbw_gb_per_s * self.bus_factor

    @property
    def expected_ratio(self) -> float | None:
        """Measured over expected bus bandwidth; None where nothing is expected."""
        known = self.expected.bus_gb_per_s if self.expected else None
        return self.busbw_gb_per_s / known if known else None

    @property
    def expected_text(self) -> str:
        """``0.97``; ``1.84, not judged`` where the figure beside it is only shown; empty where there is none."""
        if self.expected is None or self.expected_ratio is None:
            return ""
        return f"{self.expected_ratio:.2f}" + (", not judged" if self.expected.limit is None else "")

    @property
    def slowest_rank(self) -> int:
        """The rank with the largest mean time of its own."""
        index = max(range(len(self.rank_seconds)), key=self.rank_seconds.__getitem__)
        return self.ranks[index] if self.ranks else index

    def to_json(self) -> Json:
        """The point as in the schema."""
        point: Json = {
            "message_bytes": self.message_bytes,
            "element_count": self.element_count,
            "iterations": len(self.samples_seconds),
            "seconds": _summary_json(self.seconds),
            "ci95_seconds": list(self.interval_seconds) if self.source_rank is None and self.interval_seconds else None,
            "samples_seconds": list(self.samples_seconds),
            "block_iterations": [[len(block) for block in launch] for launch in self.launches],
            "rank_seconds": list(self.rank_seconds),
            "algbw_gb_per_s": self.algbw_gb_per_s,
            "busbw_gb_per_s": self.busbw_gb_per_s,
            "verified": self.verified,
            "wrong_elements": self.wrong_elements,
            "slowest_rank": self.slowest_rank,
        }
        if len(self.launches) > 1:
            launches = summarize(self.launch_medians_seconds)
            point["repeats"] = {"medians_seconds": list(self.launch_medians_seconds), **_summary_json(launches)}
        if self.wrong_by_rank:
            point["wrong_elements_by_rank"] = {str(rank): count for rank, count in self.wrong_by_rank.items()}
        if self.source_rank is not None:
            point |= {"source_rank": self.source_rank, "destination_rank": self.destination_rank}
        if self.own_seconds:
            point["own_seconds"] = [list(samples) for samples in self.own_seconds]
        if self.algorithm is not None:
            point["algorithm"] = self.algorithm
        if self.expected is not None:
            point["expected"] = _expected_json(self.expected, self.expected_ratio)
        return point


@dataclass(frozen=True, kw_only=True)
class BenchmarkResult:
    """One benchmark with one set of parameters. ``reason`` says why it is not complete; ``warnings`` why to doubt it.

    Parameters of a collective: ``dtype``, ``reduce_op`` or None, ``root`` or None, ``in_place``.
    """

    name: str
    kind: Kind
    parameters: Mapping[str, Any]
    status: BenchmarkStatus
    points: tuple[Point, ...] = ()
    reason: str | None = None
    warnings: tuple[str, ...] = ()
    workload: tuple[WorkloadPoint, ...] = ()  # instead of points, of training, memory and checkpoint benchmarks

    @property
    def is_measured(self) -> bool:
        """Whether there is any figure."""
        return bool(self.points) or any(point.failed is None for point in self.workload)

    @property
    def wrong(self) -> tuple[str, ...]:
        """What checks found to be wrong in it."""
        elements = sum(point.wrong_elements for point in self.points)
        found = (f"{elements} elements differ from their exact expected value",) if elements else ()
        return found + tuple(f"{one.label}: {one.wrong}" for one in self.workload if one.wrong is not None)

    def to_json(self) -> Json:
        """The benchmark as in the schema."""
        return {
            "name": self.name,
            "kind": self.kind,
            "status": self.status,
            "reason": self.reason,
            "parameters": dict(self.parameters),
            "warnings": list(self.warnings),
            "points": [point.to_json() for point in self.points] + [point.to_json() for point in self.workload],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeInfo:
    """One node of the run. ``facts`` are what it said of itself: versions, GPUs, niceness, threads, TCP settings."""

    name: str
    address: str
    ranks: tuple[int, ...]
    gpu_count: int
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedNode:
    """A node that was asked for, or was there, and took no part or was lost, and why."""

    node: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterInfo:
    """The machines and ranks of a run. ``emulated``: the nodes are processes on one machine."""

    nodes: tuple[NodeInfo, ...]
    world_size: int
    backend: str
    emulated: bool
    dropped: tuple[DroppedNode, ...] = ()

    def node_of_rank(self, rank: int) -> NodeInfo:
        """The node that a rank ran on. Raises KeyError for a rank that no node has."""
        for node in self.nodes:
            if rank in node.ranks:
                return node
        raise KeyError(f"no node has rank {rank}")

    def to_json(self) -> Json:
        """The cluster as in the schema."""
        return {
            "nodes": [
                {
                    "name": node.name,
                    "address": node.address,
                    "ranks": list(node.ranks),
                    "gpu_count": node.gpu_count,
                    "facts": dict(node.facts),
                }
                for node in self.nodes
            ],
            "world_size": self.world_size,
            "backend": self.backend,
            "emulated": self.emulated,
            "dropped": [{"node": dropped.node, "reason": dropped.reason} for dropped in self.dropped],
        }


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """A whole run. ``findings`` have the shape of a diagnosis finding (rule, severity, summary, ranks, hosts, ...).

    ``checks``: what it was judged by beside its data. ``log_findings``: those of the diagnosis of its logs, which
    count for the verdict and are written in ``diagnosis.json``. ``problems``: files of it that could not be kept.
    """

    run_id: str
    status: Status
    started_at: str
    finished_at: str
    cluster: ClusterInfo
    versions: Mapping[str, str]
    variables: Mapping[str, str]
    config: Mapping[str, Any]
    benchmarks: tuple[BenchmarkResult, ...]
    findings: tuple[Mapping[str, Any], ...] = ()
    timings: Mapping[str, float] = field(default_factory=dict)  # seconds of each phase of the run itself
    checks: tuple[Check, ...] = ()
    log_findings: tuple[Mapping[str, Any], ...] = ()
    problems: tuple[str, ...] = ()

    @cached_property
    def conclusion(self) -> Conclusion:
        """The verdict and its reason, from status, findings and verification."""
        return conclude_run(self)

    @property
    def wrong(self) -> tuple[str, ...]:
        """What checks found to be wrong, over the whole run."""
        return tuple(f"{benchmark.name}: {text}" for benchmark in self.benchmarks for text in benchmark.wrong)

    @property
    def wrong_elements(self) -> int:
        """Elements that differed from their expected value, over the whole run."""
        return sum(point.wrong_elements for benchmark in self.benchmarks for point in benchmark.points)

    def to_json(self) -> Json:
        """The run as in the schema."""
        return {
            "schema": SCHEMA,
            "run_id": self.run_id,
            "status": self.status,
            "verdict": self.conclusion.verdict,
            "verdict_reason": self.conclusion.reason,
            "checks": [check.to_json() for check in all_checks(self)],
            "started_at": self.started_at,
            "finished_at": self.finished_at,
            "cluster": self.cluster.to_json(),
            "environment": {"versions": dict(self.versions), "variables": dict(self.variables)},
            "config": dict(self.config),
            "benchmarks": [benchmark.to_json() for benchmark in self.benchmarks],
            "findings": [dict(finding) for finding in self.findings],
            "timings_seconds": dict(self.timings),
        }


def _expected_json(expected: Expected, ratio: float | None) -> Json:
    if expected.bus_gb_per_s is None:
        return {"unknown": expected.basis}
    return {
        "busbw_gb_per_s": expected.bus_gb_per_s,
        "ratio": ratio,
        "limit": expected.limit,
        "basis": expected.basis,
    }


def _summary_json(summary: Summary) -> Json:
    return {
        "median": summary.median,
        "mean": summary.mean,
        "min": summary.min,
        "max": summary.max,
        "p99": summary.p99,
        "stddev": summary.stddev,
    }


def benchmark_named(benchmarks: Sequence[BenchmarkResult], name: str) -> BenchmarkResult | None:
    """The first benchmark of that name, or None."""
    return next((benchmark for benchmark in benchmarks if benchmark.name == name), None)
