"""A run's headline figures as one small JSON object: communication, training, memory, checkpoints. Pure.

``summary.json``, schema ``raybench.summary/1``: keys are added, never renamed or removed. Sizes in bytes, GB are 10^9
bytes. Everything in it follows from ``result.json``, which has the samples.
"""

from collections.abc import Mapping
from typing import Any

from raybench.documents.benchmark import BenchmarkResult
from raybench.documents.checkpoint import CheckpointPoint
from raybench.documents.cluster import ClusterInfo
from raybench.documents.figures import FiguresPoint
from raybench.documents.memory import MemoryPoint, Use
from raybench.documents.point import Point
from raybench.documents.result import RunResult
from raybench.documents.training import TrainingPoint
from raybench.reports.figures_point import figures_summary
from raybench.reports.listed_pairs import listed_pairs
from raybench.reports.rows import is_measured

SCHEMA = "raybench.summary/1"
Json = dict[str, Any]
MOST_PAIRS = 1000  # of one matrix; of more the slowest, and the number of the others
_MEMORY_IS = {"cuda": "memory of the device", "rss": "resident memory of the rank's process (RSS), no device's"}


def summary_of(result: RunResult) -> Json:
    """The object. Benchmarks that measured nothing are left out, and named under ``not_measured``."""
    parts: dict[str, Json] = {"communication": {}, "training": {}, "memory": {}, "checkpoint": {}}
    for benchmark in result.benchmarks:
        if benchmark.points:
            parts["communication"].setdefault(
                _title(benchmark, parts["communication"]), _communication(benchmark, result.cluster)
            )
        for point in benchmark.workload:
            if isinstance(point, TrainingPoint):
                parts["training"][point.label] = _training(point)
            elif isinstance(point, MemoryPoint):
                parts["memory"][point.label] = _memory(point)
            elif isinstance(point, CheckpointPoint):
                parts["checkpoint"][point.label] = _checkpoint(point)
            elif isinstance(point, FiguresPoint):
                parts.setdefault(benchmark.kind, {})[point.label] = figures_summary(point)
    cluster = result.cluster
    return {
        "schema": SCHEMA,
        "name": f"{result.run_id}_{cluster.world_size}{_unit(result)}",
        "run_id": result.run_id,
        "status": result.status,
        "verdict": result.conclusion.verdict,
        "verdict_reason": result.conclusion.reason,
        "world_size": cluster.world_size,
        "nodes": len(cluster.nodes),
        "emulated": cluster.emulated,
        "timestamp": result.started_at,
        "config": _config(result),
        "results": {name: part for name, part in parts.items() if part},
        "not_measured": {one.name: one.reason for one in result.benchmarks if not one.is_measured},
    }


def _unit(result: RunResult) -> str:
    return "gpu" if any(node.gpu_count for node in result.cluster.nodes) else "rank"


def _config(result: RunResult) -> Json:
    config: Mapping[str, Any] = result.config
    training = config.get("training") or {}
    names = {str(gpu.get("name")) for node in result.cluster.nodes for gpu in node.facts.get("gpus") or ()}
    return {
        "backend": result.cluster.backend,
        "device": ", ".join(sorted(names)) or ("GPU" if _unit(result) == "gpu" else "CPU"),
        "warmup_iters": config.get("warmup"),
        "benchmark_iters": config.get("iters"),
        "blocks": config.get("blocks"),
        "repeats": config.get("repeats"),
        "warmup_steps": training.get("warmup_steps"),
        "steps": training.get("steps"),
    }


def _title(benchmark: BenchmarkResult, taken: Mapping[str, Any]) -> str:
    """The operation's name; with its type and place where the same operation was measured more than once."""
    if benchmark.name not in taken:
        return benchmark.name
    parameters = benchmark.parameters
    place = "in place" if parameters.get("in_place") else "out of place"
    words = (benchmark.name, parameters.get("dtype"), parameters.get("reduce_op"), place)
    return " ".join(str(word) for word in words if word)


def _communication(benchmark: BenchmarkResult, cluster: ClusterInfo) -> Json:
    listed = listed_pairs(benchmark, cluster, MOST_PAIRS)
    best = max(filter(is_measured, benchmark.points), key=lambda point: point.busbw_gb_per_s, default=None)
    part: Json = {
        "dtype": benchmark.parameters.get("dtype"),
        "in_place": benchmark.parameters.get("in_place"),
        "peak_busbw_gb_per_s": best.busbw_gb_per_s if best else None,
        "peak_at_bytes": best.message_bytes if best else None,
        "sizes": [_size(point) for point in listed.points],
    }
    return part | ({"left_out": listed.left_out, "left_out_remark": listed.remark} if listed.remark else {})


def _size(point: Point) -> Json:
    row = {
        "message_bytes": point.message_bytes,
        "time_ms": point.seconds.median * 1e3,
        "algbw_gb_per_s": point.algbw_gb_per_s,
        "busbw_gb_per_s": point.busbw_gb_per_s,
        "expected_ratio": point.expected_ratio,
        "verified": point.verified,
    }
    if point.source_rank is not None:
        row |= {"source_rank": point.source_rank, "destination_rank": point.destination_rank}
    return row


def _training(point: TrainingPoint) -> Json:
    return {
        "steps": len(point.samples_seconds),
        "steps_asked": point.steps_asked,
        "complete": point.complete,
        "step_time_ms": point.seconds.mean * 1e3,
        "min_step_time_ms": point.seconds.min * 1e3,
        "max_step_time_ms": point.seconds.max * 1e3,
        "samples_per_s": point.samples_per_s,
        "tokens_per_s": point.tokens_per_s,
        "tflop_per_s_per_rank": point.tflop_per_s_per_rank,
        "mfu": point.mfu,
        "overhead": point.overhead,
        "overhead_band": point.overhead_band,
        "memory": dict(point.memory) | {"is": _MEMORY_IS.get(str(point.memory.get("kind")), "unknown")},
        "first_loss": point.losses[0],
        "final_loss": point.losses[-1],
        "verified": point.verified,
    }


def _memory(point: MemoryPoint) -> Json:
    return {
        "largest_batch": point.largest_batch,
        "complete": point.complete,
        "limit_bytes": point.limit_bytes,
        "emulated": point.emulated,
        "batch_sizes": {str(use.batch_size): _use(use) for use in point.uses},
    }


def _use(use: Use) -> Json:
    return {
        "fits": use.fits,
        "parameters_bytes": use.parameters,
        "gradients_bytes": use.gradients,
        "optimizer_state_bytes": use.optimizer_state,
        "activations_bytes": use.activations,
        "peak_bytes": use.peak,
    }


def _checkpoint(point: CheckpointPoint) -> Json:
    return {
        "failed": point.failed,
        "complete": point.complete,
        "save_gb_per_s": point.save_gb_per_s,
        "load_gb_per_s": point.load_gb_per_s,
        "tensor_bytes": point.tensor_bytes,
        "stored_bytes": point.stored_bytes,
        "verified": point.verified,
    }
