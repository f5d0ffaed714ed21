"""All runs of a folder in the order of time (``raybench history --json``): each figure's trend, and where it changed.

Schema ``raybench.history/1``: keys are added, never renamed or removed.
"""

from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from raybench.documents.comparison.comparison import Differing
from raybench.documents.part import FieldwiseDocument, FieldwisePart
from raybench.documents.quantity import Count
from raybench.verdicts import Conclusion, Verdict

LEAST_TO_JUDGE = 6  # three runs on each side of a change
Value = Annotated[float, Meta(gt=0, lt=1e30)]


class HistoryRun(FieldwisePart, frozen=True, kw_only=True):
    """A run: where it is below the folder, when it began, and the verdict that it ended in."""

    path: str
    run_id: str
    started_at: str
    verdict: str


class OmittedRun(FieldwisePart, frozen=True, kw_only=True):
    """A run that is in the folder and in no figure."""

    path: str
    reason: str


class ChangePoint(FieldwisePart, frozen=True, kw_only=True):
    """From ``run`` on, an index of all runs, the figure has another level: ``before`` and ``after`` are the two.

    ``ratio`` of the two with its 95 % interval, that of all figures and places together. ``differences``: what of
    machine, configuration and environment differs between this run and the one before it that has the figure.
    """

    run: Count
    before: Value
    after: Value
    ratio: Value
    low: Value
    high: Value
    direction: Literal["faster", "slower", "less", "more"]
    is_worse: bool | None
    differences: tuple[Differing, ...] = ()


class HistorySeries(FieldwisePart, frozen=True, kw_only=True):
    """One figure on one machine. ``runs``: indices of all runs, in the order of time; ``values``: its level in each.

    ``since_best``: the newest level beside the best one before it, where it is worse. ``newest``: the last run or two,
    which are too few for a level, beside the level before them, where they are worse. ``missing_since``: the first of
    the newest runs, all of which lack the figure.
    """

    benchmark: str
    parameters: str
    point: str
    quantity: str
    unit: str
    is_better: Literal["lower", "higher", ""]
    machine: str
    runs: tuple[Count, ...]
    values: tuple[Value, ...]
    changes: tuple[ChangePoint, ...] = ()
    since_best: ChangePoint | None = None
    newest: ChangePoint | None = None
    missing_since: Count | None = None

    def contradiction(self) -> str | None:
        """Whether each value has its run."""
        return None if len(self.runs) == len(self.values) > 0 else "a figure with other runs than values"

    @property
    def is_judged(self) -> bool:
        """Whether it has runs enough for a change, and a direction."""
        return bool(self.is_better) and len(self.values) >= LEAST_TO_JUDGE

    @property
    def all_changes(self) -> tuple[ChangePoint, ...]:
        """Its changes, and what else is told of it in their form."""
        return (*self.changes, *(one for one in (self.since_best, self.newest) if one))

    @property
    def label(self) -> str:
        """``all_reduce float32 sum, 16M``, and what of it was measured where that is not its time."""
        what = "" if self.quantity == "time" else f", {self.quantity}"
        return (
            f"{self.point}{what}" if self.point.startswith(self.benchmark) else f"{self.benchmark}, {self.point}{what}"
        )


class History(FieldwiseDocument, frozen=True, kw_only=True):
    """The runs of a folder, oldest first, and each of their figures. ``copies``: runs that are others once more."""

    verdict: Verdict
    verdict_reason: str
    folder: str
    runs: tuple[HistoryRun, ...]
    series: tuple[HistorySeries, ...]
    omitted: tuple[OmittedRun, ...] = ()
    copies: tuple[OmittedRun, ...] = ()
    SCHEMA: ClassVar[str] = "raybench.history/1"

    @property
    def conclusion(self) -> Conclusion:
        """The verdict and its reason."""
        return Conclusion(verdict=self.verdict, reason=self.verdict_reason)

    @property
    def exit_code(self) -> int:
        """That of the verdict."""
        return self.conclusion.exit_code

    def contradiction(self) -> str | None:
        """Whether every run that is spoken of is there."""
        changes = [change.run for one in self.series for change in one.all_changes]
        spoken = [run for one in self.series for run in (*one.runs, one.missing_since or 0)] + changes
        return None if max(spoken, default=-1) < len(self.runs) else "a figure of a run that is not there"
