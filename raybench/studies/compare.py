"""Ratios of variants with their confidence, from blocks in which each variant ran once. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from raybench.stats import deviation

# Student's t, two-sided 95 %, by degrees of freedom (any table); beyond the last the value of the one before holds.
_STUDENT = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262, 10: 2.228,
            12: 2.179, 15: 2.131, 20: 2.086, 30: 2.042, 60: 2.000, 120: 1.980}  # fmt: skip

Side = Literal["above", "below", "inconclusive"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """A ratio over blocks: its geometric mean, and a 95 % interval; ``low`` and ``high`` None with one block."""

    value: float
    low: float | None
    high: float | None
    blocks: int

    def over(self, divisor: float) -> "Ratio":
        """The ratio and its interval divided by a positive number."""
        low, high = (None if end is None else end / divisor for end in (self.low, self.high))
        return Ratio(value=self.value / divisor, low=low, high=high, blocks=self.blocks)

    def side_of(self, bound: float) -> Side:
        """Whether the whole interval lies above or below a bound: anything else decides nothing."""
        if self.low is None or self.high is None:
            return "inconclusive"
        return "above" if self.low > bound else "below" if self.high < bound else "inconclusive"


def ratio_of(numerators: Sequence[float], denominators: Sequence[float]) -> Ratio:
    """The ratio of paired positive figures, one pair a block.

    Ratios are multiplicative, so their logarithms are averaged; the interval is Student's on those (few blocks make a
    bootstrap too narrow). Raises ValueError for unequal or no pairs.
    """
    if not numerators or len(numerators) != len(denominators):
        raise ValueError("a ratio needs one pair of figures a block, and at least one")
    logs = [math.log(above / below) for above, below in zip(numerators, denominators, strict=True)]
    mean = math.fsum(logs) / len(logs)
    if len(logs) == 1:
        return Ratio(value=math.exp(mean), low=None, high=None, blocks=1)
    half = student(len(logs) - 1) * deviation(logs, mean) / math.sqrt(len(logs))
    return Ratio(value=math.exp(mean), low=math.exp(mean - half), high=math.exp(mean + half), blocks=len(logs))


def self_ratio(figures: Sequence[float]) -> float:
    """How far one configuration differs from itself between blocks: the largest figure over the smallest, at least 1.

    An A/A control that costs nothing: no comparison of two configurations can be trusted closer than this.
    """
    return max(figures) / min(figures)


def student(degrees: int) -> float:
    """The 97.5 % quantile of Student's t, never too small: that of the next lower number of degrees in the table."""
    return _STUDENT[max(known for known in _STUDENT if known <= degrees)]
