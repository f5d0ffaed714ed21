"""Which rank holds up the others: the one with the largest time of its own and the smallest wait. Pure.

Synchronised steps take every rank equally long, so step times name nobody. What tells is each rank's *own* time, up to
the moment at which it has nothing left to do but wait, and its *wait* after that: a rank that is 2 % slower has 2 %
more of the one and the least of the other.

A rank is named when, over all steps, (1) the median of its own time over the other ranks' median is above by at least
``LEAST_EXCESS`` and by ``LEAST_Z`` standard errors, (2) it is ahead in three of four quarters of the steps, so that
one stall does not name it, and (3) it waits less than the others do.

Where ranks share processors, or others use them, hardly a step is free of disturbance, and the median hides a few per
cent. But disturbance only ever adds, and each *piece* of a step (from one collective to the next, or a phase) is free
of it in many steps. So a rank is also named when its *undisturbed* step, the sum over pieces of the mean of
their quickest quarter, is above the others' median by ``LEAST_UNDISTURBED_EXCESS`` and ``LEAST_UNDISTURBED_Z`` standard
errors (jackknife over groups of steps), and its wait does not say the opposite. Trouble in a part of the steps alone is
not in the quickest quarter of a piece, so it names nobody. The limits are set by real ranks
(docs/methods.md).

A rank that stands still for a part of the time again and again has healthy pieces, and often a healthy median. So it is
also named where the *mean* of its own time is far above the others' all the time, by the rule of ranks that work alone
(``peers.own_speed``: below 0.8 of the others' speed with its whole interval, in each third of the steps, and farther
from them than twice what they are from each other).
"""

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import pairwise

from msgspec.structs import replace

from diagnostics.limits import NORMAL_95
from raybench.documents.run.training.straggler import Straggler
from raybench.peers.own_speed import SlowRank, judge_speed
from raybench.stats import MAD_TO_DEVIATION, median

LEAST_STEPS = 20
LEAST_EXCESS = 0.005
LEAST_Z = 6.0
LEAST_UNDISTURBED_EXCESS = 0.008
LEAST_UNDISTURBED_Z = 3.5
_QUARTERS = 4
_QUICKEST_SHARE = 0.25
_GROUPS = 20  # of steps, each left out once
_MEDIAN_ERROR = 1.2533  # standard error of a median over that of a mean, sqrt(pi / 2)


Pieces = Mapping[int, Sequence[Sequence[float]]]


def stragglers(
    own: Mapping[int, Sequence[float]], wait: Mapping[int, Sequence[float]], pieces: Pieces | None = None
) -> tuple[Straggler, ...]:
    """Ranks that hold up the rest, worst first, from each rank's own and waiting seconds by step.

    ``pieces[rank][step]``: the own seconds of a step piece by piece, as many in each; without them a step is one piece.
    None with fewer than three ranks, where "the others" are no majority, or fewer than ``LEAST_STEPS`` steps.
    """
    steps = min((len(values) for values in own.values()), default=0)
    if len(own) < 3 or steps < LEAST_STEPS:
        return ()
    typical = _typical(own, wait, steps)
    whole = {rank: [(seconds,) for seconds in values] for rank, values in own.items()}
    named: dict[int, Straggler] = {}
    for one in (*typical, *_undisturbed(own, wait, pieces or whole)):
        named.setdefault(one.rank, one)
    for one in _interrupted(own, wait):  # it says what the rank costs in the mean, of which the others see a part
        named[one.rank] = max(named.get(one.rank, one), one, key=lambda each: each.excess)
    return tuple(sorted(named.values(), key=lambda one: -one.excess))


def undecided(own: Mapping[int, Sequence[float]]) -> str | None:
    """Why it cannot be told whether the slowest rank holds up the rest, although it took far longer; else None."""
    judgement = judge_speed(own, emulated=True)
    return judgement.not_judged if judgement.undecided else None


def _typical(own: Mapping[int, Sequence[float]], wait: Mapping[int, Sequence[float]], steps: int) -> list[Straggler]:
    """Ranks whose typical step is longer than the others'."""
    waits = {rank: median(values) for rank, values in wait.items()}
    rows = [_excesses([values[step] for values in own.values()]) for step in range(steps)]
    found = []
    for rank, excesses in zip(own, zip(*rows, strict=True), strict=True):
        middle = median(excesses)
        error = _error(excesses, middle)
        z = middle / error if error > 0 else math.inf
        ahead = sum(median(quarter) >= LEAST_EXCESS / 2 for quarter in _quarters(excesses))
        one = _named(rank, middle, z, own, waits)
        longer = middle >= LEAST_EXCESS and z >= LEAST_Z and ahead >= _QUARTERS - 1
        if longer and one.wait_seconds < one.others_wait_seconds:
            found.append(one)
    return found


