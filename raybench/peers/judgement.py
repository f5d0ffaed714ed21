"""When something is slower than its peers, from how fast it was beside them, again and again. Pure.

A *share* is a speed over that of the peers at the same time. What counts is the median over all shares with its 95 %
interval (order statistics, which no single stall moves), an A/A control, and persistence:

- clear and large: the whole interval below ``LARGE``; moderate: below ``MODERATE``, on machines of their own only;
- the deviation is more than ``CONTROL`` times the largest that a peer shows from its own peers (A/A);
- it shows in three quarters of the rounds at least, in all where they are fewer than ten, so that trouble for a while
  names nobody.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from diagnostics.findings import Severity
from raybench.stats import median, order_interval

LARGE = 0.8
MODERATE = 0.93
CONTROL = 2.0
PERSISTENT = 0.75
NOT_JUDGED = 0.6  # a control so wide that not even this share would stand out says nothing
_LEAST_ROUNDS, _MANY_ROUNDS = 3, 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """How fast something is beside its peers: the median over ``rounds``, the 95 % interval, and by round."""

    value: float
    low: float
    high: float
    rounds: tuple[float, ...]

    def persists(self, limit: float) -> bool:
        """Whether most of the rounds show it by themselves."""
        halfway = (1 + limit) / 2
        least = PERSISTENT if len(self.rounds) >= _MANY_ROUNDS else 1.0
        return sum(share < halfway for share in self.rounds) >= least * len(self.rounds)


def share_of(rounds: Sequence[Sequence[float]]) -> Share | None:
    """The share from single shares by round; None of fewer than three rounds or six shares, which say nothing.

    Shares of a round are not independent of each other, so the interval is over rounds where there are enough of them.
    """
    known = [one for one in rounds if one]
    by_round = tuple(map(median, known))
    shares = by_round if len(known) >= _MANY_ROUNDS else [share for one in known for share in one]
    interval = order_interval(shares)
    if len(known) < _LEAST_ROUNDS or interval is None:
        return None
    return Share(value=median(shares), low=interval[0], high=interval[1], rounds=by_round)


def control_of(share: Share, peers: Sequence[Share], *, may_be_slow: bool = True) -> float:
    """How far a healthy peer is from its own peers at most, as a logarithm: nothing closer than that is known.

    The slowest quarter of the peers ``may_be_slow`` as well, and is then no control. Where no peer has peers of its
    own: half of what the rounds of the share itself differ by.
    """
    if not peers:
        return math.log(max(share.rounds) / min(share.rounds)) / 2
    values = sorted(peer.value for peer in peers)
    return max(abs(math.log(value)) for value in (values[len(values) // 4 :] if may_be_slow else values))


def severity_of(share: Share, control: float, *, emulated: bool) -> Severity | None:
    """How grave it is; None where it is noise. Emulated nodes share processors, so there only what is large counts."""
    if -math.log(share.value) <= CONTROL * control:
        return None
    if share.high < LARGE and share.persists(LARGE):
        return "critical"
    return "warning" if not emulated and share.high < MODERATE and share.persists(MODERATE) else None


def is_blind(control: float) -> bool:
    """Whether the control is so wide that hardly anything could be determined."""
    return CONTROL * control >= -math.log(NOT_JUDGED)
