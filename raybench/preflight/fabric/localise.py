"""From slow pairs to what is at fault: further rounds against hosts that are proven good, then the verdict. Pure.

A pair is slow because of its one end, its other end, both, or the path between them. A test that is good proves both of
its ends. So each suspect is measured with a proven host; where that is slow too, with a different one, and only then is
the host named. Where both ends turn out good, the path is measured once more and named if it is still slow.
Software devices share processors with whatever else runs: there each bad pair has to be bad again before it counts.
"""

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from raybench.preflight.fabric.evidence import Evidence, PairVerdict, Standing, other_end, standing
from raybench.preflight.fabric.rounds import Pair, Round

CONFIRMATIONS = 2  # proven hosts against which a host must be slow before it is named
COMMON_LINKS = 3  # a host that has so many faulty paths, more than half of those measured, is what they have in common


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A host or a pair that is at fault. ``partners`` are the proven hosts against which it showed."""

    hosts: tuple[int, ...]  # one: the host; two: the path between them
    outcome: PairVerdict
    partners: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """What the evidence says.

    ``common``: hosts that are good with some partners and bad with most, which several of the ``links`` have in common.
    ``open_pairs`` are not good and not explained; ``passed``: bad once, good when repeated.
    """

    hosts: tuple[Fault, ...]
    links: tuple[Fault, ...]
    common: tuple[Fault, ...]
    open_pairs: tuple[Pair, ...]
    passed: tuple[Pair, ...]


def next_round(
    evidence: Evidence, *, leaf_of: Sequence[int] = (), absent: Collection[int] = (), seed: int = 0
) -> Round:
    """Disjoint pairs to measure next; () when more tests would tell nothing more.

    Pairs that were not bad often enough to count come first, where that is asked for (``Evidence.repeats``). Then
    suspects, those that lack one confirmation before those that lack two; each gets a proven partner that it has not
    met, of its own leaf where leaves are known, so that a faulty path between leaves is not taken for a bad host.
    ``absent`` hosts are not measured any more.
    """
    now = standing(evidence)
    chooser = _Chooser(evidence, now, leaf_of, set(absent), random.Random(seed))
    return chooser.doubtful() + chooser.suspects() + chooser.links()


class _Chooser:
    """One round in the making: who is still free."""

    def __init__(
        self, evidence: Evidence, now: Standing, leaf_of: Sequence[int], busy: set[int], source: random.Random
    ) -> None:
        self._evidence, self._now, self._leaf_of, self._busy = evidence, now, leaf_of, busy
        self._open_links = [pair for pair in now.persistent if _is_open_link(pair, now)]
        wanted = {host for pair in self._open_links for host in pair}
        healthy = sorted(now.proven, key=lambda host: (host in wanted, source.random()))
        self._healthy: dict[int, list[int]] = {}
        for host in healthy:
            self._healthy.setdefault(self._leaf(host), []).append(host)

    def doubtful(self) -> Round:
        return self._free(self._now.doubtful)

    def suspects(self) -> Round:
        against = self._now.against
        lacking = [host for host in against if len(against[host]) < CONFIRMATIONS and host not in self._busy]
        pairs = []
        for host in sorted(lacking, key=lambda host: (-len(against[host]), host)):
            partner = self._partner(host)
            if partner is not None:
                self._busy |= {host, partner}
                pairs.append((min(host, partner), max(host, partner)))
        return tuple(pairs)

    def links(self) -> Round:
        return self._free(self._open_links)

    def _free(self, wanted: Sequence[Pair]) -> Round:
        """Of the pairs those whose hosts have nothing to do yet in this round."""
        pairs = []
        for pair in wanted:
            if self._busy.isdisjoint(pair):
                self._busy |= set(pair)
                pairs.append(pair)
        return tuple(pairs)

    def _leaf(self, host: int) -> int:
        return self._leaf_of[host] if self._leaf_of else 0

    def _partner(self, host: int) -> int | None:
        own = self._leaf(host)
        for leaf in (own, *(leaf for leaf in self._healthy if leaf != own)):
            for other in self._healthy.get(leaf, ()):
                pair = (min(host, other), max(host, other))
                if other not in self._busy and pair not in self._evidence.bad and pair not in self._evidence.met:
                    return other
        return None


def _is_open_link(pair: Pair, now: Standing) -> bool:
    """Whether both ends are good, so that it must be the path, and it was measured only once."""
    return len(now.persistent[pair]) < 2 and now.proven.issuperset(pair)


def locate(evidence: Evidence) -> Location:
    """The verdict on hosts and paths, as far as the tests so far carry it."""
    now = standing(evidence)
    hosts = [
        Fault(hosts=(host,), outcome=_outcome(now, host), partners=tuple(sorted(found)))
        for host, found in now.against.items()
        if len(found) >= CONFIRMATIONS
    ]
    named = {fault.hosts[0] for fault in hosts}
    rest = {pair: outcomes for pair, outcomes in now.persistent.items() if named.isdisjoint(pair)}
    links = [
        Fault(hosts=pair, outcome=_worst(outcomes))
        for pair, outcomes in rest.items()
        if len(outcomes) > 1 and now.proven.issuperset(pair) and pair not in now.doubtful
    ]
    confirmed = {fault.hosts for fault in links}
    return Location(
        hosts=tuple(sorted(hosts, key=lambda fault: fault.hosts)),
        links=tuple(sorted(links, key=lambda fault: fault.hosts)),
        common=_common_hosts(evidence, [fault.hosts for fault in links], named),
        open_pairs=tuple(sorted(pair for pair in rest if pair not in confirmed)),
        passed=tuple(sorted(evidence.bad.keys() - now.persistent.keys())),
    )


def _outcome(now: Standing, host: int) -> PairVerdict:
    """SLOW where any test of the host with a proven partner gave a figure, else FAILED."""
    outcomes = [
        outcome
        for pair, found in now.persistent.items()
        if host in pair and other_end(pair, host) in now.proven
        for outcome in found
    ]
    return PairVerdict.SLOW if PairVerdict.SLOW in outcomes else PairVerdict.FAILED


def _worst(outcomes: Sequence[PairVerdict]) -> PairVerdict:
    return PairVerdict.SLOW if PairVerdict.SLOW in outcomes else PairVerdict.FAILED


def _common_hosts(evidence: Evidence, links: Sequence[Sequence[int]], named: set[int]) -> tuple[Fault, ...]:
    """Hosts that most of their measured paths are bad of. Of two that blame each other, the one with more of them."""
    partners: dict[int, set[int]] = {}
    for one, other in links:
        partners.setdefault(one, set()).add(other)
        partners.setdefault(other, set()).add(one)
    with_named = dict.fromkeys(partners, 0)
    for pair in evidence.bad:
        for host in pair:
            if host in with_named and other_end(pair, host) in named:
                with_named[host] += 1
    found = {
        host: others
        for host, others in partners.items()
        if len(others) >= COMMON_LINKS and 2 * len(others) > evidence.partners.get(host, 0) - with_named[host]
    }
    return tuple(
        Fault(hosts=(host,), outcome=PairVerdict.SLOW, partners=tuple(sorted(others)))
        for host, others in sorted(found.items())
        if all(len(found.get(other, ())) < len(others) for other in others)
    )


def leaf_faults(links: Sequence[Pair], measured: Mapping[Pair, int], leaf_of: Sequence[int]) -> tuple[Pair, ...]:
    """Pairs of leaves all of whose measured paths are bad, two at least: the fault is between the leaves.

    ``links``: faulty paths between good hosts; ``measured[(leaf, leaf)]``: how many pairs of hosts were measured
    between.
    """
    bad: dict[Pair, int] = {}
    for one, other in links:
        key = (min(leaf_of[one], leaf_of[other]), max(leaf_of[one], leaf_of[other]))
        bad[key] = bad.get(key, 0) + 1
    return tuple(sorted(key for key, number in bad.items() if key[0] != key[1] and 2 <= number == measured.get(key)))
