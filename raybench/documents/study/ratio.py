"""A ratio of two variants with its confidence interval."""

import math
from typing import Annotated, Literal

from msgspec import Meta

from raybench.documents.part import FieldwisePart

DIFFERENT = 0.02  # by which two ratios of the same thing may differ before both are shown

Side = Literal["above", "below", "inconclusive"]
Positive = Annotated[float, Meta(gt=0, lt=1e100)]
Bound = Annotated[float, Meta(ge=0, lt=1e300)]


class Ratio(FieldwisePart, frozen=True, kw_only=True):
    """A ratio over blocks: the geometric mean of paired blocks, with a 95 % interval; both ends None with one block.

    ``of_rows``: the same ratio of the medians that the rows of the answer show. Where blocks differ by much the two
    differ, and whoever reads one beside the other has to be told.
    """

    value: Positive
    low: Bound | None
    high: Bound | None
    blocks: int
    of_rows: Positive | None = None

    def contradiction(self) -> str | None:
        """Whether its interval has both ends, and holds it."""
        if self.low is None or self.high is None:
            return None if self.low is self.high else "an interval with one end"
        return None if self.low <= self.value <= self.high else "a ratio that its interval does not hold"

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
