"""Ratios of two sides that were launched in alternation, with an interval over the rounds."""

import math
import random
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_RESAMPLES = 4000
_SEED = 20261121  # fixed, so that a table made twice from the same figures shows the same interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """``value`` is the ratio of the medians, ``low`` to ``high`` its 95 % bootstrap interval over ``rounds``."""

    value: float
    low: float
    high: float
    rounds: int

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"

    def to_json(self) -> dict[str, float]:
        """Plain values."""
        return {"ratio": self.value, "low": self.low, "high": self.high, "rounds": self.rounds}

    def verdict(self, bound: float) -> str:
        """Whether the ratio is at most ``bound``; inconclusive where the interval has the bound within it."""
        if self.high <= bound:
            return "met"
        return "missed" if self.low > bound else "inconclusive"


def ratio_of(measured: Sequence[float], reference: Sequence[float]) -> Ratio:
    """Median of ``measured`` over median of ``reference``; entry i of both comes from round i.

    A launch lands in a mode of its own (memory, connection state), so samples within one are not independent: whole
    rounds are drawn with replacement, both sides together, as they share the machine's mood of that moment.
    """
    pairs = list(zip(measured, reference, strict=True))
    draw = random.Random(_SEED)
    ratios = sorted(_ratio(draw.choices(pairs, k=len(pairs))) for _ in range(_RESAMPLES))
    return Ratio(
        value=_ratio(pairs),
        low=ratios[round(_RESAMPLES * 0.025)],
        high=ratios[round(_RESAMPLES * 0.975) - 1],
        rounds=len(pairs),
    )


def _ratio(pairs: Sequence[tuple[float, float]]) -> float:
    return statistics.median(pair[0] for pair in pairs) / statistics.median(pair[1] for pair in pairs)


def paired_ratio_of(measured: Sequence[float], reference: Sequence[float]) -> Ratio:
    """The median of the rounds' own ratios, with the 95 % interval of its order statistics (the sign test's).

    What drifts from round to round, as a machine's other work does, is in both sides of a round and not in their ratio;
    a round that was disturbed on one side is one of ``rounds``, however far off it is. Below six there is no interval.
    """
    ratios = sorted(one / other for one, other in zip(measured, reference, strict=True))
    count = len(ratios)
    omitted = _outside_median(count)
    low, high = (ratios[omitted - 1], ratios[count - omitted]) if omitted else (-math.inf, math.inf)
    return Ratio(value=statistics.median(ratios), low=low, high=high, rounds=count)


def _outside_median(count: int) -> int:
    """The largest k for which the kth smallest and the kth largest of ``count`` hold the median between them, 95 %."""
    tail, found = 0.0, 0
    for below in range(count // 2):
        tail += math.comb(count, below) / 2**count
        if tail > 0.025:
            break
        found = below + 1
    return found


def compare(figures: Mapping[str, Sequence[float]], reference: str) -> dict[str, dict[str, Any]]:
    """Each side's figures with its ratio to the reference side, which has none itself."""
    compared: dict[str, dict[str, Any]] = {}
    for side, values in figures.items():
        compared[side] = {"values": list(values), "median": statistics.median(values)}
        if side != reference:
            compared[side] |= ratio_of(values, figures[reference]).to_json()
    return compared
