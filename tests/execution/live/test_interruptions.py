"""Ranks that are stopped again and again and go on: told by their looks alone, and nobody else is."""

import random
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from raybench.execution.live.interruptions import Interrupted, Interruptions
from raybench.execution.ranks.stopped_looks import LOOKS_PER_SECOND
from tests.execution.live.test_stalls import mark

SECONDS, LOOKS = 30, LOOKS_PER_SECOND
Stopped = Callable[[float], bool]  # at a moment


def told(stopped: Stopped, *, seed: int = 1, moves: Callable[[int], int] = lambda second: second) -> list[Interrupted]:
    """Rank 1 is looked at at uneven moments, rank 0 is never stopped; a mark of both each second."""
    interruptions, draw = Interruptions(), random.Random(seed)
    looks = count = stops = 0
    before, at, found = False, 0.0, []
    for second in range(SECONDS):
        while at < second + 1:
            at += draw.uniform(0.5, 1.5) / LOOKS
            now = stopped(at)
            looks, count, stops = looks + 1, count + now, stops + (now and not before)
            before = now
        one = replace(mark(1, moves(second)), looks=looks, stopped_looks=count, stops=stops)
        found += interruptions.take([replace(mark(0, second), looks=looks), one], second + 1.0)
    return found


def cycle(period: float, share: float, begin: float = 10.0, end: float = 1e9) -> Stopped:
    return lambda at: begin <= at < end and at % period < share * period


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("period", "share"), [(0.03, 0.67), (0.03, 0.5), (0.03, 0.2), (0.1, 0.5), (0.1, 0.9), (0.7, 0.5)]
)
def test_a_rank_that_is_stopped_again_and_again_is_told_within_five_seconds(
    period: float, share: float, seed: int
) -> None:
    (one,) = told(cycle(period, share, end=14.0), seed=seed)[:1]
    assert (one.rank, one.over) == (1, False)
    assert 9.0 <= one.since <= 12.0
    assert 3 <= one.stopped < one.looks


@pytest.mark.parametrize("period", [0.03, 0.7])
def test_it_is_told_when_it_is_over(period: float) -> None:
    begun, over = told(cycle(period, 0.6, end=16.0))
    assert (begun.over, over.over) == (False, True)
    assert over.since == begun.since
    assert over.stopped > begun.stopped
    assert over.stopped / over.looks == pytest.approx(0.6 * 6 / 10, abs=0.15)  # until it was calm for four seconds


@pytest.mark.parametrize(
    "stopped",
    [
        lambda _: False,
        lambda at: 10 <= at < 20,  # it stands still: see stalls.py
        lambda at: 10 <= at < 10.4 or 12 <= at < 13.5,  # a debugger, twice
        lambda at: at % 4 < 0.1,  # its stack is read now and then
    ],
)
def test_what_is_not_told(stopped: Stopped) -> None:
    assert told(stopped) == []


def test_a_rank_that_does_not_go_on_in_between_stands_still() -> None:
    assert told(cycle(0.7, 0.8), moves=lambda second: min(second, 9)) == []
    assert told(cycle(0.7, 0.8)) != []


def test_what_is_not_over_is_there_at_the_end() -> None:
    interruptions = Interruptions()
    for second in range(4):
        one = replace(mark(1, second), looks=10 * second, stopped_looks=5 * second, stops=2 * second)
        list(interruptions.take([one], float(second)))
    assert [(one.rank, one.looks, one.stopped) for one in interruptions.left()] == [(1, 30, 15)]
