"""Whether trainings of the same thing, by another strategy or on other ranks, reach the same loss. Pure.

The same seed and the same samples in each step give the same gradients but for the order of sums, so the losses of the
first steps agree within rounding; over many steps rounding grows. A training whose gradients are not averaged, or that
takes other samples, is off from its first steps on.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Annotated, Literal

from msgspec import Meta

from raybench.documents.part import FieldwisePart
from raybench.documents.run.benchmark import BenchmarkResult
from raybench.documents.run.training.point import TrainingPoint

LossVerdict = Literal["same", "different", "unknown"]
# Relative difference of losses at the end: ten times what float32 rounds in a few steps, and what 16 and 8 bits do.
BOUNDS = {"float32": 0.01, "bfloat16": 0.05, "float16": 0.02, "float8": 0.25}
OTHER_TRAININGS = ("lora", "qlora")  # of a part of the parameters
_LEAST_SHARE = 0.02  # of the first loss: below it a difference is taken relative to that, for losses near zero


class LossAgreement(FieldwisePart, frozen=True, kw_only=True):
    """Trainings that have to reach one loss, and whether they do.

    ``last_losses`` by name, and ``validation_losses`` of those that evaluated. ``first_apart`` and ``last_apart``: the
    largest relative difference of the losses in the first and in the last timed step, evaluations included.
    """

    last_losses: dict[str, float]
    validation_losses: dict[str, float]
    first_apart: Annotated[float, Meta(ge=0)]
    last_apart: Annotated[float, Meta(ge=0)]
    bound: Annotated[float, Meta(gt=0)]
    verdict: LossVerdict

    @property
    def text(self) -> str:
        """``ddp, fsdp reach the same loss: apart by at most 0.02% after the last step (bound 1%)``."""
        names = ", ".join(self.last_losses)
        if self.verdict == "same":
            return f"{names} reach the same loss: apart by at most {self.last_apart:.2%} (bound {self.bound:.0%})"
        if self.verdict == "different":
            return (
                f"{names} should have the same losses, and are apart by {self.first_apart:.1%} from the first timed "
                f"step on (bound {self.bound:.0%}): one of them averages other gradients, or takes other samples"
            )
        return (
            f"{names} begin with the same loss and end {self.last_apart:.1%} apart (bound {self.bound:.0%}): rounding "
            "that grew, or a difference that shows late; fewer --steps or a lower --learning-rate tell"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """The ends of a training's losses. Those with the same ``key`` have to reach the same.

    ``validation``: the least of its validation losses; ``has_lost_validation``: one of them is no number.
    """

    name: str
    key: Hashable
    dtype: str
    first: float
    last: float
    validation: float | None
    has_lost_validation: bool = False

    @property
    def is_evaluated(self) -> bool:
        """Whether all of its validation losses are known, and it has one."""
        return self.validation is not None and not self.has_lost_validation


def agreements(curves: Sequence[Curve]) -> Iterator[LossAgreement]:
    """One of each key that trainings of two names or more have."""
    for key in dict.fromkeys(curve.key for curve in curves):
        alike = [curve for curve in curves if curve.key == key]
        if len({curve.name for curve in alike}) > 1:
            yield _agreement(alike)


def _agreement(curves: Sequence[Curve]) -> LossAgreement:
    least = _LEAST_SHARE * max(abs(curve.first) for curve in curves)
    evaluated = [curve.validation for curve in curves if curve.validation is not None]
    first = _apart([curve.first for curve in curves], least)
    last = _apart([curve.last for curve in curves], least)
    if len(evaluated) == len(curves):
        last = max(last, _apart(evaluated, least))
    bound = BOUNDS[curves[0].dtype]
    return LossAgreement(
        last_losses={curve.name: curve.last for curve in curves},
        validation_losses={curve.name: curve.validation for curve in curves if curve.validation is not None},
        first_apart=first,
        last_apart=last,
        bound=bound,
        verdict="different" if first > bound else "same" if last <= bound else "unknown",
    )


def _apart(losses: Sequence[float], least: float) -> float:
    middle = max(abs(sum(losses)) / len(losses), least)
    return (max(losses) - min(losses)) / middle if middle else 0.0


def is_judged(losses: Sequence[float], dtype: str | None) -> bool:
    """Whether a training's losses can be held against another's: all are numbers, of a type that rounds as known."""
    return bool(losses) and all(map(isfinite, losses)) and dtype in BOUNDS


def run_agreements(benchmarks: Sequence[BenchmarkResult]) -> tuple[LossAgreement, ...]:
    """What is to be said of the losses of a run's trainings; nothing where they are of different things."""
    return tuple(agreements([curve for one in benchmarks for curve in _curves(one)]))


def _curves(benchmark: BenchmarkResult) -> Iterator[Curve]:
    hook = benchmark.parameters.get("comm_hook")
    if benchmark.name in OTHER_TRAININGS or hook not in (None, "none"):
        return
    for point in benchmark.workload:
        if isinstance(point, TrainingPoint) and point.complete and is_judged(point.losses, point.known_facts.dtype):
            yield curve_of(point)


def curve_of(point: TrainingPoint) -> Curve:
    """The ends of a training's losses, keyed by what decides them."""
    facts, best = point.known_facts, point.best_validation
    ranks = None if facts.data else point.world_size  # random samples are drawn by rank
    decides = {
        "parameters": facts.parameters,
        "dtype": facts.dtype,
        "data": facts.data,
        "global batch size": point.batch_size * point.world_size,
        "ranks": ranks,
        "steps": len(point.losses),
    }
    return Curve(
        name=point.label,
        key=tuple(sorted(decides.items())),
        dtype=facts.dtype or "",
        first=point.losses[0],
        last=point.losses[-1],
        validation=best.loss if best else None,
        has_lost_validation=any(one.loss is None or not isfinite(one.loss) for one in point.validation),
    )
