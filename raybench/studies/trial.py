"""What a trial found out, read from the files of its run: times, throughput, memory, and the network it really used."""

import math
import re
from collections.abc import Iterator, Sequence

from raybench.documents.diagnosis import Diagnosis
from raybench.documents.run.benchmark import BenchmarkResult
from raybench.documents.run.cluster import NodeInfo
from raybench.documents.run.communication import UNKNOWN
from raybench.documents.run.facts import TrainingFacts, typed
from raybench.documents.run.point import Point
from raybench.documents.run.result import RunResult
from raybench.documents.run.training.point import TrainingPoint
from raybench.documents.run.workload import WorkloadPoint
from raybench.documents.study.plan import Trial
from raybench.documents.study.trial import LogFacts, Measured, TrialResult
from raybench.units import format_bytes

_OUT_OF_MEMORY = re.compile(r"\bout of memory\b|OutOfMemoryError", re.IGNORECASE)


def trial_result(trial: Trial, result: RunResult, diagnosis: Diagnosis, run: str) -> TrialResult:
    """What a trial found out, from what its run measured and the diagnosis of its logs."""
    cluster = result.cluster
    measured = tuple(one for benchmark in result.benchmarks for one in _figures(benchmark))
    return TrialResult(
        trial=trial,
        status="failed" if result.status == "complete" and not measured else result.status,
        measured=measured,
        world_size=cluster.world_size,
        nodes=tuple(node.name for node in cluster.nodes),
        emulated=cluster.emulated,
        backend=cluster.backend,
        network=diagnosis.network,
        gdr=diagnosis.gdr,
        log=_log_facts(cluster.nodes, diagnosis),
        sent_bytes={node.name: node.sent_bytes for node in cluster.nodes if node.sent_bytes},
        versions=result.versions,
        started_at=result.started_at,
        seconds=result.total_seconds,
        wrong=any(point.verified is False for point in _points(result)),
        reason=None if result.status == "complete" and measured else _reasons(result)[0] + _cut(result),
        verdict=result.recorded_verdict,
        verdict_reason=result.recorded_reason or None,
        findings=tuple(one.without_lines() for one in (*result.findings, *diagnosis.findings)),
        does_not_fit=not measured and any(_OUT_OF_MEMORY.search(reason) for reason in _reasons(result)),
        run=run,
    )


def _log_facts(nodes: Sequence[NodeInfo], diagnosis: Diagnosis) -> LogFacts:
    """Whose logs were read. Processes of the run are told by their ids, which NCCL writes into every line."""
    rows = {row.rank: row for row in diagnosis.ranks}
    pids = {rank: pid for node in nodes for rank, pid in node.rank_pids.items()}
    compared = [str(rows[rank].pid) == pid for rank, pid in pids.items() if rank in rows and rows[rank].pid]
    return LogFacts(
        networks={str(rank): row.network for rank, row in rows.items()},
        unseen_nodes=tuple(node.name for node in nodes if not set(node.ranks) & rows.keys()),
        strange=bool(compared) and not any(compared),
        gdr_share=diagnosis.gdr_channel_share,
        providers=diagnosis.ofi_providers,
    )


def _points(result: RunResult) -> Iterator[Point | WorkloadPoint]:
    for benchmark in result.benchmarks:
        yield from benchmark.points
        yield from benchmark.workload


def _reasons(result: RunResult) -> list[str]:
    """What went wrong: the verdict of an incomplete run says it best, then a finding, a benchmark, a point."""
    told = [result.recorded_reason] if result.recorded_verdict == "incomplete" else []
    told += [one.summary for one in sorted(result.findings, key=lambda finding: finding.severity != "critical")]
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
    exposed, mean = point.communication.best_exposed, point.seconds.mean
    first, loss, facts = point.losses[0], point.losses[-1], typed(TrainingFacts, point.facts)
    best = point.best_validation
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
        first_loss=first if math.isfinite(first) else None,
        validation_loss=best.loss if best else None,
        validation_accuracy=best.accuracy if best else None,
        data=facts.data,
        dtype=facts.dtype,
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
    return Measured(
        label=f"{benchmark.name} {benchmark.variation} {format_bytes(point.message_bytes)}",
        seconds=point.seconds.median,
        busbw_gb_per_s=point.busbw_gb_per_s,
        verified=point.verified,
    )
