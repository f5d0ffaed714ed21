"""Which ranks are slower than the others now: the slow one by its own work, nobody where that is noise."""

import random
from collections.abc import Callable

import pytest

from raybench.execution.live.slow_ranks import Slow, SlowRanks

RANKS, POINTS, SAMPLES, SECONDS = 4, 40, 3, 0.001
Slowness = Callable[[random.Random, int, int, int], float]


def told(
    slowness: Slowness, *, ranks: int = RANKS, seed: int = 1, emulated: bool = True, samples: int = SAMPLES
) -> list[tuple[int, Slow]]:
    """What is told after which point; ``slowness(draw, rank, point, sample)``: of one sample."""
    slow_ranks, draw = SlowRanks(world_size=ranks, emulated=emulated), random.Random(seed)
    found = []
    for point in range(POINTS):
        for rank in range(ranks):
            seconds = [SECONDS * slowness(draw, rank, point, one) for one in range(samples)]
            found += [(point, one) for one in slow_ranks.take(rank, seconds, float(point))]
    return found


def noise(draw: random.Random) -> float:
    """Of a shared machine: a few per cent, and now and then a stall."""
    return draw.uniform(0.97, 1.05) + (draw.uniform(0.5, 5.0) if draw.random() < 0.05 else 0.0)


def test_a_rank_that_becomes_slow_is_named_within_a_few_points_and_once() -> None:
    found = told(lambda draw, rank, point, _: draw.uniform(0.98, 1.02) * (2.0 if rank == 2 and point >= 20 else 1.0))
    ((point, slow),) = found
    assert slow.found.rank == 2
    assert slow.found.share.value == pytest.approx(0.5, abs=0.02)
    assert 20 < point <= 25
    assert 18 <= slow.since_seconds <= 21


def test_a_rank_that_is_stopped_half_of_the_time_is_named() -> None:
    found = told(lambda draw, rank, point, _: 4.0 if rank == 1 and point >= 10 and draw.random() < 0.5 else noise(draw))
    assert [(one.found.rank, one.over) for _, one in found] == [(1, False)]


def test_a_rank_that_recovers_is_told_not_to_be_slow_any_more() -> None:
    found = told(lambda draw, rank, point, _: draw.uniform(0.98, 1.02) * (2.0 if rank == 3 and 5 <= point < 15 else 1))
    assert [(one.found.rank, one.over) for _, one in found] == [(3, False), (3, True)]


@pytest.mark.parametrize("seed", range(20))
def test_noise_and_one_slow_sample_name_nobody(seed: int) -> None:
    assert told(lambda draw, *_: noise(draw), seed=seed) == []
    assert told(lambda draw, *_: noise(draw), seed=seed, emulated=False) == []
    assert told(lambda draw, *_: noise(draw), seed=seed, samples=5) == []


@pytest.mark.parametrize("samples", [1, 3, 5, 10, 20])
def test_a_stall_of_one_point_names_nobody(samples: int) -> None:
    def stall(draw: random.Random, rank: int, point: int, _: int) -> float:
        return draw.uniform(0.98, 1.02) * (20 if (rank, point) == (1, 20) else 1)

    assert told(stall, samples=samples) == []


def test_ranks_that_are_all_slower_than_before_are_alike() -> None:
    assert told(lambda draw, _, point, __: draw.uniform(0.98, 1.02) * (3 if point >= 20 else 1)) == []


def test_nobody_is_judged_before_all_ranks_have_told() -> None:
    slow_ranks = SlowRanks(world_size=3, emulated=True)
    for point in range(30):
        for rank in range(2):
            assert slow_ranks.take(rank, [SECONDS * (1 + 5 * rank)] * SAMPLES, float(point)) == []


def test_points_of_a_node_that_was_not_heard_for_long_are_compared_with_those_of_the_same_time() -> None:
    slow_ranks = SlowRanks(world_size=2, emulated=False)
    both = [[SECONDS * (1.0 if point < 70 else 2.0)] * SAMPLES for point in range(130)]  # each as slow as the other
    found = [
        one for rank in (0, 1) for point, seconds in enumerate(both) for one in slow_ranks.take(rank, seconds, point)
    ]
    assert found == []
