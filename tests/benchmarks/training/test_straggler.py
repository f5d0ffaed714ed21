"""Who holds up the others: found by own time and waiting, and nobody where ranks are alike."""

import random
from collections.abc import Callable

import pytest

from raybench.benchmarks.training.straggler import LEAST_STEPS, stragglers, undecided
from tests.measurements.straggler_detection import Trial, named, named_among_shards

Times = dict[int, list[float]]
Pieces = dict[int, list[list[float]]]


def steps(
    slow: float = 0.0, *, ranks: int = 4, count: int = 60, spread: float = 0.01, seed: int = 1, slow_rank: int = 2
) -> tuple[Times, Times]:
    """Own and waiting seconds of simulated ranks: each waits for the slowest, then for the network."""
    source = random.Random(seed)
    own: Times = {rank: [] for rank in range(ranks)}
    wait: Times = {rank: [] for rank in range(ranks)}
    for _ in range(count):
        times = [0.05 * (1 + slow * (rank == slow_rank)) * source.gauss(1, spread) for rank in range(ranks)]
        for rank, seconds in enumerate(times):
            own[rank].append(seconds)
            wait[rank].append(max(times) - seconds + 0.003 * source.gauss(1, 0.1))
    return own, wait


@pytest.mark.parametrize("ranks", [3, 4, 8])
def test_two_percent_are_named(ranks: int) -> None:
    found = [stragglers(*steps(0.02, ranks=ranks, seed=seed)) for seed in range(20)]
    assert [[one.rank for one in trial] for trial in found] == [[2]] * 20
    assert all(trial[0].excess == pytest.approx(0.02, abs=0.01) for trial in found)


@pytest.mark.parametrize("ranks", [3, 4, 8])
def test_nobody_is_named_in_clean_runs(ranks: int) -> None:
    assert [seed for seed in range(200) if stragglers(*steps(ranks=ranks, seed=seed))] == []


def stall(own: Times, wait: Times) -> None:
    """One rank is three times slower in a tenth of the steps."""
    for step in range(0, 60, 10):
        own[2][step] *= 3


def late_trouble(own: Times, wait: Times) -> None:
    """One rank is slower for the last quarter alone."""
    own[2][45:] = [seconds * 1.05 for seconds in own[2][45:]]


def slow_but_waiting(own: Times, wait: Times) -> None:
    """A rank with more work that waits longer all the same does not hold up anybody."""
    own[2] = [seconds * 1.02 for seconds in own[2]]
    wait[2] = [seconds + 0.01 for seconds in wait[2]]


@pytest.mark.parametrize("trouble", [stall, late_trouble, slow_but_waiting])
def test_other_troubles_are_no_stragglers(trouble: Callable[[Times, Times], None]) -> None:
    own, wait = steps()
    trouble(own, wait)
    assert stragglers(own, wait) == ()


def held(own: Times, slow: int, factor: float, which: Callable[[int], bool]) -> Times:
    """Of one rank, some steps so many times as long."""
    longer = [seconds * (factor if which(step) else 1.0) for step, seconds in enumerate(own[slow])]
    return own | {slow: longer}


def waits_of(own: Times) -> Times:
    slowest = [max(row) for row in zip(*own.values(), strict=True)]
    return {
        rank: [most - mine + 0.003 for mine, most in zip(values, slowest, strict=True)] for rank, values in own.items()
    }


def test_a_rank_that_is_held_in_a_fifth_of_its_steps_is_named_by_their_mean() -> None:
    """As a quota on processors does: four of five steps are as quick as the others'."""
    for seed in range(20):
        own = held(steps(count=200, seed=seed)[0], 2, 5.0, lambda step: step % 5 == 3)
        (found,) = stragglers(own, waits_of(own))
        assert found.rank == 2
        assert found.excess == pytest.approx(0.8, abs=0.1)


@pytest.mark.parametrize(
    "which",
    [
        lambda step: step == 77,
        lambda step: 100 <= step < 150,  # a quarter of the steps
        lambda step: step % 20 == 3 and step > 120,
    ],
)
def test_a_rank_that_is_held_in_some_of_its_steps_is_no_straggler(which: Callable[[int], bool]) -> None:
    own = held(steps(count=200)[0], 2, 40.0, which)
    assert stragglers(own, waits_of(own)) == ()


def test_clocks_that_stand_still_name_nobody() -> None:
    zeros = {rank: [0.0] * 60 for rank in range(4)}
    assert stragglers(zeros, zeros) == ()


