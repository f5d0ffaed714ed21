"""By how much the processors that other virtual machines had may have moved one side more than the other. Pure.

A hypervisor that gives a share ``s`` of the time that processors were wanted to other virtual machines makes work of
processors alone take 1/(1 - s) times as long, and what waits for a link between that and 1. Which of the two it was is
asked of the launches: within a side they differ by what they lost, and by nothing else that was chosen. The slope of
their levels over ``-log(1 - s)``, one for both sides, is how much of it reaches the figure, between 0 and 1; what is
taken is the upper end of its interval. Between all losses of one side and all of the other there is no launch to ask.
What waits for a link has time to spare, so less of a small loss reaches a figure than of a large one: the slope there
is at most that of the side that lost more. That is enough to say that sides agree, since else what reached and what
differs would have to be as large as each other. A difference is told only where neither slope would make it: the slope
there lies between those of both sides whether a loss reaches the more or the less the larger it is.

Which node's loss matters is not known either: each node's is asked by itself, and that of the node that lost most, and
the one that leaves most open counts. Where the losses of launches are not known, or too few were launched to have a
slope, all of the difference may have reached the figure.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self

from raybench.comparison.side import SideFigure
from raybench.stability import MAX_STOLEN
from raybench.stats import student_quantile
from raybench.weighing import Repeats, Weighed, weigh_alone


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """The repeats of one side and how they were weighed; ``losses[repeat][node]``, empty where they are not known."""

    repeats: Repeats
    weighed: Weighed
    losses: tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """By how much the other side may have been stretched less and more than the reference, as logarithms from 0 on.

    ``least`` and ``most``: the same where a loss that no launch shows reached the figure by either slope.
    """

    less: float
    more: float
    least: float
    most: float


def losses_of_launches(figure: SideFigure) -> tuple[tuple[float, ...], ...]:
    """By launch, of each node the logarithm of what it may have been stretched by; empty where any is not known."""
    return tuple(tuple(map(stretch, shares)) for run in figure.lost for shares in run) if _is_known(figure) else ()


def losses_of_runs(figure: SideFigure) -> tuple[tuple[float, ...], ...]:
    """By run, the mean over its launches, each by its part in the level of the run."""
    return tuple(_of_run(figure, number) for number in range(len(figure.runs))) if _is_known(figure) else ()


def _is_known(figure: SideFigure) -> bool:
    """Whether the losses of each launch are there, of as many nodes."""
    return (
        tuple(map(len, figure.lost)) == tuple(map(len, figure.runs))
        and len({len(shares) for run in figure.lost for shares in run}) == 1
        and all(figure.lost[0])
    )


def _of_run(figure: SideFigure, number: int) -> tuple[float, ...]:
    shares = weigh_alone(figure.repeats_of(figure.runs[number])).shares
    nodes = zip(*figure.lost[number], strict=True)
    return tuple(math.fsum(map(math.prod, zip(shares, map(stretch, node), strict=True))) for node in nodes)


def reach_of_losses(before: Beside, after: Beside, *, tail: float, longer: float) -> Reach:
    """From the losses of launches, or runs, that both sides know.

    ``tail``: the probability with which the slope is larger. ``longer``: by which factor its interval is.
    """
    factor = longer * student_quantile(before.repeats.count + after.repeats.count - 3, tail)
    found = [_reach(before, after, *series, factor) for series in _series(before.losses, after.losses)]
    return Reach(
        less=max(max(-one, 0.0) for one, _ in found),
        more=max(max(one, 0.0) for one, _ in found),
        least=max(max(-one, 0.0) for _, one in found),
        most=max(max(one, 0.0) for _, one in found),
    )


_Series = tuple[float, ...]


def _series(before: tuple[_Series, ...], after: tuple[_Series, ...]) -> Iterator[tuple[_Series, _Series]]:
    """Losses by repeat: of the node that lost most, and of every node where both sides have as many."""
    yield tuple(map(max, before)), tuple(map(max, after))
    if len(before[0]) == len(after[0]) > 1:
        yield from zip(zip(*before, strict=True), zip(*after, strict=True), strict=True)


def _reach(before: Beside, after: Beside, lost: _Series, now: _Series, factor: float) -> tuple[float, float]:
    """How much more the other side may have been stretched; then by either slope between. Below 0: how much less."""
    sides = [_Squares.of(side, losses) for side, losses in ((before, lost), (after, now))]
    less, more = sorted(sides, key=lambda one: one.mean)
    apart = max(more.least - less.most, 0.0)
    both = less.with_other(more)
    error = factor * math.sqrt(both.surplus)
    spanned = (more.mean - less.mean - apart) * both.most_slope(error)
    sign = 1.0 if more is sides[1] else -1.0
    slopes = more.most_slope(error), less.most_slope(error)
    return sign * (spanned + apart * slopes[0]), sign * (spanned + apart * max(slopes))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Squares:
    """Weighted squares within a side, or two: of losses, of levels, and of both. Degrees of freedom: of levels."""

    mean: float
    least: float
    most: float
    losses: float
    products: float
    levels: float
    degrees: int

    @classmethod
    def of(cls, side: Beside, losses: _Series) -> Self:
        mean = math.fsum(map(math.prod, zip(side.weighed.shares, losses, strict=True)))
        weights = [share * side.weighed.weight for share in side.weighed.shares]
        off = [loss - mean for loss in losses]
        levels = [level - side.weighed.level for level in side.repeats.levels]
        return cls(
            mean=mean,
            least=min(losses),
            most=max(losses),
            losses=math.fsum(map(math.prod, zip(weights, off, off, strict=True))),
            products=math.fsum(map(math.prod, zip(weights, off, levels, strict=True))),
            levels=side.weighed.residual,
            degrees=len(losses) - 1,
        )

    def with_other(self, other: Self) -> Self:
        """Of both, each about its own means."""
        return replace(
            self,
            losses=self.losses + other.losses,
            products=self.products + other.products,
            levels=self.levels + other.levels,
            degrees=self.degrees + other.degrees,
        )

    @property
    def surplus(self) -> float:
        """What a slope leaves of the squares of levels, by degree; never less than the levels' own errors make (1)."""
        left = self.levels - (self.products**2 / self.losses if self.losses > 0 else 0.0)
        return max(left / (self.degrees - 1), 1.0)

    def most_slope(self, error: float) -> float:
        """The upper end of the slope of levels over losses, from 0 to 1."""
        if self.losses <= 0:
            return 1.0
        return min(max(self.products / self.losses + error / math.sqrt(self.losses), 0.0), 1.0)


