"""Where the level of a figure changes over many runs: split at the largest step, and again on both sides. Pure.

A split is a change where Student's t of the two parts is beyond what the largest of all places in all figures reaches
by chance (Bonferroni), so that a folder of runs of the same thing has none 95 times of 100. What is between a run and
the next, such as a machine that is busier in the evening, is spread like any other.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from raybench.comparison.interval import LEVEL
from raybench.comparison.side import Better
from raybench.documents.comparison.history import LEAST_TO_JUDGE
from raybench.stats import student_quantile

LEAST_RUNS = LEAST_TO_JUDGE // 2  # on each side of a change: one run, or two, may be slow by themselves
LEAST_CHANGE = 0.01  # of figures that hardly spread, such as memory: less than that matters to nobody


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """From ``index`` on the level is ``ratio`` times that before, with the ends of its interval."""

    index: int
    before: float
    after: float
    low: float
    high: float

    @property
    def ratio(self) -> float:
        """After over before."""
        return self.after / self.before


def steps_of(values: Sequence[float], *, figures: int = 1) -> tuple[Step, ...]:
    """The changes of level in values above 0, in their order; one of ``figures`` that are looked at together."""
    levels = [math.log(value) for value in values]
    tests = figures * max(len(levels) - 2 * LEAST_RUNS + 1, 1) * len(_widths(len(levels)))
    tail = LEVEL / tests / 2
    places = [0, *_splits(levels, 0, len(levels), tail), len(levels)]
    parts = list(pairwise(places))
    return tuple(
        _step(levels[slice(*before)], levels[slice(*after)], after[0], tail) for before, after in pairwise(parts)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """The changes of level; the newest level beside the best before it, where it is worse; and the last run or two.

    ``newest``: the runs after a level that are too few for one of their own, where they are worse than it.
    """

    steps: tuple[Step, ...] = ()
    since_best: Step | None = None
    newest: Step | None = None


def trend_of(values: Sequence[float], *, is_better: Better, figures: int = 1) -> Trend:
    """What values above 0 show, in the order of time; nothing where neither direction is better, or of fewer than 6.

    The last run or two lie beyond a level where Student's t of their mean is, by the spread of the level's own runs.
    """
    if not is_better or len(values) < 2 * LEAST_RUNS:
        return Trend()
    steps, levels = steps_of(values, figures=figures), [math.log(value) for value in values]
    worse = [level if is_better == "lower" else -level for level in levels]
    places = [0, *(step.index for step in steps), len(levels)]
    parts, tail = list(pairwise(places)), LEVEL / figures / 2
    *before, last = parts
    best = min(before, key=lambda part: _mean(worse[slice(*part)]), default=None)
    net = best and _step(levels[slice(*best)], levels[slice(*last)], best[1], tail / max(len(before), 1))
    least = math.log1p(LEAST_CHANGE)
    is_worse = best is not None and _mean(worse[slice(*last)]) - _mean(worse[slice(*best)]) >= least
    return Trend(
        steps=steps,
        since_best=net if net and is_worse and not net.low <= 1 <= net.high else None,
        newest=_newest(levels, worse, last[0], tail / (LEAST_RUNS - 1)),
    )


def _newest(levels: Sequence[float], worse: Sequence[float], first: int, tail: float) -> Step | None:
    """The last runs, fewer than LEAST_RUNS, beside those before them of the last level, which begins at ``first``."""
    found = []
    for count in range(1, LEAST_RUNS):
        before, after = worse[first:-count], worse[-count:]
        if len(before) < LEAST_RUNS:
            continue
        middle, difference = _mean(before), _mean(after) - _mean(before)
        squares = math.fsum((level - middle) ** 2 for level in before)
        degrees = len(before) - 1
        error = math.sqrt(max(squares, 1e-18) / degrees * (1 / len(before) + 1 / count))
        clearness = difference / error / student_quantile(degrees, tail)
        if difference >= math.log1p(LEAST_CHANGE) and clearness > 1:
            found.append((clearness, count))
    if not found:
        return None
    _, count = max(found)
    return _step(levels[first:-count], levels[-count:], len(levels) - count, tail)


def _mean(levels: Sequence[float]) -> float:
    return math.fsum(levels) / len(levels)


def _widths(count: int) -> list[int]:
    """Runs on each side of a place that are compared: few, else a level that comes and goes would hide itself."""
    widths = [LEAST_RUNS]
    while widths[-1] < count - LEAST_RUNS:
        widths.append(2 * widths[-1])
    return widths


def _splits(levels: Sequence[float], first: int, after: int, tail: float) -> list[int]:
    """Places, in their order, at which the levels from ``first`` to before ``after`` fall apart."""
    places = range(first + LEAST_RUNS, after - LEAST_RUNS + 1)
    if not places:
        return []
    sums = _running(levels[first:after])
    clearest, best = 0.0, first
    for width in _widths(after - first):
        for place in places:
            here = place - first
            clearness = _clearness(sums, max(here - width, 0), here, min(here + width, after - first), tail)
            if clearness > clearest:
                clearest, best = clearness, place
    if clearest <= 1:
        return []
    return [*_splits(levels, first, best, tail), best, *_splits(levels, best, after, tail)]


def _running(levels: Sequence[float]) -> list[tuple[float, float]]:
    """Sums of all levels before each place, and of their squares; around the middle, which keeps digits."""
    middle = math.fsum(levels) / len(levels)
    sums = [(0.0, 0.0)]
    for level in levels:
        sums.append((sums[-1][0] + level - middle, sums[-1][1] + (level - middle) ** 2))
    return sums


def _clearness(sums: Sequence[tuple[float, float]], first: int, place: int, after: int, tail: float) -> float:
    """Student's t of a split, with one spread for both parts, over its quantile; 0 for one that is too small."""
    count, rest = place - first, after - place
    left, right = ((sums[end][0] - sums[begin][0]) / (end - begin) for begin, end in ((first, place), (place, after)))
    difference = abs(left - right)
    if difference < math.log1p(LEAST_CHANGE):
        return 0.0
    within = sums[after][1] - sums[first][1] - count * left**2 - rest * right**2
    error = math.sqrt(max(within, 1e-18) / (count + rest - 2) * (1 / count + 1 / rest))
    return difference / error / student_quantile(count + rest - 2, tail)


def _step(before: Sequence[float], after: Sequence[float], index: int, tail: float) -> Step:
    means = [_mean(part) for part in (before, after)]
    squares = sum((level - mean) ** 2 for part, mean in zip((before, after), means, strict=True) for level in part)
    degrees = len(before) + len(after) - 2
    error = math.sqrt(squares / degrees * (1 / len(before) + 1 / len(after)))
    half, difference = student_quantile(degrees, tail) * error, means[1] - means[0]
    return Step(
        index=index,
        before=math.exp(means[0]),
        after=math.exp(means[1]),
        low=math.exp(difference - half),
        high=math.exp(difference + half),
    )
