"""Samples of all ranks to one point: by hand, and what must hold whatever the stamps."""

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raybench.benchmarks.messages.combine import operation_seconds, point_of
from raybench.benchmarks.spec import RankSamples


def samples(stamps: tuple[tuple[float, ...], ...], **changes: object) -> RankSamples:
    values: dict[str, object] = {
        "message_bytes": 1000, "element_count": 250, "bus_factor": 1.5, "stamps": stamps, "wrong_elements": 0,
        "verified": True, "contributors": 2,
    }  # fmt: skip
    return RankSamples(**(values | changes))


def test_the_slowest_rank_decides_when_an_operation_is_over() -> None:
    assert operation_seconds([(1.0, 2.0, 5.0), (1.5, 1.75, 4.0)]) == (1.5, 0.5, 3.0)


def test_waiting_for_a_late_partner_is_not_counted_twice() -> None:
    """Rank 1 is late at first, rank 0 at second: the maxima of their own times would add up to 3.0."""
    assert operation_seconds([(1.0, 2.5), (1.5, 2.0)]) == (1.5, 1.0)


def test_one_rank_is_its_own_slowest_and_no_iteration_is_no_time() -> None:
    assert operation_seconds([(0.5, 0.75)]) == (0.5, 0.25)
    assert operation_seconds([(), ()]) == ()


def test_ranks_with_different_numbers_of_iterations_are_an_error() -> None:
    with pytest.raises(ValueError, match="argument 2"):
        operation_seconds([(1.0, 2.0), (1.0,)])


@given(st.integers(1, 20), st.integers(1, 6), st.data())
def test_times_are_positive_and_add_up_to_the_block(iterations: int, ranks: int, data: st.DataObject) -> None:
    step = st.lists(st.floats(1e-6, 1.0), min_size=iterations, max_size=iterations)
    stamps = [tuple(accumulate(data.draw(step))) for _ in range(ranks)]
    seconds = operation_seconds(stamps)
    assert len(seconds) == iterations
    assert all(one > 0 for one in seconds)
    assert sum(seconds) == pytest.approx(max(block[-1] for block in stamps))


def test_a_point_keeps_launches_blocks_and_each_ranks_own_mean() -> None:
    first = {1: samples(((1.0, 2.0), (3.0, 4.0))), 0: samples(((2.0, 3.0), (1.0, 5.0)))}
    second = {0: samples(((1.0, 2.0),)), 1: samples(((1.0, 3.0),))}
    point = point_of([first, second])
    assert point.launches == (((2.0, 1.0), (3.0, 2.0)), ((1.0, 2.0),))
    assert point.rank_seconds == ((3.0 + 5.0 + 2.0) / 6, (2.0 + 4.0 + 3.0) / 6)
    assert point.slowest_rank == 0
    assert (point.message_bytes, point.element_count, point.bus_factor) == (1000, 250, 1.5)
    assert (point.verified, point.wrong_elements, point.wrong_by_rank, point.ranks) == (True, 0, {}, ())


def test_wrong_elements_are_added_over_launches_and_kept_by_rank() -> None:
    good, bad = samples(((1.0,),)), samples(((1.0,),), wrong_elements=3)
    point = point_of([{0: good, 1: bad}, {0: good, 1: bad}])
    assert (point.wrong_elements, point.wrong_by_rank, point.verified) == (6, {1: 6}, False)


def test_what_was_not_checked_is_not_called_verified() -> None:
    unchecked = samples(((1.0,),), verified=False)
    assert point_of([{0: unchecked, 1: unchecked}]).verified is None
    assert point_of([{0: samples(((1.0,),)), 1: unchecked}]).verified is None


def test_a_pair_names_its_ranks() -> None:
    pair = samples(((1.0,),), source_rank=5, destination_rank=2)
    slow = samples(((2.0,),), source_rank=5, destination_rank=2)
    point = point_of([{5: slow, 2: pair}])
    assert (point.ranks, point.rank_seconds, point.slowest_rank) == ((2, 5), (1.0, 2.0), 5)
    assert (point.source_rank, point.destination_rank) == (5, 2)


def test_different_messages_are_not_one_point() -> None:
    with pytest.raises(ValueError, match="different message sizes"):
        point_of([{0: samples(((1.0,),)), 1: samples(((1.0,),), message_bytes=2000)}])
