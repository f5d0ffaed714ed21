"""How a step's time grows with the batch or with the model, as a line and as a power. Pure."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from raybench.performance_model.least_squares import nonnegative_fit


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearFit:
    """``t(b) = fixed + each b`` in seconds: what a step takes whatever its batch, and what a sample a rank adds."""

    fixed_seconds: float
    each_seconds: float
    worst_relative_error: float

    @property
    def half_batch(self) -> float | None:
        """The batch with half of the throughput that an endless one would have; None where a sample adds nothing."""
        return self.fixed_seconds / self.each_seconds if self.each_seconds > 0 else None

    def to_json(self) -> dict[str, Any]:
        """As in the study's result."""
        return {**asdict(self), "half_batch": self.half_batch}


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerFit:
    """``t(N) = scale N^exponent`` in seconds; an exponent of 1 is time in proportion to the parameters."""

    scale_seconds: float
    exponent: float
    worst_relative_error: float

    def to_json(self) -> dict[str, Any]:
        """As in the study's result."""
        return asdict(self)


def linear_fit(points: Sequence[tuple[float, float]]) -> LinearFit | None:
    """Least squares of the relative error, no coefficient below zero; None with fewer than two different sizes."""
    if len({size for size, _ in points}) < 2:
        return None
    fixed, each = nonnegative_fit([[1.0, size] for size, _ in points], [seconds for _, seconds in points])
    worst = max(abs((fixed + each * size) / seconds - 1) for size, seconds in points)
    return LinearFit(fixed_seconds=fixed, each_seconds=each, worst_relative_error=worst)


def power_fit(points: Sequence[tuple[float, float]]) -> PowerFit | None:
    """Least squares of logarithms; None with fewer than two different sizes."""
    if len({size for size, _ in points}) < 2:
        return None
    logs = [(math.log(size), math.log(seconds)) for size, seconds in points]
    mean_size, mean_time = (sum(column) / len(logs) for column in zip(*logs, strict=True))
    spread = sum((size - mean_size) ** 2 for size, _ in logs)
    exponent = sum((size - mean_size) * (time - mean_time) for size, time in logs) / spread
    scale = math.exp(mean_time - exponent * mean_size)
    worst = max(abs(scale * size**exponent / seconds - 1) for size, seconds in points)
    return PowerFit(scale_seconds=scale, exponent=exponent, worst_relative_error=worst)