def reach_of_shares(reference: SideFigure, other: SideFigure) -> Reach:
    """From what whole runs lost, all of which may have reached the figure.

    What a side lost that does not know it is taken as anything from nothing to what the other is known to have lost,
    where that is much (MAX_STOLEN); else, as where neither knows, as the same.
    """
    before, after = _known_lost(reference), _known_lost(other)
    much = max(before[0], after[0])
    if (None in before or None in after) and much < MAX_STOLEN:
        return Reach(less=0.0, more=0.0, least=0.0, most=0.0)
    ends = [(low, much if high is None else high) for low, high in (before, after)]
    less = max(stretch(ends[0][1]) - stretch(ends[1][0]), 0.0)
    more = max(stretch(ends[1][1]) - stretch(ends[0][0]), 0.0)
    return Reach(less=less, more=more, least=less, most=more)


def _known_lost(side: SideFigure) -> tuple[float, float | None]:
    """The share that it lost at least and at most; None where some of its runs do not know."""
    share = side.stolen_share
    return (math.fsum(filter(None, side.stolen)) / max(len(side.runs), 1), None) if share is None else (share, share)


def stretch(share: float | None) -> float:
    """The logarithm by which work of processors takes longer that lost a share of them."""
    return -math.log1p(-min(share or 0.0, 0.99))
