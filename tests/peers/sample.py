"""Matrices and ranks' own times with planted faults, from seeded random numbers."""

import random
from collections.abc import Callable

from raybench.documents.run.point import Point
from raybench.rounds import disjoint_rounds
from tests.reports.sample import point

WITHIN, BETWEEN = 200.0, 24.0  # GB/s
MESSAGE = 2**22
Pair = tuple[int, int]


def matrix(
    nodes: int,
    per_node: int,
    share: Callable[[Pair], float] = lambda _: 1.0,
    *,
    noise: float = 0.02,
    common: float = 0.0,
    stall: Callable[[Pair], float] = lambda _: 0.0,
    seed: int = 0,
    block_count: int = 5,
) -> list[Point]:
    """Pairs of ranks, blocks of 10 operations; ``share(pair)`` of the healthy bandwidth.

    ``noise`` of a pair, of a block and of an operation each; ``common``: of whatever else is measured at the time.
    ``stall(pair)``: seconds that one operation of each block takes longer.
    """
    source, points = random.Random(seed), []
    for pairs in disjoint_rounds(nodes * per_node):
        for forward in (True, False):
            busy = [source.lognormvariate(0, common) for _ in range(block_count)]
            for pair in pairs if forward else [(other, one) for one, other in pairs]:
                healthy = WITHIN if pair[0] // per_node == pair[1] // per_node else BETWEEN
                seconds = MESSAGE / healthy / share(pair) / 1e9 * source.lognormvariate(0, noise / 2)
                blocks = [[seconds * slow * block * source.lognormvariate(0, noise) for _ in range(10)]
                          for slow in busy for block in [source.lognormvariate(0, noise)]]  # fmt: skip
                for one in blocks:
                    one[5] += stall(pair)
                ends = {"source_rank": pair[0], "destination_rank": pair[1]}
                points.append(point(MESSAGE, samples=(tuple(map(tuple, blocks)),), **ends))
    return points


def own_times(
    ranks: int, slow: dict[int, float] | None = None, *, noise: float = 0.1, count: int = 60, seed: int = 0
) -> dict[int, list[float]]:
    """Seconds of a rank's own work, 10 ms each; a slow rank runs that share of every 100 ms, as one that is stopped."""
    source, times = random.Random(seed), {}
    for rank in range(ranks):
        runs, now, times[rank] = 0.1 * (slow or {}).get(rank, 1.0), 0.0, []
        for _ in range(count):
            now += source.uniform(0.005, 0.03)  # the others, and what is measured beside it
            now = now if now % 0.1 < runs else (now // 0.1 + 1) * 0.1  # it leaves the barrier once it runs
            begun, left = now, 0.01 * source.lognormvariate(0, noise)
            while left > runs - now % 0.1 + 1e-9 and runs < 0.1:
                left -= runs - now % 0.1
                now = (now // 0.1 + 1 + 1e-6) * 0.1
            now += left
            times[rank].append(now - begun)
    return times
