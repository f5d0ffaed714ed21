"""Several runs of one healthy configuration, kept to compare later ones with: ``raybench baseline create``.

Schema ``raybench.baseline/1``: keys are added, never renamed or removed.
"""

import math
from collections.abc import Mapping
from statistics import fmean
from typing import Annotated, ClassVar, Literal

from msgspec import Meta, field

from raybench.documents.part import FieldwiseDocument, FieldwisePart
from raybench.documents.run.same_loss import BOUNDS
from raybench.stats import median

Share = Annotated[float, Meta(ge=0, le=1)]
Answered = Literal["judged", "not judged", "open", "suspect"]
ANSWERED: tuple[Answered, ...] = ("judged", "not judged", "open", "suspect")
Level = Annotated[float, Meta(gt=0, lt=1e30)]
Loss = Annotated[float, Meta(gt=-1e30, lt=1e30)]


class BaselineFigure(FieldwisePart, frozen=True, kw_only=True):
    """One figure: ``levels[run][launch]`` in ``unit``, each the median of a launch's samples, or their mean.

    ``samples[run][launch][block]``: those samples, which tell a launch that something held up from the others; empty in
    a baseline from before they were kept. ``stolen``: of each run the share of its processors that other virtual
    machines had, None where unknown; ``lost[run][launch][node]``: of which nodes, none of a run that does not know it.
    ``verified``: that the data of all runs was right; None where that is not known. ``limits``: bytes of memory that
    each run had to fill, of those that fill it; ``is_capped``: none of them did. The other fields are those of a
    comparison's figure.
    """

    benchmark: str
    parameters: str
    point: str
    quantity: str
    unit: str
    is_better: Literal["lower", "higher", ""]
    is_mean: bool
    allowed: Annotated[float, Meta(ge=0, lt=1e3)]
    order: float
    levels: tuple[tuple[Level, ...], ...]
    samples: tuple[tuple[tuple[tuple[Level, ...], ...], ...], ...] = ()
    stolen: tuple[Share | None, ...] = ()
    lost: tuple[tuple[tuple[Share, ...], ...], ...] = ()
    verified: bool | None = None
    limits: tuple[Annotated[int, Meta(ge=0)], ...] = ()
    is_capped: bool = False

    def contradiction(self) -> str | None:
        """Whether each of its runs has a figure, and samples are those of these launches."""
        if not self.levels or not all(self.levels):
            return "a figure without a run, or of a run without a launch"
        if self.samples and tuple(map(len, self.samples)) != tuple(map(len, self.levels)):
            return "samples of other launches than the levels"
        if any(not launch or not all(launch) for run in self.samples for launch in run):
            return "a launch without a sample, or a block of one"
        if not all(map(self._agrees, self.levels, self.samples)):
            return "a level that is not that of its samples"
        if len(self.lost) not in (0, len(self.levels)) or any(map(_is_not_of, self.lost, self.levels)):
            return "losses of other launches than the levels"
        return None if len(self.stolen) in (0, len(self.levels)) else "shares of other runs than the levels"

    def _agrees(self, levels: tuple[float, ...], samples: tuple[tuple[tuple[float, ...], ...], ...]) -> bool:
        """Whether each launch of a run has the level of its samples."""
        middle = fmean if self.is_mean else median
        found = (middle([sample for block in launch for sample in block]) for launch in samples)
        return all(math.isclose(*pair, rel_tol=1e-6) for pair in zip(levels, found, strict=True))


def _is_not_of(lost: tuple[tuple[float, ...], ...], levels: tuple[float, ...]) -> bool:
    """Whether the losses of a run are known, and of other launches than its levels."""
    return bool(lost) and len(lost) != len(levels)


class BaselineLosses(FieldwisePart, frozen=True, kw_only=True):
    """The ends of the losses of one training of one run: of its first and its last timed step.

    ``validation``: the least validation loss, None where there was none; ``has_lost_validation``: one of them was not a
    number. A later training is held against it where it was ``asked`` for alike, options as one text, and has the same
    of what ``decides`` its losses besides, as the number of parameters.
    """

    label: str
    asked: str
    decides: Mapping[str, str | int | None]
    dtype: str
    first: Loss
    last: Loss
    validation: Loss | None = None
    has_lost_validation: bool = False

    def contradiction(self) -> str | None:
        """Whether it is of a type whose rounding is known."""
        return None if self.dtype in BOUNDS else f"losses of {self.dtype}, whose rounding is not known"


class RunsBaseline(FieldwiseDocument, frozen=True, kw_only=True):
    """What a healthy configuration reaches, run by run.

    ``outcomes``: what the runs said of themselves, the worst of each; ``not_judged``: checks that none of them judged,
    and ``judged``: those that all of them did; ``checks``: of each check how far its runs answered it, in every way
    that occurred: "open" leaves a verdict open, and "suspect" whether a node is at fault.
    ``omitted``: figures that are not in it, since not all of its runs have them or one had wrong data. ``losses``: of
    every training of every run. They are empty in a baseline from before they were kept.
    """

    kind: str
    run_ids: tuple[str, ...]
    started_at: str
    machine: Mapping[str, str] = field(default_factory=dict)
    configuration: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    figures: tuple[BaselineFigure, ...] = ()
    outcomes: Mapping[str, str] = field(default_factory=dict)
    omitted: tuple[str, ...] = ()
    not_judged: tuple[str, ...] = ()
    judged: tuple[str, ...] = ()
    checks: Mapping[str, tuple[Answered, ...]] = field(default_factory=dict)
    losses: tuple[BaselineLosses, ...] = ()
    SCHEMA: ClassVar[str] = "raybench.baseline/1"
