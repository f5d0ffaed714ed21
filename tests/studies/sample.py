"""Outcomes of trials as their files would give them."""

from collections.abc import Mapping, Sequence
from typing import Any

from raybench.documents.diagnosis import Diagnosis
from raybench.documents.part import document_as
from raybench.documents.run.result import RunResult
from raybench.documents.study.plan import Study, Trial
from raybench.documents.study.trial import TrialResult
from raybench.studies.trial import trial_result


def training_point(seconds: float, *, batch: int = 8, ranks: int = 2, **changes: Any) -> dict[str, Any]:
    """A training point as ``result.json`` stores it; ``changes`` replace keys. ``overhead`` is its exposed share."""
    overhead = changes.pop("overhead", 0.3)
    exposed = None if overhead is None else overhead * seconds
    point: dict[str, Any] = {
        "label": "ddp tiny",
        "samples_seconds": [seconds] * changes.pop("steps", 1),
        "rank_seconds": [seconds] * ranks,
        "batch_size_per_rank": batch,
        "global_batch_size": batch * ranks,
        "tokens_per_sample": 64,
        "flop_per_step_per_rank": changes.pop("tflop_per_s_per_rank", None) or 0.0,
        "phases_seconds": {"data": changes.pop("data_share", 0.01) * seconds},
        "utilization": {},
        "communication": {"exposed_seconds": {"profiler": exposed}},
        "facts": {},
        "loss": {"first": 5.0, "last": 4.5, "steps": [5.0, 4.5]},
        "memory": {"kind": "rss", "peak_bytes": 2**30},
        "verified": True,
        "reference": {},
    }
    point["flop_per_step_per_rank"] *= seconds * 1e12
    return point | changes


def run_result(
    points: Sequence[Mapping[str, Any]],
    *,
    nodes: Sequence[str] = ("node1", "node2"),
    traffic: Mapping[str, int] | None = None,
    ranks: int = 0,
    **changes: Any,
) -> dict[str, Any]:
    """A result.json of training points; ``traffic`` are bytes sent by device, on every node."""
    counters = {device: {"sent_bytes": sent, "received_bytes": sent} for device, sent in (traffic or {}).items()}
    cluster = {
        "nodes": [
            {
                "name": name,
                "address": "",
                "ranks": [],
                "gpu_count": 0,
                "facts": {"traffic": counters or None},
            }
            for name in nodes
        ],
        "world_size": ranks or len(nodes),
        "backend": "gloo",
        "emulated": False,
    }
    result: dict[str, Any] = {
        "schema": "raybench.result/1",
        "run_id": "20261121-180000-aaaa",
        "status": "complete",
        "started_at": "2026-11-21T18:00:00Z",
        "finished_at": "2026-11-21T18:00:03Z",
        "config": {},
        "cluster": cluster | {key: changes.pop(key) for key in ("backend", "emulated") if key in changes},
        "environment": {"versions": {"torch": "2.13.0"}},
        "benchmarks": [training_benchmark(points)],
        "findings": [],
        "timings_seconds": {"total": 3.0},
    }
    return result | changes


def training_benchmark(points: Sequence[Mapping[str, Any]], **changes: Any) -> dict[str, Any]:
    """A training as result.json stores it."""
    known = {"name": "ddp", "kind": "training", "parameters": {}, "status": "complete", "points": list(points)}
    return known | changes


def outcome_of(trial: Trial, result: Mapping[str, Any], diagnosis: Mapping[str, Any] | None, run: str) -> TrialResult:
    """The outcome of the files of a run."""
    found = {"schema": Diagnosis.SCHEMA, **(diagnosis or {})}
    read = RunResult.of_json(dict(result), "the result"), document_as(Diagnosis, found, "the diagnosis")
    return trial_result(trial, *read, run)


def outcomes_of(study: Study, make: Any) -> list[TrialResult]:
    """An outcome a trial: ``make(trial)`` gives result.json, or (result.json, diagnosis.json), or None."""
    return [_outcome(trial, make(trial)) for trial in study.trials()]


def _outcome(trial: Trial, made: Any) -> TrialResult:
    if made is None:
        return TrialResult(trial=trial, status="missing")
    result, diagnosis = made if isinstance(made, tuple) else (made, None)
    return outcome_of(trial, result, diagnosis, "run")
