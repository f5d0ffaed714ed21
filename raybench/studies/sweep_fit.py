"""How a step's time grows with the batch or with the model, as a line and as a power. Pure."""

import math
from collections.abc import Sequence

from raybench.documents.study.sweep import LinearFit, PowerFit
from raybench.performance_model.least_squares import nonnegative_fit


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
