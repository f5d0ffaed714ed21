"""The slope of a series with an interval that a few outliers do not move."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from diagnostics.agent.window import Point
from diagnostics.limits import NORMAL_95

_MAX_POINTS = 40  # all pairs are compared: 780


class SlopeInterval(NamedTuple):
    """Growth per second: the median of the slopes of all pairs, and its 95 % interval."""

    low: float
    middle: float
    high: float


def slope_interval(points: Sequence[Point]) -> SlopeInterval:
    """Theil-Sen slope with Sen's interval, from two points on; of many, forty evenly spread ones are compared.

    The interval leaves out C = 1.96 * sqrt(n (n-1) (2n+5) / 18) of the sorted slopes, half on each side (Sen 1968).
    """
    step = max(1, math.ceil(len(points) / _MAX_POINTS))
    chosen = points[::step]
    slopes = sorted(
        (after.value - before.value) / (after.seconds - before.seconds)
        for number, before in enumerate(chosen)
        for after in chosen[number + 1 :]
        if after.seconds > before.seconds
    )
    count = len(chosen)
    omitted = NORMAL_95 * math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    low = max(int((len(slopes) - omitted) / 2), 0)
    return SlopeInterval(slopes[low], slopes[len(slopes) // 2], slopes[len(slopes) - 1 - low])
