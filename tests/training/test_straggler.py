"""Who holds up the others: found by own time and waiting, and nobody where ranks are alike."""

import random
from collections.abc import Callable

import pytest

from raybench.benchmarks.training.straggler import LEAST_STEPS, stragglers
from tests.benchmarks.straggler import Trial, named

Times = dict[int, list[float]]


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


def test_too_few_ranks_or_steps_name_nobody() -> None:
    assert stragglers(*steps(0.5, ranks=2, slow_rank=1)) == ()
    assert stragglers(*steps(0.5, count=LEAST_STEPS - 1)) == ()
    assert stragglers({}, {}) == ()


@pytest.mark.alone
def test_a_real_slow_rank_is_named() -> None:
    found = named(4, Trial(steps=60, slow_rank=1, slow=0.2, seed=3, compute_seconds=0.03))
    assert [one.rank for one in found] == [1]