def _undisturbed(
    own: Mapping[int, Sequence[float]], wait: Mapping[int, Sequence[float]], pieces: Pieces
) -> list[Straggler]:
    """Ranks whose undisturbed step is longer than the others'.

    Own time and wait add up to a step that is equally long for all: who waits longer by as much as its own time is
    longer is no straggler, whatever the clock says.
    """
    ranks = list(pieces)
    excesses = _excesses([_quickest(pieces[rank]) for rank in ranks])
    errors = _jackknife(pieces)
    waits = {rank: math.fsum(values) / len(values) for rank, values in wait.items()}
    found = []
    for rank, excess, error in zip(ranks, excesses, errors, strict=True):
        z = excess / error if error > 0 else math.inf
        one = _named(rank, excess, z, own, waits)
        if excess < LEAST_UNDISTURBED_EXCESS or z < LEAST_UNDISTURBED_Z:
            continue
        if one.wait_seconds - one.others_wait_seconds < excess * one.own_seconds:
            found.append(one)
    return found


def _interrupted(own: Mapping[int, Sequence[float]], wait: Mapping[int, Sequence[float]]) -> list[Straggler]:
    """Ranks whose mean own time is far above the others', and that do not wait for them as much longer."""
    waits = {rank: math.fsum(values) / len(values) for rank, values in wait.items()}
    found = []
    for slow in judge_speed(own, emulated=True).slow:  # what is moderate is left to the two rules above
        excess, error = 1 / slow.share.value - 1, _mean_error(slow)
        z = excess / error if error > 0 else math.inf
        one = replace(_named(slow.rank, excess, z, own, waits), own_seconds=slow.own_seconds)
        if one.wait_seconds - one.others_wait_seconds < excess * slow.others_seconds:
            found.append(one)
    return found


def _mean_error(slow: SlowRank) -> float:
    """Standard error of a mean, from its 95 % interval."""
    return (1 / slow.share.low - 1 / slow.share.high) / (2 * NORMAL_95)


def _named(
    rank: int, excess: float, z: float, own: Mapping[int, Sequence[float]], waits: Mapping[int, float]
) -> Straggler:
    return Straggler(
        rank=rank,
        excess=excess,
        z=z,
        own_seconds=median(own[rank]),
        wait_seconds=waits[rank],
        others_wait_seconds=median([seconds for other, seconds in waits.items() if other != rank]),
    )


def _quickest(steps: Sequence[Sequence[float]]) -> float:
    """Seconds of a step without disturbance: of each piece the mean of its quickest quarter over the steps."""
    count = math.ceil(_QUICKEST_SHARE * len(steps))
    return math.fsum(math.fsum(sorted(piece)[:count]) / count for piece in zip(*steps, strict=True))


def _excesses(seconds: Sequence[float]) -> list[float]:
    """Each over the median of the others, less 1."""
    ordered = sorted(seconds)
    low, high = (len(ordered) - 2) // 2, (len(ordered) - 1) // 2  # of the others
    ratios = []
    for one in seconds:
        place = bisect_left(ordered, one)
        others = (ordered[low + (low >= place)] + ordered[high + (high >= place)]) / 2
        ratios.append(one / others - 1 if others > 0 else 0.0)  # clocks that stand still tell nothing
    return ratios


def _jackknife(pieces: Pieces) -> list[float]:
    """Standard error of each rank's excess, from leaving out one group of neighbouring steps after another."""
    count = min(len(steps) for steps in pieces.values())
    bounds = [count * group // _GROUPS for group in range(_GROUPS + 1)]
    omitted = [
        _excesses([_quickest([*steps[:begin], *steps[end:count]]) for steps in pieces.values()])
        for begin, end in pairwise(bounds)
    ]
    errors = []
    for values in zip(*omitted, strict=True):
        mean = math.fsum(values) / _GROUPS
        errors.append(math.sqrt((_GROUPS - 1) / _GROUPS * math.fsum((value - mean) ** 2 for value in values)))
    return errors


def _error(values: Sequence[float], middle: float) -> float:
    """Standard error of the median, from the median absolute deviation: outliers do not widen it."""
    spread = MAD_TO_DEVIATION * median([abs(value - middle) for value in values])
    return _MEDIAN_ERROR * spread / math.sqrt(len(values))


def _quarters(values: Sequence[float]) -> list[Sequence[float]]:
    length = len(values) // _QUARTERS
    return [values[part * length : (part + 1) * length] for part in range(_QUARTERS)]
