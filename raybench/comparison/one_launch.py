"""How far the level of a figure may be off that was launched once: by its own blocks, and by what a launch adds. Pure.

Neighbouring samples are alike, so blocks are what is counted, with Student's t for their small number.
"""

import math

from raybench.comparison.side import SideFigure
from raybench.stats import MAD_TO_DEVIATION, deviation, median, student_quantile
from raybench.weighing import reach_of_median

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
    return reach_of_median(blocks, factor)


def launch_share(figure: SideFigure) -> float:
    """By which share two launches may differ: what is known of its kind, or twice the spread of its blocks."""
    levels = figure.block_levels
    middle = median(levels)
    spread = MAD_TO_DEVIATION * median([abs(level - middle) for level in levels])
    return max(figure.allowed, math.expm1(_LAUNCH_SPREADS * spread))
