"""Levels of what was repeated, each with an error of its own: the level of a side, and its spread. Pure.

A launch that something else holds up for some seconds shows it: its samples lie far apart, so that its own level is not
well known. It counts by what is known of it, as a trial does among others in medicine: by the inverse of its squared
error and of the spread between launches (DerSimonian and Laird, Control. Clin. Trials 7, 1986), with an interval by
Student's t of the weighted residuals (Hartung and Knapp, Stat. Med. 20, 2001). Nothing is left out by a threshold, and
a launch that is slow steadily counts in full: it may be what the next launch will be.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from raybench.stats import median, quantile, student_quantile

_NOTHING = 1e-24  # a squared error below which no clock measures: figures that never spread have a weight


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeats:
    """Logarithms of the level of each repeat, and the standard error of each; 0 where its own samples do not tell."""

    levels: tuple[float, ...]
    errors: tuple[float, ...]

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.levels)

    @property
    def least_errors(self) -> tuple[float, ...]:
        """Errors, none below their (upper) median: less than half of the repeats can lose weight, and none gains any.

        Else the one quiet launch of three would speak for two that a bad link makes restless.
        """
        middle = sorted(self.errors)[self.count // 2]
        return tuple(max(error, middle) for error in self.errors)


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed:
    """The level of a side, ``weight`` of all its repeats (1 / its variance), and their ``residual``: weighted squares.

    ``shares``: what part each repeat has in the level; together 1.
    """

    level: float
    weight: float
    residual: float
    shares: tuple[float, ...]


def spread_between(sides: Sequence[Repeats]) -> float:
    """The variance between repeats that their errors leave unexplained, one for all sides; never below 0."""
    residual = unexplained = 0.0
    for side in sides:
        weighed = _weighed(side, 0.0)
        residual += weighed.residual - (side.count - 1)
        unexplained += weighed.weight * (1 - math.fsum(share**2 for share in weighed.shares))
    return max(residual / unexplained, 0.0) if unexplained > 0 else 0.0


def weigh(before: Repeats, after: Repeats) -> tuple[Weighed, Weighed]:
    """Each side's level, by one spread between repeats for both."""
    spread = spread_between([before, after])
    return _weighed(before, spread), _weighed(after, spread)


def _weighed(side: Repeats, spread: float) -> Weighed:
    weights = [1 / (error**2 + spread + _NOTHING) for error in side.least_errors]
    weight = math.fsum(weights)
    level = math.fsum(map(math.prod, zip(weights, side.levels, strict=True))) / weight
    residual = math.fsum(one * (at - level) ** 2 for one, at in zip(weights, side.levels, strict=True))
    shares = tuple(one / weight for one in weights)
    return Weighed(level=level, weight=weight, residual=residual, shares=shares)


def weigh_alone(side: Repeats) -> Weighed:
    """The level of one side, by the spread of its own repeats."""
    return _weighed(side, spread_between([side]))


def combined(repeats: Repeats) -> tuple[float, float]:
    """The level of one side by itself, and its standard error: that of its only repeat, or by how they differ."""
    if repeats.count == 1:
        return repeats.levels[0], repeats.errors[0]
    weighed = weigh_alone(repeats)
    return weighed.level, math.sqrt(max(weighed.residual / (repeats.count - 1), 1.0) / weighed.weight)


def repeats_of(launches: Sequence[Sequence[Sequence[float]]], *, is_mean: bool = False) -> Repeats:
    """The level and the error of launches, ``launches[launch][block][sample]``, each sample above 0.

    ``is_mean``: their level is the mean of the samples, whose stalls are to count: they say nothing of its error.
    """
    levels = (level_of([sample for block in launch for sample in block], is_mean=is_mean) for launch in launches)
    errors = (0.0 if is_mean else _error_of_median(launch) for launch in launches)
    return Repeats(levels=tuple(levels), errors=tuple(errors))


def level_of(samples: Sequence[float], *, is_mean: bool) -> float:
    """The logarithm of the median of samples, or of their mean."""
    return math.log(math.fsum(samples) / len(samples) if is_mean else median(samples))


def _error_of_median(launch: Sequence[Sequence[float]]) -> float:
    low, high = reach_of_median([block for block in launch if block], 1.0)
    return (low + high) / 2 if math.isfinite(low) else high


def reach_of_median(blocks: Sequence[Sequence[float]], factor: float) -> tuple[float, float]:
    """How far below and above the median ``factor`` standard errors are, as logarithms (Woodruff, JASA 47, 1952).

    The share of samples above the median has an error, estimated from how far it differs between blocks: that many
    samples further up and down are the ends. One slow block of five moves neither end by much, two of five do.
    """
    samples = sorted(sample for block in blocks for sample in block)
    level = quantile(samples, 0.5)
    shares = [sum((one > level) + (one == level) / 2 for one in block) / len(block) for block in blocks]
    mean = math.fsum(shares) / len(shares)
    squares = math.fsum((share - mean) ** 2 for share in shares)
    between = math.sqrt(squares / max(len(shares) - 1, 1) / len(shares))
    error = factor * max(between, 0.5 / math.sqrt(len(samples)))
    low, high = quantile(samples, max(0.5 - error, 0.0)), quantile(samples, min(0.5 + error, 1.0))
    return math.log(level / low) if low > 0 else math.inf, math.log(high / level)


def half_width(before: Weighed, after: Weighed, tail: float) -> float:
    """Of the difference of two levels. A side that was not repeated is taken to spread as the other one does."""
    pooled = _pooled(before, after, tail)
    return pooled if min(len(before.shares), len(after.shares)) < 3 else max(pooled, _welch(before, after, tail))


def _pooled(before: Weighed, after: Weighed, tail: float) -> float:
    """Student's, with one spread for both sides; never less than what the errors of the repeats alone would make."""
    degrees = len(before.shares) + len(after.shares) - 2
    surplus = max((before.residual + after.residual) / degrees, 1.0)
    return student_quantile(degrees, tail) * math.sqrt(surplus * (1 / before.weight + 1 / after.weight))


def _welch(before: Weighed, after: Weighed, tail: float) -> float:
    """Welch's, each side with a spread of its own (Biometrika 34, 1947)."""
    degrees = [len(side.shares) - 1 for side in (before, after)]
    parts = [side.residual / count / side.weight for side, count in zip((before, after), degrees, strict=True)]
    error = math.fsum(parts)
    if error == 0:
        return 0.0
    found = error**2 / math.fsum(part**2 / count for part, count in zip(parts, degrees, strict=True))
    return student_quantile(math.floor(10 * found) / 10, tail) * math.sqrt(error)  # few values to be worked out
