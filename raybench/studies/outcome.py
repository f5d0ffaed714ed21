"""What a trial found out, read from the files of its run: times, throughput, memory, and the network it really used."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from raybench.documents.result import BenchmarkResult, NodeInfo, Point, RunResult
from raybench.documents.training import UNKNOWN, TrainingPoint
from raybench.documents.workload import WorkloadPoint
from raybench.studies.design import Trial
from raybench.units import format_bytes

_OUT_OF_MEMORY = re.compile(r"\bout of memory\b|OutOfMemoryError", re.IGNORECASE)
TrialStatus = Literal["complete", "partial", "failed", "missing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One figure of a run: ``all_reduce float32 sum 16 MiB``, ``ddp tiny``.

    ``seconds``: of one operation (the median) or one training step (the mean, so that samples/s follows from it).
    ``exposed_seconds``: communication that the step waits for, and ``overhead`` its share of the step;
    ``hidden_seconds``: that beside which it computes. What the run has no figure of is None.
    """

    label: str
    seconds: float
    samples_per_s: float | None = None
    tokens_per_s: float | None = None
    busbw_gb_per_s: float | None = None
    exposed_seconds: float | None = None
    hidden_seconds: float | None = None
    overhead: float | None = None
    data_share: float | None = None
    memory_bytes: int | None = None
    loss: float | None = None
    batch_size_per_rank: int | None = None
    verified: bool | None = None
    steps: int | None = None
    parameters: int | None = None
    tflop_per_s_per_rank: float | None = None
    mfu: float | None = None
    memory_limit_bytes: int | None = None
    memory_kind: str | None = None  # cuda: the device's; rss: that of the rank's process


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFacts:
    """What a run's NCCL logs cover, and what they say beside the name of the network.

    ``networks`` by rank as its log names it, None where it does not. ``unseen_nodes`` have no rank in any log;
    ``strange``: not one process in the logs is one of the run's. ``gdr_share``: of channels over the network.
    """

    networks: Mapping[str, str | None] = field(default_factory=dict)
    unseen_nodes: tuple[str, ...] = ()
    strange: bool = False
    gdr_share: float | None = None
    providers: tuple[str, ...] = ()  # of libfabric


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One trial's run. ``network`` and ``gdr`` are what its NCCL logs prove; ``sent_bytes`` by node and device.

    ``reason`` says why it is not complete, or has nothing to show. ``run`` is its folder below the trial's.
    """

    trial: Trial
    status: TrialStatus
    measured: tuple[Measured, ...] = ()
    world_size: int = 0
    nodes: tuple[str, ...] = ()
    emulated: bool = False
    backend: str = "unknown"
    network: str = "unknown"
    gdr: bool | None = None
    log: LogFacts = field(default_factory=LogFacts)
    sent_bytes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    started_at: str | None = None
    seconds: float | None = None  # of the whole run, its start and end included
    wrong: bool = False
    reason: str | None = None
    does_not_fit: bool = False
    run: str | None = None
    verdict: str | None = None  # of the run, with its reason; None of a run that has none
    verdict_reason: str | None = None
    findings: tuple[Mapping[str, str], ...] = ()  # rule, severity, summary: those of the run, then those of its logs

    @property
    def answered(self) -> bool:
        """Whether doing the trial again can add nothing: it is complete, or its model does not fit into memory."""
        return self.status == "complete" or self.does_not_fit

    @property
    def node_count(self) -> int:
        """Nodes that the ranks were on."""
        return len(self.nodes)

    def figure(self, label: str) -> Measured | None:
        """The figure of that label."""
        return next((one for one in self.measured if one.label == label), None)

    def to_json(self) -> dict[str, Any]:
        """The outcome as the study's result holds it, the trial's own keys beside the others."""
        content = asdict(self)
        trial = content.pop("trial")
        return {**trial, "folder": self.trial.folder, **content}


def outcome_of(trial: Trial, result: RunResult, diagnosis: Mapping[str, Any] | None, run: str) -> Outcome:
    """The outcome of a run from what it measured and the content of its ``diagnosis.json``."""
    cluster = result.cluster
    found = diagnosis or {}
    measured = tuple(one for benchmark in result.benchmarks for one in _figures(benchmark))
    return Outcome(
        trial=trial,
        status="failed" if result.status == "complete" and not measured else result.status,
        measured=measured,
        world_size=cluster.world_size,
        nodes=tuple(node.name for node in cluster.nodes),
        emulated=cluster.emulated,
        backend=cluster.backend,
        network=found.get("network", "unknown"),
        gdr=found.get("gdr"),
        log=_log_facts(cluster.nodes, found),
        sent_bytes={node.name: node.sent_bytes for node in cluster.nodes if node.sent_bytes},
        versions=result.versions,
        started_at=result.started_at,
        seconds=result.timings.get("total"),
        wrong=any(point.verified is False for point in _points(result)),
        reason=None if result.status == "complete" and measured else _reasons(result)[0] + _cut(result),
        verdict=result.recorded_verdict,
        verdict_reason=result.recorded_reason or None,
        findings=tuple(_brief(one) for one in (*result.findings, *found.get("findings", ()))),
        does_not_fit=not measured and any(_OUT_OF_MEMORY.search(reason) for reason in _reasons(result)),
        run=run,
    )


def _brief(finding: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(finding.get(name) or "") for name in ("rule", "severity", "summary")}


def _log_facts(nodes: Sequence[NodeInfo], diagnosis: Mapping[str, Any]) -> LogFacts:
    """Whose logs were read. Processes of the run are told by their ids, which NCCL writes into every line."""
    rows = {row["rank"]: row for row in diagnosis.get("ranks") or ()}
    pids = {rank: pid for node in nodes for rank, pid in node.rank_pids.items()}
    compared = [str(rows[rank]["pid"]) == pid for rank, pid in pids.items() if rows.get(rank, {}).get("pid")]
    counters = diagnosis.get("counters") or {}
    return LogFacts(
        networks={str(rank): row.get("network") for rank, row in rows.items()},
        unseen_nodes=tuple(node.name for node in nodes if not set(node.ranks) & rows.keys()),
        strange=bool(compared) and not any(compared),
        gdr_share=counters.get("gdr_channel_share"),
        providers=tuple(counters.get("ofi_providers") or ()),
    )


def _points(result: RunResult) -> Iterator[Point | WorkloadPoint]:
    for benchmark in result.benchmarks:
        yield from benchmark.points
        yield from benchmark.workload


def _reasons(result: RunResult) -> list[str]:
    """What went wrong: the verdict of an incomplete run says it best, then a finding, a benchmark, a point."""
    findings = sorted(result.findings, key=lambda finding: finding.get("severity") != "critical")
    told = [result.recorded_reason] if result.recorded_verdict == "incomplete" else []
    told += [str(finding.get("summary") or "") for finding in findings]
    told += [benchmark.reason or "" for benchmark in result.benchmarks]
    told += [point.failed or "" for benchmark in result.benchmarks for point in benchmark.workload]
    return [text for text in told if text] or ["it measured nothing"]


def _cut(result: RunResult) -> str:
    """What the run did of trainings that it ended within."""
    points = [point for point in _points(result) if isinstance(point, TrainingPoint) and not _is_whole(point)]
    cut = [f"{len(one.samples_seconds)} timed steps of {one.label}" for one in points]
    return f" ({', '.join(cut)} are in no comparison)" if cut else ""


def _figures(benchmark: BenchmarkResult) -> list[Measured]:
    trained = [point for point in benchmark.workload if isinstance(point, TrainingPoint)]
    figures = [_training_figure(point) for point in trained if _is_whole(point)]
    return figures + [_operation_figure(benchmark, point) for point in benchmark.points if point.source_rank is None]


def _is_whole(point: TrainingPoint) -> bool:
    """A training that was cut has steps, but not those, nor as many, as what it would be compared with."""
    return not point.failed and point.complete


def _training_figure(point: TrainingPoint) -> Measured:
    exposed, mean, loss = point.communication.best_exposed, point.seconds.mean, point.losses[-1]
    return Measured(
        label=point.label,
        seconds=mean,
        samples_per_s=point.samples_per_s,
        tokens_per_s=point.tokens_per_s,
        exposed_seconds=None if exposed is None else min(max(0.0, exposed), mean),  # a step waits no longer
        hidden_seconds=point.communication.overlap,
        overhead=None if point.overhead_band == UNKNOWN else point.overhead,
        data_share=point.data_share,
        memory_bytes=point.peak_memory_bytes,
        loss=loss if math.isfinite(loss) else None,
        batch_size_per_rank=point.batch_size,
        verified=point.verified,
        steps=len(point.samples_seconds),
        parameters=point.parameter_count,
        tflop_per_s_per_rank=point.tflop_per_s_per_rank or None,
        mfu=point.mfu,
        memory_limit_bytes=point.memory_limit_bytes,
        memory_kind=point.memory_kind,
    )


def _operation_figure(benchmark: BenchmarkResult, point: Point) -> Measured:
    parameters = benchmark.parameters
    detail = [parameters.get("dtype"), parameters.get("reduce_op"), "in place" if parameters.get("in_place") else None]
    words = " ".join(str(part) for part in detail if part)
    return Measured(
        label=f"{benchmark.name} {words} {format_bytes(point.message_bytes)}",
        seconds=point.seconds.median,
        busbw_gb_per_s=point.busbw_gb_per_s,
        verified=point.verified,
    )
