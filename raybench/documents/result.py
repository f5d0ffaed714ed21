"""What a run measured: immutable, raw samples first, statistics derived on read. ``result.json`` is written from here.

Schema ``raybench.result/1``: keys are added, never renamed or removed. GB is 10^9 bytes.
"""

from collections.abc import Mapping
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, Struct, ValidationError, convert, field

from raybench.documents.checkpoint import CheckpointPoint
from raybench.documents.figures import FiguresPoint
from raybench.documents.memory import MemoryPoint
from raybench.documents.part import DamageError, Document, Json, Part, placed, take
from raybench.documents.run_verdict import Check, all_checks, conclude_run
from raybench.documents.training import TrainingPoint
from raybench.stats import Summary, median, median_interval, summarize
from raybench.verdicts import Conclusion, Verdict

SCHEMA = "raybench.result/1"

Status = Literal["complete", "partial", "failed"]
BenchmarkStatus = Literal["complete", "partial", "failed", "skipped"]
Count = Annotated[int, Meta(ge=0)]
Seconds = Annotated[float, Meta(ge=0, lt=1e12)]
_ENVIRONMENT = ("versions", "variables")
_Lengths = tuple[tuple[Count, ...], ...]


class Expected(Part, frozen=True, kw_only=True):
    """What a healthy system of the run's shape reaches at a point, and the reason for the figure.

    ``bus_gb_per_s`` is None where nothing is known; ``basis`` then says why. ``limit`` is the share of it below which a
    large message is slow; None where the figure is shown and nothing is judged by it.
    """

    bus_gb_per_s: float | None = field(default=None, name="busbw_gb_per_s")
    limit: float | None = None
    basis: str
    DERIVED: ClassVar[frozenset[str]] = frozenset({"ratio", "unknown"})

    @classmethod
    def stored(cls, content: Json) -> Json:
        """Where nothing is expected the reason has a key of its own."""
        return {"basis": content["unknown"]} if "unknown" in content else content

    def to_json(self) -> Json:
        """Without the ratio, which is the point's."""
        if self.bus_gb_per_s is None:
            return self.with_unknown({"unknown": self.basis})
        return self.with_unknown(
            {"busbw_gb_per_s": self.bus_gb_per_s, "ratio": None, "limit": self.limit, "basis": self.basis}
        )


class Point(Part, frozen=True, kw_only=True):
    """One message size of one benchmark.

    ``launches[launch][block][iteration]`` are seconds per operation, each taken as the slowest rank: the time between
    the moments at which the last rank completed one operation and the next. ``rank_seconds[rank]`` is that rank's own
    mean. ``bus_factor`` turns algbw into busbw (derived in docs/methods.md). ``wrong_elements`` counts elements over
    all ranks that differ from the exact expected value; ``verified`` is None when the check was switched off.
    """

    message_bytes: Count
    element_count: Count
    bus_factor: Annotated[float, Meta(ge=0, lt=1e6)]
    launches: tuple[tuple[tuple[Seconds, ...], ...], ...] = field(name="+launches")
    rank_seconds: tuple[Seconds, ...]
    verified: bool | None
    wrong_elements: Count
    source_rank: Count | None = None  # of a pair in a point-to-point matrix
    destination_rank: Count | None = None
    ranks: tuple[Count, ...] = field(default=(), name="+ranks")  # of rank_seconds; all, in order, where empty
    wrong_by_rank: Mapping[int, int] = field(default_factory=dict, name="wrong_elements_by_rank")  # those that have any
    algorithm: str | None = None  # what NCCL chose, where its log says so
    expected: Expected | None = None
    recorded_interval: tuple[Seconds, Seconds] | None = field(default=None, name="ci95_seconds")  # as it was written
    own_seconds: tuple[tuple[Seconds, ...], ...] = ()  # [rank][sample], of the same local work in every rank
    DERIVED: ClassVar[frozenset[str]] = frozenset(
        [
            "iterations",
            "seconds",
            "samples_seconds",
            "block_iterations",
            "algbw_gb_per_s",
            "busbw_gb_per_s",
            "slowest_rank",
            "repeats",
        ]
    )

    @classmethod
    def stored(cls, content: Json) -> Json:
        """Launches out of the samples; the factor of a document that has none follows from its bandwidths."""
        pair = [content.get("source_rank"), content.get("destination_rank")]
        times = content.get("rank_seconds")
        is_theirs = None not in pair and isinstance(times, list) and len(times) == len(pair)
        return {
            **_bus_factor(content),
            **content,
            "+launches": _launches(content),
            "+ranks": sorted(pair) if is_theirs else [],
        }

    def contradiction(self) -> str | None:
        """Whether anything can be derived from it."""
        samples = self.samples_seconds
        if not samples or (min(samples) <= 0 and median(samples) <= 0):
            return "a point without a time"
        if self.recorded_interval and self.recorded_interval[1] <= 0:
            return "an interval that ends at 0"
        return None if self.rank_seconds else "no rank_seconds"

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
        return self.recorded_interval or median_interval(self.launches)

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
            "bus_factor": self.bus_factor,
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
            ratio = {} if self.expected.bus_gb_per_s is None else {"ratio": self.expected_ratio}
            point["expected"] = self.expected.to_json() | ratio
        return self.with_unknown(point)


