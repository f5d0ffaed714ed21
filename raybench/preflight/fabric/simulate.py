"""Planted faults: does the localisation find exactly what was planted, and in how many rounds? Pure.

The outcomes of tests are made from the planted faults, without noise: a test is slow when one of its ends or the path
between them is bad. What is simulated is the planning, not a network.
"""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from raybench.preflight.fabric.evidence import Evidence, PairVerdict
from raybench.preflight.fabric.localise import locate, next_round
from raybench.preflight.fabric.rounds import Pair, Round

EXTRA_ROUNDS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """Bad hosts, and faulty paths between good hosts."""

    hosts: frozenset[int]
    links: frozenset[Pair]

    def outcome(self, pair: Pair) -> PairVerdict:
        """Of a test of that pair."""
        bad = pair in self.links or not self.hosts.isdisjoint(pair)
        return PairVerdict.SLOW if bad else PairVerdict.GOOD


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One set of planted faults and what came of it."""

    planted: Planted
    exact: bool
    extra_rounds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Trials:
    """All trials of one size."""

    host_count: int
    scan_rounds: int
    trials: tuple[Trial, ...]

    @property
    def exact(self) -> int:
        """Trials in which exactly the planted hosts and paths were named, and nothing else."""
        return sum(trial.exact for trial in self.trials)

    @property
    def extra_rounds(self) -> dict[int, int]:
        """How many trials took how many rounds after the scan."""
        return dict(sorted(Counter(trial.extra_rounds for trial in self.trials).items()))


def simulate(
    host_count: int,
    rounds: Sequence[Round],
    *,
    trials: int,
    seed: int = 0,
    fraction: tuple[float, float] = (0.01, 0.05),
    leaf_of: Sequence[int] = (),
) -> Trials:
    """So many trials. Each plants bad hosts and faulty paths, together ``fraction`` of the hosts, one at least.

    Bad paths are planted among the pairs that the scan measures: of a pair that nobody measures nothing is known.
    """
    scan = _Scan(host_count, rounds)
    source = random.Random(seed)
    done = tuple(_trial(scan, source, fraction, leaf_of) for _ in range(trials))
    return Trials(host_count=host_count, scan_rounds=len(rounds), trials=done)


class _Scan:
    """The pairs of a scan, by host, so that a trial looks only at pairs that can be slow."""

    def __init__(self, host_count: int, rounds: Sequence[Round]) -> None:
        self.host_count = host_count
        self.pairs = list(dict.fromkeys(pair for pairs in rounds for pair in pairs))
        self.of_host: dict[int, list[Pair]] = {host: [] for host in range(host_count)}
        for pair in self.pairs:
            for host in pair:
                self.of_host[host].append(pair)
        self.measured = {host: len(pairs) for host, pairs in self.of_host.items()}

    def evidence(self, planted: Planted) -> Evidence:
        evidence = Evidence(host_count=self.host_count)
        slow = {pair for host in planted.hosts for pair in self.of_host[host]} | planted.links
        evidence.add_scan(self.measured, dict.fromkeys(sorted(slow), PairVerdict.SLOW))
        return evidence


def _trial(scan: _Scan, source: random.Random, fraction: tuple[float, float], leaf_of: Sequence[int]) -> Trial:
    planted = _plant(scan, source, max(1, round(source.uniform(*fraction) * scan.host_count)))
    evidence = scan.evidence(planted)
    used = 0
    for pairs in _rounds_until_done(evidence, source, leaf_of):
        evidence.add_tests((pair, planted.outcome(pair)) for pair in pairs)
        used += 1
    found = locate(evidence)
    exact = (
        {fault.hosts[0] for fault in found.hosts} == planted.hosts
        and {fault.hosts for fault in found.links} == planted.links
        and not found.open_pairs
    )
    return Trial(planted=planted, exact=exact, extra_rounds=used)


def _rounds_until_done(evidence: Evidence, source: random.Random, leaf_of: Sequence[int]) -> Iterator[Round]:
    for _ in range(EXTRA_ROUNDS):
        pairs = next_round(evidence, leaf_of=leaf_of, seed=source.randrange(2**31))
        if not pairs:
            return
        yield pairs


def _plant(scan: _Scan, source: random.Random, faults: int) -> Planted:
    host_faults = source.randint(0, faults)
    hosts = frozenset(source.sample(range(scan.host_count), host_faults))
    links: set[Pair] = set()
    for pair in source.sample(scan.pairs, min(len(scan.pairs), 4 * (faults - host_faults) + len(hosts))):
        if len(links) < faults - host_faults and hosts.isdisjoint(pair):
            links.add(pair)
    return Planted(hosts=hosts, links=frozenset(links))
