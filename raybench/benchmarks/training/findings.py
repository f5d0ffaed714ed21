"""What a training benchmark finds out about the cluster, in the shape of a diagnosis finding. Pure."""

from collections.abc import Callable, Iterator, Mapping
from math import isfinite
from typing import Any

from raybench.documents.benchmark import BenchmarkResult
from raybench.documents.training import TrainingPoint
from raybench.units import format_seconds

LARGE_EXCESS, LARGE_EMULATED_EXCESS = 0.25, 0.6  # of a rank at 0.8, and at about 0.6, of the others' speed
_NORMAL_95 = 1.96


def training_findings(
    benchmark: BenchmarkResult, node_of: Callable[[int], str | None], *, emulated: bool = False
) -> Iterator[Mapping[str, Any]]:
    """Ranks that hold up the others, communication that takes more of a step than it should, losses that are none.

    Where nodes are ``emulated`` their ranks share processors, and a rank has to be slower by more to be critical.
    """
    large = LARGE_EMULATED_EXCESS if emulated else LARGE_EXCESS
    for point in benchmark.workload:
        if isinstance(point, TrainingPoint):
            if not all(map(isfinite, point.losses)):
                yield _diverged(point)
            for straggler in point.stragglers:
                yield _straggler(point, straggler, node_of(int(straggler["rank"])), large)
            if point.overhead_band == "high":
                yield _overhead(point)


def _diverged(point: TrainingPoint) -> dict[str, Any]:
    first = next(step for step, loss in enumerate(point.losses) if not isfinite(loss))
    when = "from the first timed step on" if first == 0 else f"in timed step {first + 1} of {len(point.losses)}"
    return {
        "rule": "loss-not-finite",
        "severity": "critical",
        "confidence": "certain",
        "summary": f"{point.label}: the loss is no finite number {when}",
        "explanation": "The parameters are NaN or infinite by then: step times are of a training that learns nothing.",
        "ranks": [],
        "hosts": [],
        "evidence": [],
        "recommendations": [
            {
                "action": "lower-learning-rate",
                "text": "Lower --learning-rate; with float16 take bfloat16 where the GPU has it.",
                "commands": [],
                "link": None,
            }
        ],
    }


def _straggler(
    point: TrainingPoint, straggler: Mapping[str, Any], node: str | None, large_excess: float
) -> dict[str, Any]:
    """Critical where the whole interval of its excess is above what is large."""
    rank, excess = int(straggler["rank"]), float(straggler["excess"])
    least = excess * (1 - _NORMAL_95 / straggler["z"]) if straggler["z"] else 0.0
    return {
        "rule": "straggler",
        "severity": "critical" if least > large_excess else "warning",
        "confidence": "likely",
        "summary": f"rank {rank} holds up {point.label}: its own time is {straggler['excess']:.1%} above the others'",
        "explanation": (
            f"Its own work takes {format_seconds(straggler['own_seconds'])} a step and it waits "
            f"{format_seconds(straggler['wait_seconds'])} for the others, which wait "
            f"{format_seconds(straggler['others_wait_seconds'])} ({straggler['z']:.0f} standard errors)."
        ),
        "ranks": [rank],
        "hosts": [node] if node else [],
        "evidence": [],
        "recommendations": [
            {
                "action": "check-slow-gpu",
                "text": "Compare clocks, temperature, power limit and other processes of this node with another's.",
                "commands": ["nvidia-smi -q -d CLOCK,PERFORMANCE,TEMPERATURE,POWER"],
                "link": None,
            }
        ],
    }


def _overhead(point: TrainingPoint) -> dict[str, Any]:
    share = point.overhead or 0.0
    return {
        "rule": "sync-overhead",
        "severity": "warning",
        "confidence": "likely",
        "summary": f"{point.label}: {share:.0%} of a step waits for communication (high, above 40%)",
        "explanation": (
            f"Of {format_seconds(point.seconds.mean)} a step, "
            f"{format_seconds(max(point.communication.best_exposed or 0.0, 0.0))} are communication that no "
            "computation hides."
        ),
        "ranks": [],
        "hosts": [],
        "evidence": [],
        "recommendations": [
            {
                "action": "reduce-sync-overhead",
                "text": "Check that the network is the one that was paid for, then raise --batch-size or "
                "--gradient-accumulation-steps.",
                "commands": ["raybench run --suite all_reduce"],
                "link": None,
            }
        ],
    }
