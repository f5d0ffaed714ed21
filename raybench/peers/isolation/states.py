"""Which figures of a group are slow and which are well, by the limits of the first finding. Pure.

A pair cannot be well where one of its ends is slow. So the fastest pair of a group is what a healthy one reaches, and
who has a pair that is well is proven to be healthy itself.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from raybench.peers.judgement import LARGE, Share, severity_of, share_of
from raybench.stats import median

State = Literal["slow", "well", "open"]
Subject = TypeVar("Subject")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure of a group: its median with the 95 % interval, its share of the best, and its state."""

    value: float
    low: float
    high: float
    share: Share
    state: State


def figures_of(blocks: Mapping[Subject, Sequence[float]], limit: float) -> dict[Subject, Figure]:
    """Each figure with its state; none of what has too few samples to have an interval.

    Slow is what is below the limit with its whole interval, in most of its blocks, and farther from the best than twice
    what the others are from it (the A/A control); well is what is above the limit with its whole interval.
    """
    known = {subject: tuple(one) for subject, one in blocks.items() if one and min(one) > 0}
    if not known:
        return {}
    best = max(map(median, known.values()))
    shares = {subject: share_of([[block / best] for block in one]) for subject, one in known.items()}
    found = {subject: share for subject, share in shares.items() if share is not None}
    alike = [abs(math.log(share.value)) for share in found.values() if share.value >= limit]
    control = max(alike, default=0.0)
    return {
        subject: Figure(
            value=share.value * best,
            low=share.low * best,
            high=share.high * best,
            share=share,
            state=_state(share, control, limit),
        )
        for subject, share in found.items()
    }


def _state(share: Share, control: float, limit: float) -> State:
    if share.low >= limit:
        return "well"
    return "slow" if severity_of(share, control, emulated=limit == LARGE) is not None else "open"
