"""When points were measured: from the moments at which ranks say what they have done."""

from raybench.benchmarks.events import BenchmarkFinished, BenchmarkStarted, OwnSpeedMeasured, PointMeasured
from raybench.benchmarks.spec import BenchmarkSpec, OwnSpeed, RankSamples
from raybench.execution.collector import Collector
from raybench.execution.point_times import PointTimes

SPEC = BenchmarkSpec(name="all_reduce", kind="collective", sizes=(1024, 4096))


def measured(rank: int, size: int) -> PointMeasured:
    samples = RankSamples(
        message_bytes=size,
        element_count=size // 4,
        bus_factor=1.0,
        stamps=((0.1, 0.2),),
        wrong_elements=0,
        verified=True,
        contributors=2,
    )
    return PointMeasured(rank=rank, benchmark=0, samples=samples)


def test_a_point_begins_with_the_first_of_its_ranks_and_ends_with_the_last() -> None:
    collector = Collector(plan=(SPEC,), world_size=2)
    own = OwnSpeed(message_bytes=1024, seconds=(0.1,))
    events = [
        (5.0, BenchmarkStarted(rank=0, benchmark=0)),
        (5.2, BenchmarkStarted(rank=1, benchmark=0)),
        (7.0, measured(0, 1024)),
        (7.4, measured(1, 1024)),
        (8.0, OwnSpeedMeasured(rank=0, benchmark=0, speed=own)),
        (8.1, OwnSpeedMeasured(rank=1, benchmark=0, speed=own)),
        (9.0, measured(1, 4096)),
        (9.5, measured(0, 4096)),
        (9.6, BenchmarkFinished(rank=0, benchmark=0)),
        (9.7, BenchmarkFinished(rank=1, benchmark=0)),
    ]
    for seconds, event in events:
        collector.take(0, event, seconds)
    (result,) = collector.results(1, None)
    spans = [(time.message_bytes, time.launch, time.begin_seconds, time.end_seconds) for time in result.times]
    assert spans == [(1024, 0, 5.0, 7.4), (4096, 0, 8.0, 9.5)], "what ranks time for themselves is between"
    assert result.to_json()["times"][0] == {
        "launch": 0, "begin_seconds": 5.0, "end_seconds": 7.4, "message_bytes": 1024,
    }  # fmt: skip


def test_without_moments_a_result_says_nothing_of_times() -> None:
    collector = Collector(plan=(SPEC,), world_size=2)
    for rank in (0, 1):
        collector.take(0, measured(rank, 1024))
    (result,) = collector.results(1, None)
    assert result.times == ()
    assert "times" not in result.to_json()


def test_timed_steps_began_at_the_earliest_moment_that_a_part_allows() -> None:
    """A part is told late by its way, never early: of several the earliest start is the nearest to the truth."""
    times = PointTimes()
    times.moved_on(0, 0, 1.0)
    for seconds, told in ((6.5, 3.0), (9.1, 6.0), (12.8, 9.0)):
        times.steps_began(0, 2, "ddp tiny", seconds - told)
    times.measured(0, 2, 0, "ddp tiny", 15.0)
    (one,) = times.of(2)
    assert (one.label, one.begin_seconds, one.steps_begin_seconds, one.end_seconds) == ("ddp tiny", 1.0, 3.1, 15.0)
