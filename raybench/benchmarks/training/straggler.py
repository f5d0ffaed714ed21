"""Which rank holds up the others: the one with the largest time of its own and the smallest wait. Pure.

Synchronised steps take every rank equally long, so step times name nobody. What tells is each rank's *own* time, up to
the moment at which it has nothing left to do but wait, and its *wait* after that: a rank that is 2 % slower has 2 %
more of the one and the least of the other.

A rank is named when, over all steps, (1) the median of its own time over the other ranks' median is above by at least
``LEAST_EXCESS`` and by ``LEAST_Z`` standard errors, (2) it is ahead in three of four quarters of the steps, so that
one stall does not name it, and (3) it waits less than the others do. The limits are set by real ranks
(docs/methods.md).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from raybench.stats import median

LEAST_STEPS = 20
LEAST_EXCESS = 0.005
LEAST_Z = 6.0
_QUARTERS = 4
_MAD_TO_SIGMA = 1.4826  # of normal noise
_MEDIAN_ERROR = 1.2533  # standard error of a median over that of a mean, sqrt(pi / 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Straggler:
    """A rank that the others wait for. ``excess``: its own time over theirs, a fraction; ``z``: in standard errors."""

    rank: int
    excess: float
    z: float
    own_seconds: float
    wait_seconds: float
    others_wait_seconds: float

    def to_json(self) -> dict[str, Any]:
        """As in the schema."""
        return {
            "rank": self.rank,
            "excess": self.excess,
            "z": self.z,
            "own_seconds": self.own_seconds,
            "wait_seconds": self.wait_seconds,
            "others_wait_seconds": self.others_wait_seconds,
        }


def stragglers(own: Mapping[int, Sequence[float]], wait: Mapping[int, Sequence[float]]) -> tuple[Straggler, ...]:
    """Ranks that hold up the rest, worst first, from each rank's own and waiting seconds by step.

    None with fewer than three ranks, where "the others" are no majority, or fewer than ``LEAST_STEPS`` steps.
    """
    steps = min((len(values) for values in own.values()), default=0)
    if len(own) < 3 or steps < LEAST_STEPS:
        return ()
    waits = {rank: median(values) for rank, values in wait.items()}
    named = [found for rank in own if (found := _judge(rank, own, waits, steps)) is not None]
    return tuple(sorted(named, key=lambda one: -one.excess))


def _judge(rank: int, own: Mapping[int, Sequence[float]], waits: Mapping[int, float], steps: int) -> Straggler | None:
    others = [values for other, values in own.items() if other != rank]
    excesses = [own[rank][step] / median([values[step] for values in others]) - 1 for step in range(steps)]
    middle = median(excesses)
    error = _error(excesses, middle)
    z = middle / error if error > 0 else math.inf
    other_wait = median([seconds for other, seconds in waits.items() if other != rank])
    ahead = sum(median(quarter) >= LEAST_EXCESS / 2 for quarter in _quarters(excesses))
    if middle < LEAST_EXCESS or z < LEAST_Z or ahead < _QUARTERS - 1 or waits[rank] >= other_wait:
        return None
    return Straggler(
        rank=rank,
        excess=middle,
        z=z,
        own_seconds=median(own[rank]),
        wait_seconds=waits[rank],
        others_wait_seconds=other_wait,
    )


def _error(values: Sequence[float], middle: float) -> float:
    """Standard error of the median, from the median absolute deviation: outliers do not widen it."""
    spread = _MAD_TO_SIGMA * median([abs(value - middle) for value in values])
    return _MEDIAN_ERROR * spread / math.sqrt(len(values))


def _quarters(values: Sequence[float]) -> list[Sequence[float]]:
    length = len(values) // _QUARTERS
    return [values[part * length : (part + 1) * length] for part in range(_QUARTERS)]