MeasuredWorkload = TrainingPoint | MemoryPoint | CheckpointPoint | FiguresPoint
_OF_MESSAGES = ("collective", "p2p")
_OWN_POINTS = ("training", "memory", "checkpoint")  # those of other kinds are figures


class BenchmarkResult(Part, frozen=True, kw_only=True):
    """One benchmark with one set of parameters. ``reason`` says why it is not complete; ``warnings`` why to doubt it.

    Parameters of a collective: ``dtype``, ``reduce_op`` or None, ``root`` or None, ``in_place``.
    """

    name: str
    kind: str
    parameters: Mapping[str, Any]
    status: BenchmarkStatus
    points: tuple[Point, ...] = ()
    reason: str | None = None
    warnings: tuple[str, ...] = ()
    # instead of points, of benchmarks that measure no messages
    workload: tuple[MeasuredWorkload, ...] = field(default=(), name="+points")

    @classmethod
    def stored(cls, content: Json) -> Json:
        """Points of another kind than operations are marked with it."""
        points, kind = content.get("points"), content.get("kind")
        if kind in _OF_MESSAGES or not isinstance(points, list):
            return content
        mark = {"+kind": kind if kind in _OWN_POINTS else "figures"}
        marked = [one | mark if isinstance(one, dict) else one for one in points]
        return content | {"points": [], "+points": marked}

    @property
    def variation(self) -> str:
        """``float32 sum in place``: what tells a collective from others of its name."""
        options = self.parameters
        words = [options.get("dtype"), options.get("reduce_op"), "in place" if options.get("in_place") else None]
        return " ".join(str(word) for word in words if word)

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
        return self.with_unknown(
            {
                "name": self.name,
                "kind": self.kind,
                "status": self.status,
                "reason": self.reason,
                "parameters": dict(self.parameters),
                "warnings": list(self.warnings),
                "points": [point.to_json() for point in self.points] + [point.to_json() for point in self.workload],
            }
        )


class _Gpu(Struct):
    name: str | None = None


class _Counters(Struct):
    sent_bytes: Count | None = None


class _RankFacts(Struct):
    pid: str | int | None = None


class _NodeFacts(Struct):
    """What the package reads of a node's facts; there is more in them, for people."""

    gpus: tuple[_Gpu, ...] | None = None
    traffic: Mapping[str, _Counters] | None = None
    ranks: Mapping[Count, _RankFacts] | None = None


class NodeInfo(Part, frozen=True, kw_only=True):
    """One node of the run. ``facts`` are what it said of itself: versions, GPUs, niceness, threads, TCP settings."""

    name: str
    address: str
    ranks: tuple[Count, ...]
    gpu_count: Count
    facts: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def _known(self) -> _NodeFacts:
        return convert(dict(self.facts), _NodeFacts, strict=False)

    @property
    def gpu_names(self) -> tuple[str, ...]:
        """The model of each GPU, where the driver told it."""
        return tuple(str(gpu.name) for gpu in self._known.gpus or ())

    @property
    def sent_bytes(self) -> Mapping[str, int]:
        """What each of its network devices sent during the run; empty where nothing was counted."""
        counted = self._known.traffic or {}
        return {device: one.sent_bytes for device, one in counted.items() if one.sent_bytes is not None}

    @property
    def rank_pids(self) -> Mapping[int, str]:
        """The process id of each of its ranks."""
        return {rank: str(one.pid) for rank, one in (self._known.ranks or {}).items() if one.pid is not None}

    def contradiction(self) -> str | None:
        """Whether those of its facts that are read have their types."""
        try:
            convert(dict(self.facts), _NodeFacts, strict=False)
        except ValidationError as error:
            return str(placed(error, ".facts"))
        return None

    def to_json(self) -> Json:
        """The node as in the schema."""
        return self.with_unknown(
            {
                "name": self.name,
                "address": self.address,
                "ranks": list(self.ranks),
                "gpu_count": self.gpu_count,
                "facts": dict(self.facts),
            }
        )


class DroppedNode(Part, frozen=True, kw_only=True):
    """A node that was asked for, or was there, and took no part or was lost, and why."""

    node: str
    reason: str

    def to_json(self) -> Json:
        """The node as in the schema."""
        return self.with_unknown({"node": self.node, "reason": self.reason})


class ClusterInfo(Part, frozen=True, kw_only=True):
    """The machines and ranks of a run. ``emulated``: the nodes are processes on one machine."""

    nodes: tuple[NodeInfo, ...]
    world_size: Count
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
        return self.with_unknown(
            {
                "nodes": [node.to_json() for node in self.nodes],
                "world_size": self.world_size,
                "backend": self.backend,
                "emulated": self.emulated,
                "dropped": [dropped.to_json() for dropped in self.dropped],
            }
        )


