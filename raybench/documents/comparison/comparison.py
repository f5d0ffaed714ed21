"""Results beside each other (``raybench compare --json``): what differs, then each figure with its ratio.

Schema ``raybench.comparison/1``: keys are added, never renamed or removed. The first side is the reference.
"""

from typing import ClassVar, Literal

from raybench.documents.part import FieldwiseDocument, FieldwisePart
from raybench.documents.run.same_loss import LossAgreement
from raybench.verdicts import Conclusion, Verdict

# Of a figure: by its whole interval. ``no difference``: it lies within LEAST_TOLD of 1; ``cannot tell``: it holds 1 and
# more than that. ``not compared``: it is on one side only, or ``reason`` says why.
Difference = Literal["no difference", "cannot tell", "faster", "slower", "less", "more", "not compared"]
Repeated = Literal["runs", "launches", "blocks", "nothing"]


class ComparedSide(FieldwisePart, frozen=True, kw_only=True):
    """One of the results, as it was named: ``kind`` of its documents, and how often it was run and launched."""

    name: str
    kind: str
    run_ids: tuple[str, ...]
    started_at: str
    runs: int


class Differing(FieldwisePart, frozen=True, kw_only=True):
    """Something that is not the same on all sides, one value a side; None where a side does not say.

    ``about``: "machine", "configuration", "environment", or "outcome" (verdicts, checks, findings).
    """

    about: Literal["machine", "configuration", "environment", "outcome"]
    name: str
    values: tuple[str | None, ...]


class ComparedFigure(FieldwisePart, frozen=True, kw_only=True):
    """One figure of a side beside the reference's; ``side`` counts from 1, the reference is 0.

    ``ratio`` is the side's value over the reference's, with its 95 % interval, that of all figures together;
    ``repeated`` says what it rests on and ``counts`` how often, on the reference and the side. ``allowed``: the share
    by which two launches may differ besides, where neither side was launched twice. ``least_shown``: the smallest
    difference that these runs could show, a share. ``stolen``: the share of its processors that other virtual machines
    had, on the reference and the side; None where neither is known. ``is_summary``: the geometric mean of the
    benchmark's points. ``regression``: whether it is worse than the gate by the interval; None where that is not known,
    or no gate was given, or the figure has no direction.
    """

    side: int
    benchmark: str
    parameters: str
    point: str
    quantity: str
    unit: str
    is_better: Literal["lower", "higher", ""]
    values: tuple[float | None, float | None]
    difference: Difference
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    repeated: Repeated | None = None
    counts: tuple[int, int] | None = None
    allowed: float | None = None
    least_shown: float | None = None
    stolen: tuple[float | None, float | None] | None = None
    is_summary: bool = False
    regression: bool | None = None
    reason: str = ""

    @property
    def label(self) -> str:
        """``all_reduce float32 sum, 16M``, and what of it was measured where that is not its time."""
        what = "" if self.quantity == "time" else f", {self.quantity}"
        return f"{self.benchmark}, {self.point}{what}"

    @property
    def difference_text(self) -> str:
        """``1.08x slower [1.05, 1.11]``, ``no difference [0.98, 1.04]`` or ``cannot tell [0.9, 1.2]``."""
        if self.ratio is None or self.low is None or self.high is None:
            return self.difference
        turned = (self.ratio, self.low, self.high)
        if self.difference in ("no difference", "cannot tell"):
            return f"{self.difference} [{self.low:.3g}, {self.high:.3g}]"
        if self.ratio < 1:
            turned = 1 / self.ratio, 1 / self.high, 1 / self.low
        value, low, high = (f"{one:.3f}" if one < 1.1 else f"{one:.2f}" for one in turned)
        return f"{value}x {self.difference} [{low}, {high}]"

    @property
    def is_worse(self) -> bool:
        """Whether it is clear that the side is worse than the reference."""
        return self.ratio is not None and self.difference in ("slower", "less", "more") and self._is_worse(self.ratio)

    @property
    def is_improved(self) -> bool:
        """Whether it is clear that the side is better than the reference."""
        return (
            self.ratio is not None
            and bool(self.is_better)
            and self.difference in ("faster", "less", "more")
            and not self._is_worse(self.ratio)
        )

    def _is_worse(self, ratio: float) -> bool:
        return bool(self.is_better) and (ratio > 1) == (self.is_better == "lower")

    @property
    def times_worse(self) -> tuple[float, float, float] | None:
        """Ratio and interval, turned so that more than 1 is worse; None where neither direction is better."""
        if self.ratio is None or self.low is None or self.high is None or not self.is_better:
            return None
        if self.is_better == "lower":
            return self.ratio, self.low, self.high
        return 1 / self.ratio, 1 / self.high, 1 / self.low


class Comparison(FieldwiseDocument, frozen=True, kw_only=True):
    """Two or more results. ``gate``: the least share by which a figure must be worse to be a regression.

    ``losses``: of trainings that the reference and another side did alike, with the same seed, whether they reached one
    loss.
    """

    verdict: Verdict
    verdict_reason: str
    kind: str
    gate: float | None
    sides: tuple[ComparedSide, ...]
    differences: tuple[Differing, ...]
    figures: tuple[ComparedFigure, ...]
    losses: tuple[LossAgreement, ...] = ()
    remarks: tuple[str, ...] = ()
    SCHEMA: ClassVar[str] = "raybench.comparison/1"

    @property
    def conclusion(self) -> Conclusion:
        """The verdict and its reason."""
        return Conclusion(verdict=self.verdict, reason=self.verdict_reason)

    @property
    def exit_code(self) -> int:
        """That of the verdict."""
        return self.conclusion.exit_code

    @property
    def compared(self) -> tuple[ComparedFigure, ...]:
        """The figures that both sides have, and that more or less of is better."""
        return tuple(one for one in self.figures if one.difference != "not compared" and one.is_better)
