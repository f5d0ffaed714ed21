"""Ratios of variants with their confidence, from blocks in which each variant ran once. Pure."""

import math
from collections.abc import Sequence

from raybench.documents.study.ratio import Ratio
from raybench.stats import deviation, student


def ratio_of(numerators: Sequence[float], denominators: Sequence[float], of_rows: float | None = None) -> Ratio:
    """The ratio of paired positive figures, one pair a block; ``of_rows`` is that of the rows shown beside it.

    Ratios are multiplicative, so their logarithms are averaged; the interval is Student's on those (few blocks make a
    bootstrap too narrow). Raises ValueError for unequal or no pairs.
    """
    if not numerators or len(numerators) != len(denominators):
        raise ValueError("a ratio needs one pair of figures a block, and at least one")
    logs = [math.log(above / below) for above, below in zip(numerators, denominators, strict=True)]
    mean = math.fsum(logs) / len(logs)
    if len(logs) == 1:
        return Ratio(value=math.exp(mean), low=None, high=None, blocks=1, of_rows=of_rows)
    half = student(len(logs) - 1) * deviation(logs, mean) / math.sqrt(len(logs))
    low, high = math.exp(mean - half), math.exp(mean + half)
    return Ratio(value=math.exp(mean), low=low, high=high, blocks=len(logs), of_rows=of_rows)


def self_ratio(figures: Sequence[float]) -> float:
    """How far one configuration differs from itself between blocks: the largest figure over the smallest, at least 1.

    An A/A control that costs nothing: no comparison of two configurations can be trusted closer than this.
    """
    return max(figures) / min(figures)
