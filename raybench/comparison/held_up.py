"""Launches that count for less than the others of their run, since their samples lie far apart, by name. Pure."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from raybench.comparison.judging import direction_of
from raybench.comparison.side import FigureKey, Side, SideFigure
from raybench.comparison.trend import LEAST_CHANGE
from raybench.weighing import weigh_alone

_LITTLE = 0.25  # of what it would count for if all launches counted alike


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    key: FigureKey
    unit: str
    launch: int
    count: int
    share: float
    off: float  # logarithm of its level over that of the run


def held_up(side: Side) -> str:
    """The launch that is furthest off, and how many more there are; empty where all count alike.

    Only those that are off by more than matters to anybody: what a launch shows less well and not otherwise is no news.
    """
    found = sorted(
        (one for key, figure in side.figures.items() for one in _held_of(key, figure)), key=lambda one: -abs(one.off)
    )
    if not found:
        return ""
    worst = found[0]
    factor = math.exp(abs(worst.off))
    by = f"{factor - 1:.1%}" if factor < 2 else f"{factor:.1f} times"
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    word = direction_of(worst.unit, is_more=worst.off > 0)
    return (
        f"{side.name}: launch {worst.launch} of {worst.count} is {by} {word} "
        f"than its run in {worst.key.benchmark}, {worst.key.point}, with samples too far apart to tell its level: "
        f"it counts for {worst.share:.1%}{more}"
    )


def _held_of(key: FigureKey, figure: SideFigure) -> Iterator[_Held]:
    for run in figure.runs if not figure.problem else ():
        repeats = figure.repeats_of(run)
        if repeats.count < 3:
            continue
        weighed = weigh_alone(repeats)
        for number, (share, level) in enumerate(zip(weighed.shares, repeats.levels, strict=True), 1):
            off = level - weighed.level
            if share * repeats.count < _LITTLE and abs(off) > math.log1p(LEAST_CHANGE):
                yield _Held(key=key, unit=figure.unit, launch=number, count=repeats.count, share=share, off=off)
