"""Ratios of variants with their confidence, from blocks in which each variant ran once. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from raybench.stats import deviation, student

DIFFERENT = 0.02  # by which two ratios of the same thing may differ before both are shown

Side = Literal["above", "below", "inconclusive"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """A ratio over blocks: the geometric mean of paired blocks, with a 95 % interval; both ends None with one block.

    ``of_rows``: the same ratio of the medians that the rows of the answer show. Where blocks differ by much the two
    differ, and whoever reads one beside the other has to be told.
    """

    value: float
    low: float | None
    high: float | None
    blocks: int
    of_rows: float | None = None

    def over(self, divisor: float) -> "Ratio":
        """The ratio and its interval divided by a positive number."""
        low, high, rows = (None if end is None else end / divisor for end in (self.low, self.high, self.of_rows))
        return Ratio(value=self.value / divisor, low=low, high=high, blocks=self.blocks, of_rows=rows)

    def side_of(self, bound: float) -> Side:
        """Whether the whole interval and the ratio of the rows lie above or below a bound: else it is open."""
        if self.low is None or self.high is None:
            return "inconclusive"
        rows = self.value if self.of_rows is None else self.of_rows
        return "above" if min(self.low, rows) > bound else "below" if max(self.high, rows) < bound else "inconclusive"

    @property
    def differs(self) -> bool:
        """Whether pairs and rows give ratios that a reader would not take for one."""
        return self.of_rows is not None and abs(math.log(self.of_rows / self.value)) > DIFFERENT

    @property
    def text(self) -> str:
        """``0.72``, with that of the rows where it is another: ``0.72 in pairs of repeats, 0.95 by the rows``."""
        rows = f" in pairs of repeats, {self.of_rows:.2f} by the rows" if self.differs else ""
        return f"{self.value:.2f}{rows}"


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
