"""Outcomes of trials as their files would give them."""

from collections.abc import Mapping, Sequence
from typing import Any

from raybench.studies.design import Study, Trial
from raybench.studies.outcome import Outcome, outcome_of


def training_point(seconds: float, *, batch: int = 8, ranks: int = 2, **changes: Any) -> dict[str, Any]:
    """A training point as ``result.json`` has it; ``changes`` replace keys."""
    rate = batch * ranks / seconds
    overhead = changes.get("overhead", 0.3)
    exposed = None if overhead is None else overhead * seconds
    point: dict[str, Any] = {
        "label": "ddp tiny",
        "seconds": {"mean": seconds, "median": seconds},
        "batch_size_per_rank": batch,
        "samples_per_s": rate,
        "tokens_per_s": rate * 64,
        "communication": {"exposed_seconds": {"differencing": exposed, "profiler": None}},
        "overhead": overhead,
        "data_share": 0.01,
        "loss": {"first": 5.0, "last": 4.5},
        "memory": {"kind": "rss", "peak_bytes": 2**30},
        "verified": True,
    }
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
        "nodes": [{"name": name, "facts": {"traffic": counters} if traffic else {}} for name in nodes],
        "world_size": ranks or len(nodes),
        "backend": "gloo",
        "emulated": False,
    }
    result: dict[str, Any] = {
        "schema": "raybench.result/1",
        "run_id": "20261121-180000-aaaa",
        "status": "complete",
        "started_at": "2026-11-21T18:00:00Z",
        "cluster": cluster | {key: changes.pop(key) for key in ("backend", "emulated") if key in changes},
        "environment": {"versions": {"torch": "2.13.0"}},
        "benchmarks": [{"name": "ddp", "kind": "training", "parameters": {}, "points": list(points)}],
        "findings": [],
        "timings_seconds": {"total": 3.0},
    }
    return result | changes


def outcomes_of(study: Study, make: Any) -> list[Outcome]:
    """An outcome a trial: ``make(trial)`` gives result.json, or (result.json, diagnosis.json), or None."""
    return [_outcome(trial, make(trial)) for trial in study.trials()]


def _outcome(trial: Trial, made: Any) -> Outcome:
    if made is None:
        return Outcome(trial=trial, status="missing")
    result, diagnosis = made if isinstance(made, tuple) else (made, None)
    return outcome_of(trial, result, diagnosis, "run")
