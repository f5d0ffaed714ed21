"""Rounds of pairs, against what a round-robin tournament must be."""

from itertools import combinations

import pytest

from raybench.rounds import disjoint_rounds


@pytest.mark.parametrize("count", range(13))
def test_every_pair_meets_once_in_the_fewest_rounds_and_nobody_twice_in_one(count: int) -> None:
    rounds = disjoint_rounds(count)
    met = [pair for pairs in rounds for pair in pairs]
    assert sorted(met) == sorted(combinations(range(count), 2))
    for pairs in rounds:
        taking_part = [one for pair in pairs for one in pair]
        assert len(taking_part) == len(set(taking_part))
    if count >= 2:
        assert len(rounds) == (count - 1 if count % 2 == 0 else count)
