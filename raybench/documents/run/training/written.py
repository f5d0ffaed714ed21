"""A training's point as its document has it: what was measured, and what follows from it."""

from typing import TYPE_CHECKING

from raybench.documents.plain import Json
from raybench.documents.run.workload import summary_json
from raybench.stats import deviation, summarize

if TYPE_CHECKING:
    from raybench.documents.run.training.point import TrainingPoint


def point_json(point: "TrainingPoint") -> Json:
    """The point as in the schema."""
    found: Json = {
        "label": point.label,
        "steps": len(point.samples_seconds),
        "steps_asked": point.steps_asked,
        "complete": point.complete,
        "failed": point.failed,
        "world_size": point.world_size,
        "launch_steps": [len(launch) for launch in point.launches],
        "seconds": summary_json(point.seconds),
        "ci95_seconds": list(point.interval_seconds) if point.interval_seconds else None,
        "samples_seconds": list(point.samples_seconds),
        "rank_seconds": list(point.rank_seconds),
        "rank_step_seconds": {
            "fastest": [fastest for fastest, _ in point.rank_step_seconds],
            "slowest": [slowest for _, slowest in point.rank_step_seconds],
        },
        "slowest_rank": point.slowest_rank,
        "batch_size_per_rank": point.batch_size,
        "global_batch_size": point.batch_size * point.world_size,
        "tokens_per_sample": point.tokens_per_sample,
        "samples_per_s": point.samples_per_s,
        "tokens_per_s": point.tokens_per_s,
        "flop_per_sample": point.flop_per_sample,
        "flop_per_step_per_rank": point.flop_per_sample * point.batch_size,
        "tflop_per_s_per_rank": point.tflop_per_s_per_rank,
        "mfu": point.mfu,
        "peak_tflops": point.peak_tflops,
        "peak_reason": point.peak_reason,
        "loss": {"first": point.losses[0], "last": point.losses[-1], "steps": list(point.losses)},
        **({"validation": [one.to_json() for one in point.validation]} if point.validation else {}),
        "memory": dict(point.memory),
        "utilization": dict(point.utilization),
        "data_share": point.data_share,
        "phases_seconds": dict(point.phases),
        "communication": point.communication.to_json(),
        "overhead": point.overhead,
        "overhead_band": point.overhead_band,
        "overhead_ci95": list(point.overhead_interval) if point.overhead_interval else None,
        "overhead_reason": point.overhead_reason,
        "verified": point.verified,
        "wrong_elements": 0,
        "reference": dict(point.check),
        "stragglers": [one.to_json() for one in point.stragglers],
        "straggler_reason": point.straggler_reason,
        **({"straggler_undecided": True} if point.straggler_undecided else {}),
        "facts": dict(point.facts),
        **({"memory_growth": [one.to_json() for one in point.memory_growth]} if point.memory_growth else {}),
        **({"profile": point.profile.to_json()} if point.profile else {}),
    }
    if len(point.launches) > 1:
        found["repeats"] = _repeats_json(point.launches)
    if point.cut_seconds:
        found["cut_launch"] = {"steps": len(point.cut_seconds), "samples_seconds": list(point.cut_seconds)}
    return found


def _repeats_json(launches: tuple[tuple[float, ...], ...]) -> Json:
    """Mean and spread of the launches' own means, seconds."""
    means = [summarize(launch).mean for launch in launches if launch]
    mean = sum(means) / len(means)
    return {
        "means_seconds": means,
        "mean": mean,
        "min": min(means),
        "max": max(means),
        "stddev": deviation(means, mean),
    }
