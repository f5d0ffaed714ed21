"""Rounds of a scope: disjoint, complete, and no more than needed."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raybench.errors import UsageError
from raybench.preflight.fabric.rounds import (
    Round,
    leaf_rounds,
    leaves_by_name,
    leaves_by_size,
    plan_rounds,
    ring_rounds,
    sample_rounds,
)


def assert_disjoint(rounds: tuple[Round, ...], host_count: int) -> None:
    for pairs in rounds:
        hosts = [host for pair in pairs for host in pair]
        assert len(hosts) == len(set(hosts))
        assert all(0 <= one < other < host_count for one, other in pairs)


@pytest.mark.parametrize("host_count", [2, 3, 9, 10, 31, 100, 1000])
def test_all_pairs_take_the_fewest_rounds(host_count: int) -> None:
    rounds = plan_rounds(host_count, "all")
    assert len(rounds) == host_count - 1 + host_count % 2
    assert_disjoint(rounds, host_count)
    assert (
        sum(map(len, rounds)) == len({pair for pairs in rounds for pair in pairs}) == host_count * (host_count - 1) // 2
    )


@pytest.mark.parametrize(("host_count", "rounds"), [(2, 1), (3, 3), (4, 2), (7, 3), (100, 2)])
def test_a_ring_meets_both_neighbours(host_count: int, rounds: int) -> None:
    planned = ring_rounds(host_count)
    assert len(planned) == rounds
    assert_disjoint(planned, host_count)
    neighbours = {tuple(sorted((host, (host + 1) % host_count))) for host in range(host_count)}
    assert {pair for pairs in planned for pair in pairs} == neighbours


@given(st.integers(2, 60), st.integers(1, 8), st.integers(0, 5))
def test_a_sample_measures_everybody_and_no_pair_twice(host_count: int, matchings: int, seed: int) -> None:
    rounds = sample_rounds(host_count, matchings, seed)
    assert_disjoint(rounds, host_count)
    pairs = [pair for round_pairs in rounds for pair in round_pairs]
    assert len(pairs) == len(set(pairs))
    assert {host for pair in pairs for host in pair} == set(range(host_count))
    assert len(rounds) <= matchings + 1


@given(st.lists(st.integers(1, 9), min_size=2, max_size=12))
def test_every_pair_of_leaves_and_every_host_is_covered(sizes: list[int]) -> None:
    leaves, start = [], 0
    for size in sizes:
        leaves.append(range(start, start + size))
        start += size
    leaf_of = [leaf for leaf, hosts in enumerate(leaves) for _ in hosts]
    rounds = leaf_rounds(leaves)
    assert_disjoint(rounds, start)
    met = {tuple(sorted((leaf_of[one], leaf_of[other]))) for pairs in rounds for one, other in pairs}
    assert set(combinations(range(len(leaves)), 2)) <= met
    assert {(leaf, leaf) for leaf, hosts in enumerate(leaves) if len(hosts) > 1} <= met
    assert {host for pairs in rounds for pair in pairs for host in pair} == set(range(start))
    assert len(rounds) <= len(leaves) + 1


@pytest.mark.parametrize(
    ("host_count", "leaf_size", "leaves"), [(1000, 32, 32), (1024, 32, 32), (992, 32, 31), (100, 32, 4)]
)
def test_leaves_of_32_are_covered_in_as_many_rounds_as_leaves(host_count: int, leaf_size: int, leaves: int) -> None:
    groups = leaves_by_size(host_count, leaf_size)
    rounds = plan_rounds(host_count, "sample", leaves=groups)
    assert len(groups) == leaves
    assert len(rounds) <= leaves
    assert_disjoint(rounds, host_count)
    assert min(map(len, rounds)) >= host_count // 2 - leaf_size  # a round keeps nearly every host busy


def test_leaves_by_name_need_a_name_for_every_host() -> None:
    assert leaves_by_name(["a", "b", "a"]) == ((0, 2), (1,))
    assert leaves_by_name(["a", None]) == ()


def test_one_host_is_refused() -> None:
    with pytest.raises(UsageError, match="two hosts"):
        plan_rounds(1, "all")
