"""Statistics over raw samples. Plain Python except the bootstrap, which needs NumPy and imports it when called."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.random import Generator

MAD_TO_DEVIATION = 1.4826  # of normal noise: its standard deviation over its median absolute deviation
BOOTSTRAP_RESAMPLES = 1000
# Student's t, two-sided 95 %, by degrees of freedom (any table); beyond the last the value of the one before holds.
_STUDENT = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262, 10: 2.228,
            12: 2.179, 15: 2.131, 20: 2.086, 30: 2.042, 60: 2.000, 120: 1.980}  # fmt: skip
_BOOTSTRAP_SEED = 20240521  # fixed, so that a report made twice from one result shows one interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Descriptive statistics of samples, in the samples' unit. ``stddev`` is the sample deviation (n - 1)."""

    median: float
    mean: float
    min: float
    max: float
    p95: float
    p99: float
    stddev: float


def summarize(samples: Sequence[float]) -> Summary:
    """Descriptive statistics of at least one sample. Raises ValueError on none."""
    if not samples:
        raise ValueError("no samples to summarize")
    ordered = sorted(samples)
    mean = math.fsum(ordered) / len(ordered)
    return Summary(
        median=quantile(ordered, 0.5),
        mean=mean,
        min=ordered[0],
        max=ordered[-1],
        p95=quantile(ordered, 0.95),
        p99=quantile(ordered, 0.99),
        stddev=deviation(ordered, mean),
    )


def quantile(ordered: Sequence[float], fraction: float) -> float:
    """The quantile of sorted samples with linear interpolation between neighbours (Hyndman and Fan's type 7)."""
    position = (len(ordered) - 1) * fraction
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def median(samples: Sequence[float]) -> float:
    """The median of unsorted samples."""
    return quantile(sorted(samples), 0.5)


def geometric_mean(values: Sequence[float]) -> float:
    """Of at least one positive value: what a change by a factor moves by that factor."""
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def deviation(samples: Sequence[float], mean: float) -> float:
    """The sample standard deviation (n - 1 in the denominator); 0.0 for a single sample."""
    if len(samples) < 2:
        return 0.0
    return math.sqrt(math.fsum((sample - mean) ** 2 for sample in samples) / (len(samples) - 1))


def student(degrees: int) -> float:
    """The 97.5 % quantile of Student's t, never too small: that of the next lower number of degrees in the table."""
    return _STUDENT[max(known for known in _STUDENT if known <= degrees)]


@cache
def student_quantile(degrees: float, tail: float) -> float:
    """The value that Student's t exceeds with the probability ``tail``, of any number of degrees of freedom above 0.

    By bisection: the tail is half the regularized incomplete beta function of degrees / (degrees + t^2).
    """
    low, high = 0.0, 1.0
    while _student_tail(high, degrees) > tail:
        low, high = high, 2 * high
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if _student_tail(middle, degrees) > tail else (low, middle)
    return high


def _student_tail(value: float, degrees: float) -> float:
    """The probability that Student's t exceeds a value of at least 0."""
    share = degrees / (degrees + value * value)
    return _incomplete_beta(degrees / 2, 0.5, share) / 2


def _incomplete_beta(first: float, second: float, upper: float) -> float:
    """Regularized, by its continued fraction (Abramowitz and Stegun 26.5.8), on the side where that is quick."""
    if upper in (0.0, 1.0):
        return upper
    if upper > (first + 1) / (first + second + 2):
        return 1 - _incomplete_beta(second, first, 1 - upper)
    logarithm = math.lgamma(first + second) - math.lgamma(first) - math.lgamma(second)
    front = math.exp(logarithm + first * math.log(upper) + second * math.log1p(-upper)) / first
    fraction = 1.0
    for term in range(100, 0, -1):  # from the innermost: more terms than any of its arguments here needs
        half, is_odd = divmod(term, 2)
        if is_odd:
            factor = -(first + half) * (first + second + half) / ((first + term - 1) * (first + term))
        else:
            factor = half * (second - half) / ((first + term - 1) * (first + term))
        fraction = 1 + factor * upper / fraction
    return front / fraction


def mean_interval(samples: Sequence[float]) -> tuple[float, float]:
    """Student's 95 % interval of the mean of at least two samples."""
    mean = math.fsum(samples) / len(samples)
    half = student(len(samples) - 1) * deviation(samples, mean) / math.sqrt(len(samples))
    return mean - half, mean + half


def order_interval(samples: Sequence[float]) -> tuple[float, float] | None:
    """A 95 % interval of the median of independent samples, whatever their distribution; None for fewer than six.

    Each is below the median with probability 1/2, so the k-th smallest is above it with that of fewer than k heads in n
    tosses (Conover, Practical Nonparametric Statistics, 3.2): the narrowest pair of order statistics within 5 %.
    """
    rank = _order_rank(len(samples))
    ordered = sorted(samples)
    return (ordered[rank - 1], ordered[len(ordered) - rank]) if rank else None


@cache
def _order_rank(count: int) -> int:
    """The k of the k-th smallest of so many samples; 0 where there is none."""
    tail, rank = 0.0, 0
    while rank < count and tail + math.comb(count, rank) / 2**count <= 0.025:
        tail += math.comb(count, rank) / 2**count
        rank += 1
    return rank


def median_interval(
    launches: Sequence[Sequence[Sequence[float]]], resamples: int = BOOTSTRAP_RESAMPLES
) -> tuple[float, float] | None:
    """The 95 % bootstrap interval of the pooled median of ``launches[launch][block][iteration]``.

    Samples within a block, and blocks within one launch of the processes, are not independent of each other. So whole
    launches are drawn with replacement first and whole blocks within each second (Davison and Hinkley, Bootstrap
    Methods, 3.8). With fewer than two blocks there is nothing to resample: None.
    """
    if sum(len(block) > 0 for launch in launches for block in launch) < 2:
        return None
    import numpy as np  # 100 ms that only a run pays

    blocks = [[np.asarray(block, dtype=float) for block in launch if len(block)] for launch in launches]
    blocks = [launch for launch in blocks if launch]
    generator = np.random.default_rng(_BOOTSTRAP_SEED)
    equal = len({len(launch) for launch in blocks}) == 1 and len({len(one) for launch in blocks for one in launch}) == 1
    draw = _draw_equal if equal else _draw_unequal
    low, high = np.quantile(draw(generator, blocks, resamples), (0.025, 0.975))
    return float(low), float(high)


def _draw_equal(generator: "Generator", blocks: list[list[Any]], resamples: int) -> Any:
    """Medians of resampled launches and blocks where all are equally long: all draws at once. Shape (resamples,)."""
    import numpy as np

    samples = np.array(blocks)
    launch_count, block_count, _ = samples.shape
    launches = generator.integers(launch_count, size=(resamples, launch_count, 1))
    chosen = generator.integers(block_count, size=(resamples, launch_count, block_count))
    return np.median(samples[launches, chosen].reshape(resamples, -1), axis=1)


def _draw_unequal(generator: "Generator", blocks: list[list[Any]], resamples: int) -> Any:
    """Medians of resampled launches and blocks of any length, draw by draw. Shape (resamples,)."""
    import numpy as np

    medians = np.empty(resamples)
    for draw in range(resamples):
        chosen = [blocks[index] for index in generator.integers(len(blocks), size=len(blocks))]
        picks = ((launch, generator.integers(len(launch), size=len(launch))) for launch in chosen)
        medians[draw] = np.median(np.concatenate([launch[index] for launch, indices in picks for index in indices]))
    return medians