def disturbed(slow: float, *, ranks: int = 4, count: int = 60, seed: int = 1) -> tuple[Times, Times, Pieces]:
    """Ten pieces of a step of 60 ms, each held up by other processes in half of the steps, for 1 ms in the mean."""
    source = random.Random(seed)
    pieces: Pieces = {rank: [] for rank in range(ranks)}
    for _ in range(count):
        for rank, steps_of_rank in pieces.items():
            work = [0.006 * (1 + slow * (rank == 2)) * source.gauss(1, 0.005) for _ in range(10)]
            steps_of_rank.append([one + (source.random() < 0.5) * source.expovariate(1e3) for one in work])
    own = {rank: [sum(step) for step in steps_of_rank] for rank, steps_of_rank in pieces.items()}
    wait = {rank: [0.08 - seconds for seconds in values] for rank, values in own.items()}
    return own, wait, pieces


@pytest.mark.parametrize("ranks", [4, 8])
def test_two_percent_are_named_among_disturbed_ranks(ranks: int) -> None:
    """By the undisturbed pieces: whole steps do not show it."""
    found = [stragglers(*disturbed(0.02, ranks=ranks, seed=seed)) for seed in range(20)]
    assert [[one.rank for one in trial] for trial in found] == [[2]] * 20
    whole = [stragglers(*disturbed(0.02, ranks=ranks, seed=seed)[:2]) for seed in range(20)]
    assert sum(bool(trial) for trial in whole) < 15


@pytest.mark.parametrize("ranks", [3, 4, 8])
def test_nobody_is_named_among_disturbed_ranks(ranks: int) -> None:
    assert [seed for seed in range(50) if stragglers(*disturbed(0.0, ranks=ranks, seed=seed))] == []


def test_what_hits_a_third_of_the_steps_is_not_in_the_undisturbed_ones() -> None:
    own, wait, pieces = disturbed(0.0)
    for step in range(0, 60, 3):
        pieces[1][step] = [seconds + 0.002 for seconds in pieces[1][step]]
    assert stragglers(own, wait, pieces) == ()


def test_a_rank_that_waits_longer_is_no_straggler_whatever_its_pieces_say() -> None:
    own, wait, pieces = disturbed(0.02)
    wait[2] = [seconds + 0.005 for seconds in wait[2]]
    assert stragglers(own, wait, pieces) == ()


def test_too_few_ranks_or_steps_name_nobody() -> None:
    assert stragglers(*steps(0.5, ranks=2, slow_rank=1)) == ()
    assert stragglers(*steps(0.5, count=LEAST_STEPS - 1)) == ()
    assert stragglers({}, {}) == ()


@pytest.mark.alone
def test_a_real_slow_rank_is_named() -> None:
    found = named(4, Trial(steps=60, slow_rank=1, slow=0.2, seed=3, compute_seconds=0.03))
    assert [one.rank for one in found] == [1]


@pytest.mark.long  # every day one whose update is late: tests/benchmarks/training/test_training.py
def test_a_real_slow_rank_among_shards_is_named() -> None:
    found = named_among_shards(4, Trial(steps=30, slow_rank=1, slow=0.3, seed=3, compute_seconds=0.06))
    assert [one.rank for one in found] == [1]


def interrupted(own: Times, wait: Times, rank: int = 2, *, until: int = 60) -> None:
    """It stands still for two steps' time in every third step: the median of its steps is that of the others."""
    for step in range(0, until, 3):
        own[rank][step] += 0.1
        for other in own:
            wait[other][step] += 0.1 * (other != rank)


@pytest.mark.parametrize("ranks", [3, 4, 10])
def test_a_rank_that_stands_still_again_and_again_is_named_by_its_mean(ranks: int) -> None:
    for seed in range(20):
        own, wait = steps(ranks=ranks, spread=0.05, seed=seed)
        interrupted(own, wait)
        (found,) = stragglers(own, wait)
        assert (found.rank, found.excess) == (2, pytest.approx(0.67, abs=0.1))


def test_a_rank_that_stood_still_in_the_first_half_alone_is_not_named() -> None:
    own, wait = steps()
    interrupted(own, wait, until=30)
    assert stragglers(own, wait) == ()


def test_among_ranks_that_all_stand_still_at_random_nobody_is_named() -> None:
    for seed in range(50):
        source = random.Random(seed)
        own, wait = steps(ranks=10, seed=seed)
        for values in own.values():
            values[:] = [one + source.expovariate(20) * (source.random() < 0.3) for one in values]
        assert (stragglers(own, wait), undecided(own)) == ((), None)
