"""How far the level of a figure may be off that was launched once: by its own blocks, and by what a launch adds. Pure.

Neighbouring samples are alike, so blocks are what is counted, with Student's t for their small number.
"""

import math
from collections.abc import Sequence

from raybench.comparison.side import SideFigure
from raybench.stats import MAD_TO_DEVIATION, deviation, median, quantile, student_quantile

_LAUNCH_SPREADS = 2.0  # of blocks: within a launch they have its port and placement, and the same few seconds


def reach(figure: SideFigure, tail: float) -> tuple[float, float]:
    """How far below and above its level it may be, each with the probability ``tail``, as logarithms; never below 0."""
    blocks = [block for block in figure.launches[0] if block]
    degrees = len(blocks) - 1
    factor = student_quantile(degrees, tail)
    if figure.is_mean:
        levels = figure.block_levels
        error = factor * deviation(levels, math.fsum(levels) / len(levels)) / math.sqrt(len(levels))
        return error, error
    return _reach_of_median(blocks, factor)


def _reach_of_median(blocks: Sequence[Sequence[float]], factor: float) -> tuple[float, float]:
    """Of the median over all samples, whatever their distribution (Woodruff, JASA 47, 1952).

    The share of samples above the median has an error, estimated from how far it differs between blocks: that many
    samples further up and down are the ends. One slow block of five moves neither end by much, two of five do.
    """
    samples = sorted(sample for block in blocks for sample in block)
    level = quantile(samples, 0.5)
    shares = [sum((one > level) + (one == level) / 2 for one in block) / len(block) for block in blocks]
    between = deviation(shares, math.fsum(shares) / len(shares)) / math.sqrt(len(shares))
    error = factor * max(between, 0.5 / math.sqrt(len(samples)))
    low, high = quantile(samples, max(0.5 - error, 0.0)), quantile(samples, min(0.5 + error, 1.0))
    return math.log(level / low) if low > 0 else math.inf, math.log(high / level)


def launch_share(figure: SideFigure) -> float:
    """By which share two launches may differ: what is known of its kind, or twice the spread of its blocks."""
    levels = figure.block_levels
    middle = median(levels)
    spread = MAD_TO_DEVIATION * median([abs(level - middle) for level in levels])
    return max(figure.allowed, math.expm1(_LAUNCH_SPREADS * spread))
