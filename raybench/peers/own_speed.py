"""How fast each rank is alone, from a piece of local work that all ranks do at the same time. Pure.

In a collective all ranks wait for the slowest, so their times are alike and name nobody. Work without communication
takes every rank its own time: who needs longer for it is who the others wait for.
"""

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from diagnostics.findings import Severity
from raybench.peers.judgement import NOT_JUDGED, Share, control_of, is_blind, severity_of
from raybench.stats import mean_interval, median
from raybench.units import format_seconds

_GROUPS = 10  # of neighbouring samples: a stall spoils one of them
_LEAST_RANKS, _MOSTLY = 3, 0.8  # where it is open whether one is slow: so many ranks, and groups in which it is last
_MOST_NAMED = 3  # one rank in so many: of more, the others are no majority


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowRank:
    """A rank that does the same work slower than the others; seconds are means."""

    rank: int
    share: Share
    severity: Severity
    own_seconds: float
    others_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedJudgement:
    """The slow ranks, slowest first; why nothing could be determined where that is so.

    ``undecided``: one, the ``open_rank``, took far longer all the same, all the time, and nobody can say by how much.
    """

    slow: tuple[SlowRank, ...] = ()
    not_judged: str | None = None
    undecided: bool = False
    open_rank: int | None = None


def slow_rank_text(one: SlowRank, node: str) -> str:
    """``rank 1 (node-2) works at 0.52 of the others' speed: 310 us for work that takes the others 160 us``."""
    seen = f"{format_seconds(one.own_seconds)} for work that takes the others {format_seconds(one.others_seconds)}"
    return f"rank {one.rank} ({node}) works at {one.share.value:.2f} of the others' speed: {seen}"


def judge_speed(seconds: Mapping[int, Sequence[float]], *, emulated: bool) -> SpeedJudgement:
    """The ranks that are slower than the others, from ``seconds[rank][sample]``, the same work in each sample.

    Means count, not medians: a process that stands still for half of the time has a healthy median. The interval is
    Student's over groups of samples, so that a single long stall widens it and names nobody.
    """
    count = min((len(samples) for samples in seconds.values()), default=0)
    if len(seconds) < 2 or count < _GROUPS:
        return SpeedJudgement(not_judged="one rank alone" if len(seconds) == 1 else "too few samples of the ranks' own")
    means = {rank: _group_means(samples, count) for rank, samples in seconds.items()}
    if any(one <= 0 for values in means.values() for one in values):
        return SpeedJudgement(not_judged="the clock of a rank stood still")
    found: list[SlowRank] = []
    while len(found) < max(len(seconds) // _MOST_NAMED, 1):
        share, control, rank = _slowest(means)
        severity = severity_of(share, control, emulated=emulated)
        if severity is None:
            if found or not is_blind(control):
                return SpeedJudgement(slow=tuple(found))
            return _blind(rank, share, means)
        own = means.pop(rank)
        others = median([math.fsum(values) / len(values) for values in means.values()])
        mean = math.fsum(own) / len(own)
        found.append(SlowRank(rank=rank, share=share, severity=severity, own_seconds=mean, others_seconds=others))
        if len(means) < 2:
            break
    return SpeedJudgement(slow=tuple(found))


def _blind(rank: int, share: Share, means: Mapping[int, Sequence[float]]) -> SpeedJudgement:
    """Of ranks that differ too much among themselves for any to stand out.

    Among three that are alike one is the last in eight of ten groups by chance in 1 of 100 runs, among ten in 1 of
    40,000.
    """
    text = "the ranks' own speeds differ too much to tell"
    last = sum(max(column) == own for own, column in zip(means[rank], zip(*means.values(), strict=True), strict=True))
    if share.value >= NOT_JUDGED or len(means) < _LEAST_RANKS or last < _MOSTLY * _GROUPS:
        return SpeedJudgement(not_judged=text)
    text += f": rank {rank} reached {share.value:.2f} of the others'"
    return SpeedJudgement(not_judged=text, undecided=True, open_rank=rank)


def _slowest(means: Mapping[int, Sequence[float]]) -> tuple[Share, float, int]:
    """The share of the slowest rank, the control by the others without it, and the rank."""
    shares = _shares(means)
    rank = min(shares, key=lambda one: shares[one].value)
    rest = _shares({one: values for one, values in means.items() if one != rank})
    return shares[rank], control_of(shares[rank], list(rest.values())), rank


def _group_means(samples: Sequence[float], count: int) -> tuple[float, ...]:
    bounds = [count * group // _GROUPS for group in range(_GROUPS + 1)]
    return tuple(math.fsum(samples[begin:end]) / (end - begin) for begin, end in pairwise(bounds))


def _shares(means: Mapping[int, Sequence[float]]) -> dict[int, Share]:
    """Each rank's speed over the median of the others', group by group; none of a rank that is alone."""
    if len(means) < 2:
        return {}
    columns = [sorted(column) for column in zip(*means.values(), strict=True)]
    return {
        rank: _share([mine / _of_others(column, mine) for mine, column in zip(own, columns, strict=True)])
        for rank, own in means.items()
    }


def _of_others(ordered: Sequence[float], own: float) -> float:
    """The median of sorted values without one of them, without a copy of a thousand."""
    place, count = bisect_left(ordered, own), len(ordered) - 1
    low, high = ((count - 1) // 2, count // 2)
    return (ordered[low + (low >= place)] + ordered[high + (high >= place)]) / 2


def _share(slowness: Sequence[float]) -> Share:
    """From how much longer each group took."""
    low, high = mean_interval(slowness)
    mean = math.fsum(slowness) / len(slowness)
    thirds = (slowness[len(slowness) * part // 3 : len(slowness) * (part + 1) // 3] for part in range(3))
    return Share(
        value=1 / mean,
        low=1 / high,
        high=1 / low if low > 0 else math.inf,
        rounds=tuple(len(part) / math.fsum(part) for part in thirds),
    )
