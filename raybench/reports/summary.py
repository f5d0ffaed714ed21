"""A run's headline figures as one small JSON object: communication, training, memory, checkpoints. Pure.

``summary.json``, schema ``raybench.summary/1``: keys are added, never renamed or removed. Sizes in bytes, GB are 10^9
bytes. Everything in it follows from ``result.json``, which has the samples.
"""

from typing import Any

from raybench.documents.run.facts import TrainingSettings
from raybench.documents.run.result import RunResult
from raybench.reports.workloads.table import workload_summaries

SCHEMA = "raybench.summary/1"
Json = dict[str, Any]


def summary_of(result: RunResult) -> Json:
    """The object. Benchmarks that measured nothing are left out, and named under ``not_measured``."""
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
        "results": workload_summaries(result.benchmarks, cluster),
        "not_measured": {one.name: one.reason for one in result.benchmarks if not one.is_measured},
        **({} if result.continued is None else {"dropped_nodes": [one.node for one in result.continued.dropped]}),
    }


def _unit(result: RunResult) -> str:
    return "gpu" if any(node.gpu_count for node in result.cluster.nodes) else "rank"


def _config(result: RunResult) -> Json:
    settings = result.settings
    training = settings.training or TrainingSettings()
    names = {name for node in result.cluster.nodes for name in node.gpu_names}
    return {
        "backend": result.cluster.backend,
        "device": ", ".join(sorted(names)) or ("GPU" if _unit(result) == "gpu" else "CPU"),
        "warmup_iters": settings.warmup,
        "benchmark_iters": settings.iters,
        "blocks": settings.blocks,
        "repeats": settings.repeats,
        "warmup_steps": training.warmup_steps,
        "steps": training.steps,
    }
