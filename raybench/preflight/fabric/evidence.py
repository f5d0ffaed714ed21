"""What the tests so far say of hosts and pairs: who is proven good, who is suspect, which pairs are slow. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from raybench.preflight.fabric.rounds import Pair


class PairVerdict(IntEnum):
    """Of one test of a pair. ``FAILED``: it could not be run, or ended without a figure. That is not slow."""

    GOOD = 0
    SLOW = 1
    FAILED = 2


@dataclass(slots=True, kw_only=True)
class Evidence:
    """Tests of one rail. Only what is not good is kept pair by pair, so that all pairs of 1000 hosts stay small.

    ``partners`` counts for each host the pairs it was measured in, ``good_pairs`` those that were good at once;
    ``bad[pair]`` are the outcomes, in order of time, of a pair that was not good at least once. A pair counts against
    its hosts once it was bad ``repeats`` times and never good.
    """

    host_count: int
    repeats: int = 1
    partners: dict[int, int] = field(default_factory=dict)
    bad: dict[Pair, list[PairVerdict]] = field(default_factory=dict)
    good_pairs: dict[int, int] = field(default_factory=dict)
    met: set[Pair] = field(default_factory=set)  # pairs measured while looking for the cause

    def add_scan(self, measured: Mapping[int, int], bad: Mapping[Pair, PairVerdict]) -> None:
        """Take over a scan: how many pairs each host was measured in, and the pairs that were not good."""
        for host, number in measured.items():
            self.partners[host] = self.partners.get(host, 0) + number
            self.good_pairs[host] = self.good_pairs.get(host, 0) + number
        for pair, outcome in bad.items():
            self.bad.setdefault(pair, []).append(outcome)
            for host in pair:
                self.good_pairs[host] -= 1

    def add_tests(self, outcomes: Iterable[tuple[Pair, PairVerdict]]) -> None:
        """Take over tests made to find the cause. A pair may have been measured before."""
        for pair, outcome in outcomes:
            known = self.bad.get(pair)
            if known is not None:
                known.append(outcome)
            elif pair not in self.met:
                self.add_scan(dict.fromkeys(pair, 1), {} if outcome is PairVerdict.GOOD else {pair: outcome})
            self.met.add(pair)

    def persistent(self) -> dict[Pair, list[PairVerdict]]:
        """Pairs that have never been good."""
        return {pair: outcomes for pair, outcomes in self.bad.items() if PairVerdict.GOOD not in outcomes}


def other_end(pair: Pair, host: int) -> int:
    """The host at the other end of a pair."""
    return pair[1] if pair[0] == host else pair[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The evidence, sorted. ``proven`` hosts; ``against[suspect]``: proven hosts that it was not good with.

    ``doubtful`` pairs were not good so far, but not often enough to count.
    """

    proven: frozenset[int]
    against: Mapping[int, frozenset[int]]
    persistent: Mapping[Pair, list[PairVerdict]]
    doubtful: tuple[Pair, ...] = ()


def standing(evidence: Evidence) -> Standing:
    """Who is proven and who is not, over all tests so far."""
    persistent = evidence.persistent()
    mended = {host for pair in evidence.bad.keys() - persistent.keys() for host in pair}
    proven = frozenset(host for host, number in evidence.good_pairs.items() if number > 0) | mended
    against: dict[int, set[int]] = {}
    doubtful = tuple(pair for pair, outcomes in persistent.items() if len(outcomes) < evidence.repeats)
    for pair in persistent:
        for host in pair:
            if host not in proven:
                found = against.setdefault(host, set())
                if other_end(pair, host) in proven and pair not in doubtful:
                    found.add(other_end(pair, host))
    return Standing(
        proven=proven,
        against={host: frozenset(found) for host, found in against.items()},
        persistent=persistent,
        doubtful=doubtful,
    )
