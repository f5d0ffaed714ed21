"""What trainings of one's own say of another: they differ from what is told in the same way, the more alike they are.

Published step times are further from the fit from source to source than within one. So a run of one's own moves the
bounds of another training, and makes them narrower, by how alike the two are: as the errors of a Gaussian process,
whose covariance is fitted to the published trainings of each source (``python -m
tests.performance_model.step.own_runs``).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from raybench.performance_model.least_squares import solved

# Of the variance of errors, each in half the width of its bounds: what two trainings of a source share if nothing
# that is counted below tells them apart. The rest is noise of each.
SHARED = 0.93
# By how much each fact that tells two trainings apart makes them less alike: a factor of exp(-weight x how far).
WEIGHTS: Mapping[str, float] = MappingProxyType(
    {
        "ranks": 0.06,  # logarithm of the ratio, as of the next two
        "parameters": 0.18,
        "tokens": 0.07,  # of a micro-batch
        "launches": 0.01,  # their share of a micro-batch's time
        "communication": 2.4,  # its share of the slowest step
        "gpu": 0.36,  # 1 where they differ, as all that follow
        "strategy": 0.24,
        "adapters": 0.35,
        "kernels": 0.19,
        "dtype": 0.16,
        "cut": 0.18,  # of each of tensor, context and pipeline ranks
    }
)
# The errors of the process have longer tails than a normal distribution's: how many times as wide bounds are, and the
# least that any run leaves, as a logarithm and as a share of what there was without it, added as squares.
_LONGER_TAILS, _LEAST, _LEAST_SHARE = 1.1, 0.12, 0.5
_ODD = 2.0  # half widths


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """What makes trainings alike. ``launches``: their share of a micro-batch; ``communication``: of the slowest step.

    ``kernels``: which kernels, and whether compiled; ``adapters``: whether there are any, and over which base.
    """

    ranks: int
    parameters: int
    tokens: int
    launches: float
    communication: float
    gpu: str
    strategy: str
    adapters: tuple[bool, bool]
    kernels: tuple[str, bool | None]
    dtype: str
    cut: tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What a training is told to take, with all said in one way that may be open.

    ``half_width``: of the bounds, a logarithm.
    """

    said: tuple[object, ...]
    traits: Traits
    seconds: float
    half_width: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRun:
    """A training that was run: ``seconds`` a step. ``text``: as it is named to whoever gave it.

    ``told``: as it stands, and then in each way that its open options may be meant. What is open is open in the same
    way of what is asked: so each way of that is compared with the same way of the run.
    """

    text: str
    seconds: float
    told: tuple[Told, ...]

    @property
    def times(self) -> float:
        """How many times as long as told it took."""
        return self.seconds / self.told[0].seconds

    @property
    def is_odd(self) -> bool:
        """Whether it is further off than nearly all published trainings are, however its open options are meant."""
        return all(is_far(self.seconds, one.seconds, one.half_width) for one in self.told)

    def told_so(self, said: tuple[object, ...]) -> Told:
        """With the same said, else with most of it the same: what is open of the run is as it is asked."""
        return max(self.told, key=lambda one: sum(own == asked for own, asked in zip(one.said, said, strict=True)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """Of a training, by runs of one's own. ``shift``: of its error, in half widths; ``left``: deviation, of 1 without.

    Without runs: none.
    """

    shift: float = 0.0
    left: float | None = None

    def times(self, half_width: float) -> float:
        """How many times as long it most likely takes; ``half_width``: of its bounds, as a logarithm."""
        return math.exp(self.shift * half_width)

    def share(self, half_width: float) -> float:
        """Of its half width that is left."""
        if self.left is None or half_width == 0:
            return 1.0
        return min(1.0, max(_LONGER_TAILS * self.left, math.hypot(_LEAST / half_width, _LEAST_SHARE)))


NO_CORRECTION = Correction()


def correlation(one: Traits, other: Traits) -> float:
    """How much of their errors two trainings of one source share, from 0 to what is no noise."""
    return SHARED * math.exp(-sum(WEIGHTS[name] * far for name, far in distances(one, other).items()))


def distances(one: Traits, other: Traits) -> dict[str, float]:
    """How far apart two trainings are in each of ``WEIGHTS``."""
    return {
        **{
            name: abs(math.log(getattr(one, name) / getattr(other, name))) for name in ("ranks", "parameters", "tokens")
        },
        **{name: abs(getattr(one, name) - getattr(other, name)) for name in ("launches", "communication")},
        **{
            name: float(getattr(one, name) != getattr(other, name))
            for name in ("gpu", "strategy", "adapters", "kernels", "dtype")
        },
        "cut": float(sum(own != theirs for own, theirs in zip(one.cut, other.cut, strict=True))),
    }


def is_far(seconds: float, likely: float, half_width: float) -> bool:
    """Whether a step took longer or shorter than nearly all do whose bounds are so wide."""
    return abs(math.log(seconds / likely)) > _ODD * half_width


def by_others(runs: Sequence[OwnRun]) -> tuple[float | None, ...]:
    """Of each run the step that the others say it takes, seconds, where they contradict it; None where they do not.

    That is where it is as far off as a run alone has to be to be odd, in bounds as narrow as the others leave them: the
    furthest first, without which the rest is looked at again. Of two that contradict each other nobody knows which.
    """
    kept, contradicted = list(range(len(runs))), set[int]()
    while len(kept) > 1:
        times = {one: _times_too_far(runs[one], [runs[other] for other in kept if other != one]) for one in kept}
        furthest = max(kept, key=lambda one: times[one])
        if times[furthest] <= 1:
            break
        if len(kept) == 2:
            contradicted |= set(kept)
            break
        contradicted.add(furthest)
        kept.remove(furthest)
    return tuple(
        _by_others(run, [runs[other] for other in kept if other != one])[0] if one in contradicted else None
        for one, run in enumerate(runs)
    )


def _by_others(run: OwnRun, others: Sequence[OwnRun]) -> tuple[float, float]:
    """The step that they say it takes, and half the width of the bounds that they leave."""
    told = run.told[0]
    found = correction_of(told.traits, told.said, others)
    return told.seconds * found.times(told.half_width), found.share(told.half_width) * told.half_width


def _times_too_far(run: OwnRun, others: Sequence[OwnRun]) -> float:
    seconds, half_width = _by_others(run, others)
    return abs(math.log(run.seconds / seconds)) / (_ODD * half_width)


def correction_of(traits: Traits, said: tuple[object, ...], runs: Sequence[OwnRun]) -> Correction:
    """By all of the runs together: the mean and the deviation of the process where they are known.

    Rasmussen and Williams, Gaussian Processes for Machine Learning, 2.25 and 2.26.
    """
    if not runs:
        return NO_CORRECTION
    told = [run.told_so(said) for run in runs]
    errors = [math.log(run.seconds / one.seconds) / one.half_width for run, one in zip(runs, told, strict=True)]
    shared = [correlation(traits, one.traits) for one in told]
    between = [
        [1.0 if i == j else correlation(one.traits, other.traits) for j, other in enumerate(told)]
        for i, one in enumerate(told)
    ]
    weights = solved(between, shared) or [0.0] * len(runs)  # never singular: each run has noise of its own
    shift = sum(weight * error for weight, error in zip(weights, errors, strict=True))
    left = max(0.0, 1 - sum(weight * alike for weight, alike in zip(weights, shared, strict=True)))
    return Correction(shift=shift, left=math.sqrt(left))
