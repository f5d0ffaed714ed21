"""The ratio of two sides of a figure with its 95 % interval, by what was repeated: runs, launches, or blocks. Pure.

Samples of a launch are alike, and so are launches of a run: each has a port, a placement and a moment of its own. What
was repeated decides, as in ``raybench study``: where both sides have several runs, the spread between runs; else that
between launches; where nothing was started twice, the spread between blocks, and two launches of the same thing may
differ besides (``one_launch.py``). A launch whose own samples lie far apart counts for less (``raybench/weighing.py``).
Logarithms are compared, since a slowdown is a factor.

What other virtual machines took of a side's processors may have moved its level: the interval is longer by as much, at
the end to which the side that lost more was moved (``stolen.py``). A side that does not know what it lost may have lost
nothing: beside one that lost much the interval is as long as then.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from raybench.comparison.one_launch import launch_share, reach
from raybench.comparison.side import SideFigure
from raybench.comparison.stolen import (
    Beside,
    Reach,
    losses_of_launches,
    losses_of_runs,
    reach_of_losses,
    reach_of_shares,
)
from raybench.weighing import Repeats, half_width, weigh

Repeated = Literal["runs", "launches", "blocks", "nothing"]
LEVEL = 0.05  # of all intervals of a comparison together
LEAST_BLOCKS = 3
_MOST = math.log(1e12)  # an interval that is open above ends there: JSON has no infinity
_NONE = Repeats(levels=(), errors=())
# Launches made until they agree do so by chance too (Chow and Robbins, Ann. Math. Stat. 36, 1965): so much longer their
# intervals hold 95 % (simulated; methods, "Comparisons").
AGAIN = 1.15
LEAST_REPEATS = 4  # on both sides together: their spread has two degrees of freedom


@dataclass(frozen=True, slots=True, kw_only=True)
class RatioInterval:
    """The other side over the reference, with the ends of its interval. ``counts``: how many were repeated on each.

    ``values``: the level of the reference and of the other side. ``stolen``: the share of the processors of each that
    other virtual machines had; by what one side lost more than the other the interval is longer at its end.
    """

    values: tuple[float, float]
    ratio: float
    low: float
    high: float
    repeated: Repeated
    counts: tuple[int, int]
    allowed: float | None  # the share by which two launches may differ, where nothing was launched twice
    stolen: tuple[float | None, float | None] = (None, None)

    @property
    def half_width(self) -> float:
        """By which share the ratio would have to be off to be seen."""
        return math.sqrt(self.high / self.low) - 1

    @property
    def least_shown(self) -> float:
        """The smallest difference that these runs could show, in whichever direction it has to be larger."""
        return max(self.ratio / self.low, self.high / self.ratio, 1.0) - 1 if self.low > 0 else math.expm1(_MOST)

    def is_within(self, share: float) -> bool:
        """Whether the interval leaves out a difference of ``share`` or more."""
        return 1 / (1 + share) < self.low and self.high < 1 + share

    @property
    def is_clear(self) -> bool:
        """Whether the interval leaves out that both are the same."""
        return self.low > 1 or self.high < 1


def ratio_interval(reference: SideFigure, other: SideFigure, *, figures: int = 1) -> RatioInterval:
    """The interval of one of ``figures`` intervals that hold together with 95 % (Bonferroni)."""
    repeated, before, after = _repeats(reference, other)
    levels = _mean(reference.run_levels), _mean(other.run_levels)
    tail, allowed = LEVEL / figures / 2, None
    reach_of_loss = reach_of_shares(reference, other)
    if repeated in ("runs", "launches"):
        weighed = weigh(before, after)
        levels = weighed[0].level, weighed[1].level
        longer = AGAIN if repeated == "launches" and (reference.again or other.again) else 1.0
        down = up = longer * half_width(*weighed, tail)
        losses = losses_of_runs if repeated == "runs" else losses_of_launches
        sides = [
            Beside(repeats=repeats, weighed=one, losses=losses(figure))
            for repeats, one, figure in zip((before, after), weighed, (reference, other), strict=True)
        ]
        if all(side.losses for side in sides):
            reach_of_loss = reach_of_losses(sides[0], sides[1], tail=tail, longer=longer)
    elif repeated == "blocks":
        allowed = max(launch_share(reference), launch_share(other))
        down, up = _of_single_launches(reach(reference, tail), reach(other, tail), math.log1p(allowed))
    else:
        allowed = max(reference.allowed, other.allowed)
        down = up = math.log1p(allowed)
    difference = levels[1] - levels[0]
    more, less = _by_limits(reference, other)
    low, high = _with_losses(difference - down - more, difference + up + less, reach_of_loss)
    return RatioInterval(
        values=(math.exp(levels[0]), math.exp(levels[1])),
        ratio=math.exp(difference),
        low=math.exp(low),
        high=math.exp(min(high, _MOST)),
        repeated=repeated,
        counts=(before.count, after.count),
        allowed=allowed,
        stolen=(reference.stolen_share, other.stolen_share),
    )


def _with_losses(low: float, high: float, lost: Reach) -> tuple[float, float]:
    """Longer by what may have reached the figure: by all of it where the interval would tell a difference."""
    low, high, full_low, full_high = low - lost.more, high + lost.less, low - lost.most, high + lost.least
    return full_low if low > 0 else low, full_high if high < 0 else high


def _by_limits(reference: SideFigure, other: SideFigure) -> tuple[float, float]:
    """By how much the other side may have come out larger, and smaller, for more or less memory to fill; logarithms.

    Only within what comes and goes of a device's memory: further apart the limits are said to be others.
    """
    before, after = reference.limits, other.limits
    is_capped = reference.is_capped and other.is_capped
    if not before or not after or min(*before, *after) <= 0 or is_capped or reference.is_within_other_limits(other):
        return 0.0, 0.0
    return max(math.log(max(after) / min(before)), 0.0), max(math.log(max(before) / min(after)), 0.0)


def _of_single_launches(before: tuple[float, float], after: tuple[float, float], allowed: float) -> tuple[float, float]:
    """Of a difference, from how far each may be off (Zou and Donner, Stat. Med. 27, 2008), and what is allowed."""
    down = math.hypot(after[0], before[1]) + allowed
    return down, math.hypot(after[1], before[0]) + allowed


def _repeats(reference: SideFigure, other: SideFigure) -> tuple[Repeated, Repeats, Repeats]:
    """The largest thing that was repeated, with its levels on both sides."""
    started: tuple[tuple[Repeated, Repeats, Repeats], ...] = (
        ("runs", reference.by_run, other.by_run),
        ("launches", reference.by_launch, other.by_launch),
    )
    for repeated, before, after in started:
        if before.count + after.count >= LEAST_REPEATS:
            return repeated, before, after
    blocks = [Repeats(levels=side.block_levels, errors=()) for side in (reference, other)]
    if min(side.count for side in blocks) >= LEAST_BLOCKS:
        return "blocks", blocks[0], blocks[1]
    return "nothing", _NONE, _NONE


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