class RunResult(Document, frozen=True, kw_only=True):
    """A whole run. ``findings`` have the shape of a diagnosis finding (rule, severity, summary, ranks, hosts, ...).

    ``checks``: what it was judged by beside its data. ``log_findings``: those of the diagnosis of its logs, which
    count for the verdict and are written in ``diagnosis.json``. ``problems``: files of it that could not be kept.
    ``recorded_verdict`` and its reason: those of a result that was read, which was judged by more than is in it.
    """

    run_id: str
    status: Status
    started_at: str
    finished_at: str
    cluster: ClusterInfo
    versions: Mapping[str, str] = field(name="+versions")
    variables: Mapping[str, str] = field(name="+variables")
    config: Mapping[str, Any]
    benchmarks: tuple[BenchmarkResult, ...]
    findings: tuple[Mapping[str, Any], ...] = ()
    timings: Mapping[str, float] = field(default_factory=dict, name="timings_seconds")  # of the run's own phases
    checks: tuple[Check, ...] = ()
    log_findings: tuple[Mapping[str, Any], ...] = field(default=(), name="+log_findings")
    problems: tuple[str, ...] = field(default=(), name="+problems")
    recorded_verdict: Verdict | None = field(default=None, name="verdict")
    recorded_reason: str = field(default="", name="verdict_reason")
    SCHEMA: ClassVar[str] = SCHEMA
    DERIVED: ClassVar[frozenset[str]] = frozenset({"schema", "environment"})

    @classmethod
    def stored(cls, content: Json) -> Json:
        """With the environment's two tables."""
        tables = {f"+{name}": take(content, "environment", name, of=dict[str, str]) for name in _ENVIRONMENT}
        return content | {key: table or {} for key, table in tables.items()}

    @cached_property
    def conclusion(self) -> Conclusion:
        """The verdict and its reason, from status, findings and verification, or as they were recorded."""
        if self.recorded_verdict is not None:
            return Conclusion(verdict=self.recorded_verdict, reason=self.recorded_reason)
        return conclude_run(self)

    @property
    def exit_code(self) -> int:
        """That of the verdict; 2 where all that was asked for was skipped: nothing of it can be measured there."""
        if self.benchmarks and all(benchmark.status == "skipped" for benchmark in self.benchmarks):
            return 2
        return self.conclusion.exit_code

    @property
    def all_checks(self) -> tuple[Check, ...]:
        """All that it was judged by, its data and what was skipped included."""
        return self.checks if self.recorded_verdict is not None else all_checks(self)

    @property
    def wrong(self) -> tuple[str, ...]:
        """What checks found to be wrong, over the whole run."""
        return tuple(f"{benchmark.name}: {text}" for benchmark in self.benchmarks for text in benchmark.wrong)

    @property
    def total_seconds(self) -> float | None:
        """How long the whole run took, its start and end included."""
        return self.timings.get("total")

    @property
    def wrong_elements(self) -> int:
        """Elements that differed from their expected value, over the whole run."""
        return sum(point.wrong_elements for benchmark in self.benchmarks for point in benchmark.points)

    def to_json(self) -> Json:
        """The run as in the schema."""
        return self.with_unknown(
            {
                "schema": SCHEMA,
                "run_id": self.run_id,
                "status": self.status,
                "verdict": self.conclusion.verdict,
                "verdict_reason": self.conclusion.reason,
                "checks": [check.to_json() for check in self.all_checks],
                "started_at": self.started_at,
                "finished_at": self.finished_at,
                "cluster": self.cluster.to_json(),
                "environment": {"versions": dict(self.versions), "variables": dict(self.variables)},
                "config": dict(self.config),
                "benchmarks": [benchmark.to_json() for benchmark in self.benchmarks],
                "findings": [dict(finding) for finding in self.findings],
                "timings_seconds": dict(self.timings),
            }
        )


def _bus_factor(content: Json) -> Json:
    if "bus_factor" in content:
        return {}
    bus, algorithm = (take(content, key, of=float) for key in ("busbw_gb_per_s", "algbw_gb_per_s"))
    return {"bus_factor": bus / algorithm} if bus and algorithm else {}


def _launches(content: Json) -> list[list[tuple[float, ...]]]:
    """Samples by launch and block. Raises DamageError where their number is not that of all blocks together."""
    samples = take(content, "samples_seconds", of=tuple[Seconds, ...]) or ()
    lengths = take(content, "block_iterations", of=_Lengths)
    if lengths is None:
        return [[samples]]
    if sum(map(sum, lengths)) != len(samples):
        raise DamageError(".samples_seconds", f"{len(samples)} samples in blocks of {sum(map(sum, lengths))}")
    left = iter(samples)
    return [[tuple(islice(left, length)) for length in launch] for launch in lengths]


def _summary_json(summary: Summary) -> Json:
    return {
        "median": summary.median,
        "mean": summary.mean,
        "min": summary.min,
        "max": summary.max,
        "p99": summary.p99,
        "stddev": summary.stddev,
    }


def result_file(path: Path) -> Path:
    """The file of a run that is named by its file, or by its folder."""
    return path / "result.json" if path.is_dir() else path
