"""Which hosts are measured with which, in rounds of disjoint pairs. Hosts are indices; leaves are lists of indices."""

import random
from collections.abc import Sequence
from itertools import count
from typing import Literal, get_args

from raybench.errors import UsageError
from raybench.rounds import disjoint_rounds

Scope = Literal["ring", "sample", "rails", "all"]
SCOPES: tuple[str, ...] = get_args(Scope)
Pair = tuple[int, int]
Round = tuple[Pair, ...]

SAMPLE_MATCHINGS = 4


def plan_rounds(
    host_count: int,
    scope: Scope,
    *,
    leaves: Sequence[Sequence[int]] = (),
    matchings: int = SAMPLE_MATCHINGS,
    seed: int = 0,
) -> tuple[Round, ...]:
    """The rounds of a scope. Each pair is (lower, higher); in a round each host takes part at most once.

    ``all``: every pair, in N - 1 rounds (N odd: N). ``ring`` and ``rails``: each host with its two neighbours.
    ``sample``: every pair of leaves where leaves are known, else ``matchings`` random matchings.
    Raises UsageError below two hosts.
    """
    if host_count < 2:
        raise UsageError(f"a fabric test needs at least two hosts that answer; there is {host_count}")
    if scope == "all":
        return disjoint_rounds(host_count)
    if scope in {"ring", "rails"}:
        return ring_rounds(host_count)
    if len(leaves) > 1:
        return leaf_rounds(leaves)
    return sample_rounds(host_count, matchings, seed)


def ring_rounds(host_count: int) -> tuple[Round, ...]:
    """Each host with its neighbours: two rounds, three where the number of hosts is odd, one for two hosts."""
    ring = [_ordered(host, (host + 1) % host_count) for host in range(host_count)]
    if host_count == 2:
        return ((ring[0],),)
    if host_count % 2 == 0:
        return (tuple(ring[::2]), tuple(ring[1::2]))
    return (tuple(ring[:-1:2]), tuple(ring[1:-1:2]), (ring[-1],))


def sample_rounds(host_count: int, matchings: int, seed: int) -> tuple[Round, ...]:
    """So many random matchings, no pair twice: rounds of the circle method over shuffled hosts. N odd: one more.

    The further matching lets the host that sits out of a single one take part.
    """
    shuffled = list(range(host_count))
    random.Random(seed).shuffle(shuffled)
    wanted = max(1, matchings) + (host_count % 2 if matchings == 1 else 0)
    chosen = disjoint_rounds(host_count)[:wanted]
    return tuple(tuple(_ordered(shuffled[a], shuffled[b]) for a, b in pairs) for pairs in chosen)


def leaf_rounds(leaves: Sequence[Sequence[int]]) -> tuple[Round, ...]:
    """Every pair of leaves and every leaf within itself, in L rounds for L leaves.

    A tournament of leaves by the circle method: L - 1 rounds where L is even, and one in which each leaf pairs its own
    hosts; L rounds where L is odd, in each of which the leaf that sits out pairs its own. Two leaves that meet
    pair as many hosts as the smaller has, other hosts at each meeting, and what is left of the larger pairs among
    itself. A host that would take part in none (a leaf of odd size alone) is added in one more round.
    """
    tournament = disjoint_rounds(len(leaves))
    rounds = [_leaf_round(leaves, meetings, number) for number, meetings in enumerate(tournament)]
    if len(leaves) % 2 == 0:
        rounds.append(_leaf_round(leaves, (), len(rounds)))
    done = {host for pairs in rounds for pair in pairs for host in pair}
    missing = [host for leaf in leaves for host in leaf if host not in done]
    partners = (host for leaf in leaves for host in leaf if host in done)
    extra = tuple(_ordered(host, partner) for host, partner in zip(missing, partners, strict=False))
    return tuple(rounds) + ((extra,) if extra else ())


def _leaf_round(leaves: Sequence[Sequence[int]], meetings: Sequence[Pair], number: int) -> Round:
    pairs: list[Pair] = []
    left_over = {leaf: list(hosts) for leaf, hosts in enumerate(leaves)}
    for one, other in meetings:
        small, large = sorted((one, other), key=lambda leaf: len(leaves[leaf]))
        unequal = len(leaves[small]) < len(leaves[large])
        turned = _turned(leaves[large], number * len(leaves[small]) if unequal else number)
        pairs += [_ordered(a, b) for a, b in zip(leaves[small], turned, strict=False)]
        left_over[small] = []
        left_over[large] = list(turned[len(leaves[small]) :])
    for hosts in left_over.values():
        turned = _turned(hosts, number)
        pairs += [_ordered(a, b) for a, b in zip(turned[::2], turned[1::2], strict=False)]
    return _without_repeats(pairs)


def _turned(hosts: Sequence[int], steps: int) -> Sequence[int]:
    cut = steps % len(hosts) if hosts else 0
    return [*hosts[cut:], *hosts[:cut]]


def _without_repeats(pairs: Sequence[Pair]) -> Round:
    return tuple(dict.fromkeys(pairs))


def leaves_by_size(host_count: int, leaf_size: int) -> tuple[tuple[int, ...], ...]:
    """Leaves of so many hosts each, in order; the last one may be smaller. Raises UsageError below one."""
    if leaf_size < 1:
        raise UsageError(f"a leaf holds at least one host, not {leaf_size}")
    starts = range(0, host_count, leaf_size)
    return tuple(tuple(range(start, min(host_count, start + leaf_size))) for start in starts)


def leaves_by_name(names: Sequence[str | None]) -> tuple[tuple[int, ...], ...]:
    """Leaves from the name of each host's leaf switch, in order of appearance; () unless every host has one."""
    if not names or any(name is None for name in names):
        return ()
    groups: dict[str, list[int]] = {}
    for host, name in zip(count(), names, strict=False):
        groups.setdefault(str(name), []).append(host)
    return tuple(map(tuple, groups.values()))


def _ordered(one: int, other: int) -> Pair:
    return (one, other) if one < other else (other, one)
