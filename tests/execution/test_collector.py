"""Who has measured what: points that count, and what becomes of a plan that broke."""

import dataclasses

import pytest

from raybench.benchmarks.spec import BenchmarkSpec, OwnSpeed, RankSamples
from raybench.execution.collector import Collector
from raybench.execution.event_check import EventError

PLAN = (
    BenchmarkSpec(name="all_reduce", kind="collective", sizes=(8, 1024), reduce_op="sum"),
    BenchmarkSpec(name="p2p_matrix", kind="p2p", sizes=(1024,)),
)


def samples(message_bytes: int = 8, *, wrong: int = 0, pair: tuple[int, int] | None = None) -> RankSamples:
    return RankSamples(
        message_bytes=message_bytes,
        element_count=message_bytes // 4,
        bus_factor=1.0,
        stamps=((0.5, 1.0),) * 5,
        wrong_elements=wrong,
        verified=True,
        contributors=2,
        source_rank=pair[0] if pair else None,
        destination_rank=pair[1] if pair else None,
    )


@pytest.fixture
def collector() -> Collector:
    return Collector(plan=PLAN, world_size=2)


def through(collector: Collector, benchmark: int = 0, sizes: tuple[int, ...] = (8, 1024)) -> None:
    for size in sizes:
        for rank in range(2):
            collector.add(benchmark, rank, samples(size))
    for rank in range(2):
        collector.finish(benchmark, rank, None)


def test_a_point_is_complete_with_its_last_rank_and_not_before(collector: Collector) -> None:
    assert collector.add(0, 1, samples()) is None
    complete = collector.add(0, 0, samples())
    assert complete is not None
    assert sorted(complete) == [0, 1]


def test_points_of_some_ranks_do_not_count(collector: Collector) -> None:
    through(collector, sizes=(8,))
    collector.add(0, 0, samples(1024))
    (result, _) = collector.results(1, "broke")
    assert [point.message_bytes for point in result.points] == [8]


def test_all_through_is_complete_and_says_nothing(collector: Collector) -> None:
    through(collector)
    (result, other) = collector.results(1, None)
    assert (result.status, result.reason, len(result.points)) == ("complete", None, 2)
    assert (other.status, other.kind, other.points) == ("failed", "p2p", ())


def test_what_broke_is_partial_with_points_and_failed_without(collector: Collector) -> None:
    for rank in range(2):
        collector.add(0, rank, samples())
    (first, second) = collector.results(1, "rank 1 died")
    assert (first.status, first.reason) == ("partial", "rank 1 died")
    assert (second.status, second.reason) == ("failed", "rank 1 died")


def test_one_rank_that_is_not_through_is_partial(collector: Collector) -> None:
    through(collector)
    fresh = Collector(plan=PLAN, world_size=2)
    for size in (8, 1024):
        for rank in range(2):
            fresh.add(0, rank, samples(size))
    fresh.finish(0, 0, None)
    assert (collector.results(1, "x")[0].status, fresh.results(1, "x")[0].status) == ("complete", "partial")


def test_launches_are_kept_apart_in_order(collector: Collector) -> None:
    through(collector)
    collector.launch = 1
    assert collector.results(2, "second broke")[0].status == "partial"
    through(collector)
    (result, _) = collector.results(2, None)
    assert result.status == "complete"
    assert [len(point.launches) for point in result.points] == [2, 2]


def test_a_launch_that_broke_leaves_the_points_of_the_one_before(collector: Collector) -> None:
    through(collector)
    collector.launch = 1
    collector.add(0, 0, samples())
    (result, _) = collector.results(2, "second broke")
    assert (result.status, result.reason) == ("partial", "second broke")
    assert [len(point.launches) for point in result.points] == [1, 1]


def test_wrong_elements_fail_a_benchmark_even_if_it_is_through(collector: Collector) -> None:
    for rank in range(2):
        collector.add(0, rank, samples(wrong=3 * rank))
        collector.finish(0, rank, None)
    (result, _) = collector.results(1, None)
    assert (result.status, result.points[0].wrong_elements) == ("failed", 3)
    assert result.reason == "3 elements differ from their exact expected value"


def test_skipped_keeps_its_own_reason_whatever_broke_later(collector: Collector) -> None:
    collector.finish(0, 0, "gloo lacks it")
    collector.finish(0, 1, "gloo lacks it")
    (result, _) = collector.results(1, "rank 1 died")
    assert (result.status, result.reason, result.points) == ("skipped", "gloo lacks it", ())


def test_sizes_that_did_not_fit_are_said_and_missing_where_they_were_asked_for(collector: Collector) -> None:
    through(collector, sizes=(8,))
    (result, _) = collector.results(1, None)
    assert (result.status, result.reason) == ("complete", "1 sizes above 8 did not fit the memory of every rank")
    collector.all_sizes = True
    assert collector.results(1, None)[0].status == "partial"


def test_sizes_that_round_to_the_same_message_leave_nothing_out() -> None:
    spec = BenchmarkSpec(name="all_gather", kind="collective", sizes=(8, 16, 32, 64, 128))
    merged = Collector(plan=(spec,), world_size=16, all_sizes=True)  # 16 floats are the smallest message
    for size in (64, 128):
        for rank in range(16):
            merged.add(0, rank, dataclasses.replace(samples(size), contributors=16))
    for rank in range(16):
        merged.finish(0, rank, None)
    (result,) = merged.results(1, None)
    assert (result.status, result.reason, len(result.points)) == ("complete", None, 2)


def test_pairs_are_points_of_their_own_in_order(collector: Collector) -> None:
    for pair in ((1, 0), (0, 1)):
        for rank in range(2):
            collector.add(1, rank, samples(1024, pair=pair))
    (_, result) = collector.results(1, None)
    assert [(point.source_rank, point.destination_rank) for point in result.points] == [(0, 1), (1, 0)]


def test_own_speed_belongs_to_the_point_that_it_was_timed_beside(collector: Collector) -> None:
    for size in (8, 1024):
        for rank in range(2):
            collector.add(0, rank, samples(size))
            collector.add_own_speed(0, rank, OwnSpeed(message_bytes=size, seconds=(size + rank, size + rank)))
    points = collector.results(1, None)[0].points
    assert [point.own_seconds for point in points] == [((8, 8), (9, 9)), ((1024, 1024), (1025, 1025))]


def test_own_speed_that_some_ranks_lack_counts_for_none(collector: Collector) -> None:
    for launch in range(2):
        collector.launch = launch
        for rank in range(2):
            collector.add(0, rank, samples())
    collector.add_own_speed(0, 0, OwnSpeed(message_bytes=8, seconds=(1.0, 1.0)))  # rank 1 was ended before it had its
    assert collector.results(2, "stopped")[0].points[0].own_seconds == ()
    collector.launch = 0
    for rank in range(2):
        collector.add_own_speed(0, rank, OwnSpeed(message_bytes=8, seconds=(2.0, 3.0)))
    assert collector.results(2, "stopped")[0].points[0].own_seconds == ((2.0, 3.0), (2.0, 3.0))


def test_own_speed_beside_a_size_that_was_not_measured_is_refused(collector: Collector) -> None:
    collector.add(0, 0, samples())
    with pytest.raises(EventError, match="rank 1 timed its own work beside a size"):
        collector.add_own_speed(0, 1, OwnSpeed(message_bytes=8, seconds=(1.0,)))
    with pytest.raises(EventError, match="rank 0 timed its own work beside a size"):
        collector.add_own_speed(0, 0, OwnSpeed(message_bytes=1024, seconds=(1.0,)))
