"""What counts of a training, a memory search and a checkpoint that were cut: what all ranks have told of them."""

from typing import Any

import pytest

from raybench.benchmarks.checkpoint.options import CheckpointOptions
from raybench.benchmarks.checkpoint.record import CheckpointRecord
from raybench.benchmarks.memory.options import MemoryOptions
from raybench.benchmarks.memory.record import MemoryRecord, Trial
from raybench.benchmarks.spec import BenchmarkSpec
from raybench.benchmarks.training.options import TrainingOptions
from raybench.benchmarks.training.record import Check, Exposure, StepMarks, TrainingRecord, joined
from raybench.documents.run.benchmark import BenchmarkResult
from raybench.execution.collector import Collector

STEPS = 6
TRAINING = BenchmarkSpec(name="ddp", kind="training", sizes=(), options=TrainingOptions(steps=STEPS))
FACTS = {"gpu": None, "dtype": "float32", "tokens_per_sample": 64, "expected_wire_bytes": 1.0}


def steps(first: int, after: int, *, interim: bool = True, seconds: float = 0.5, **changes: Any) -> TrainingRecord:
    """Steps of so many seconds, half of each forward."""
    count = after - first
    ends = [round(1e9 * (7 + seconds * (step + 1))) for step in range(first, after)]
    at = tuple(moment for end in ends for moment in (end - round(seconds * 5e8), end, end))
    marks = StepMarks(names=("forward:0", "backward:0", "end"), at=at)
    values: dict[str, Any] = {
        "label": "ddp tiny",
        "stamps": () if interim else tuple(seconds * (step + 1) for step in range(first, after)),
        "phases": {} if interim else {"forward": (seconds / 2,) * count, "backward": (seconds / 2,) * count},
        "marks": marks if interim else None,
        "started": 7 * 10**9 if interim else 0,
        "losses": tuple(5.0 - step for step in range(first, after)),
        "memory": {"kind": "rss", "peak_bytes": 1.0, "mean_bytes": 1.0},
        "utilization": {"cpu": 1.0, "gpu": None},
        "exposure": Exposure(remarks=("not measured",)) if interim else Exposure(),
        "check": Check(reason="the run ended before the check" if interim else "switched off"),
        "facts": FACTS,
        "interim": interim,
        "first_step": first if interim else 0,
    }
    return TrainingRecord(**(values | changes))


def collector(spec: BenchmarkSpec = TRAINING) -> Collector:
    return Collector(plan=(spec,), world_size=2)


def result_of(made: Collector, launches: int = 1) -> tuple[BenchmarkResult, list[dict[str, Any]]]:
    (result,) = made.results(launches, "rank 1 died")
    return result, [point.to_json() for point in result.workload]


def test_a_launch_that_was_cut_has_the_steps_that_all_ranks_told() -> None:
    made = collector()
    for rank, after in ((0, 5), (1, 4)):
        made.add_part(0, rank, steps(0, 2, seconds=0.5 + rank))
        made.add_part(0, rank, steps(2, after, seconds=0.5 + rank))
    result, (point,) = result_of(made)
    assert (result.status, result.reason) == ("partial", "rank 1 died")
    assert (point["steps"], point["steps_asked"], point["complete"]) == (4, STEPS, False)
    assert point["samples_seconds"] == pytest.approx([1.5] * 4)  # the slower rank decides
    assert point["loss"]["steps"] == [5.0, 4.0, 3.0, 2.0]
    assert point["phases_seconds"] == pytest.approx({"forward": 0.5, "backward": 0.5})  # the mean over both ranks
    assert (point["verified"], point["overhead"]) == (None, None)
    assert result.warnings == ("ddp tiny: partial: the run ended after 4 of 6 timed steps",)


def test_a_rank_that_told_nothing_leaves_nothing_in_common() -> None:
    made = collector()
    made.add_part(0, 0, steps(0, 5))
    assert result_of(made) == (made.results(1, "rank 1 died")[0], [])
    assert made.results(1, "rank 1 died")[0].status == "failed"


def test_parts_count_no_more_once_the_whole_is_there_and_never_as_progress() -> None:
    made = collector()
    for rank in range(2):
        made.add_part(0, rank, steps(0, 2))
    assert made.measured(0) == 0
    assert made.add_record(0, 0, steps(0, STEPS, interim=False)) is None
    assert made.add_record(0, 1, steps(0, STEPS, interim=False)) is not None
    made.finish(0, 0, None)
    made.finish(0, 1, None)
    result, (point,) = result_of(made)
    assert (made.measured(0), result.status, result.warnings[0]) == (1, "complete", result.warnings[0])
    assert (point["steps"], point["complete"]) == (STEPS, True)
    assert "partial" not in " ".join(result.warnings)


def test_a_rank_that_is_through_counts_with_its_whole_record_beside_the_parts_of_one_that_is_not() -> None:
    made = collector()
    made.add_record(0, 0, steps(0, STEPS, interim=False))
    made.add_part(0, 1, steps(0, STEPS))
    _, (point,) = result_of(made)
    assert (point["steps"], point["complete"]) == (STEPS, False)


def test_a_cut_launch_after_a_whole_one_is_kept_apart() -> None:
    made = collector()
    for rank in range(2):
        made.add_record(0, rank, steps(0, STEPS, interim=False))
        made.finish(0, rank, None)
    made.launch = 1
    for rank in range(2):
        made.add_part(0, rank, steps(0, 3, seconds=9.0))
    result, (point,) = result_of(made, launches=2)
    assert (result.status, point["steps"], point["complete"]) == ("partial", STEPS, True)
    assert point["seconds"]["max"] == pytest.approx(0.5)
    assert point["cut_launch"] == {"steps": 3, "samples_seconds": [9.0] * 3}
    assert "a further launch was cut after 3 steps; they are in no figure" in result.warnings[-1]


def test_collectives_that_one_part_does_not_know_are_unknown() -> None:
    known = steps(0, 2, collectives=(0.1, 0.1)), steps(2, 4, collectives=(0.2, 0.2))
    assert joined(known).collectives == (0.1, 0.1, 0.2, 0.2)
    assert joined((known[0], steps(2, 4))).collectives == ()


def test_a_memory_search_that_was_cut_keeps_its_trials_and_gives_no_largest_batch() -> None:
    made = collector(BenchmarkSpec(name="memory", kind="memory", sizes=(), options=MemoryOptions()))
    for rank, sizes in ((0, (1, 2, 4)), (1, (1, 2))):
        trials = tuple(Trial(batch_size=size, fits=True, peak=size * 100) for size in sizes)
        made.add_part(
            0, rank, MemoryRecord(label="memory tiny", trials=trials, largest_batch=sizes[-1], reached_most=False,
                                  limit_bytes=1000, emulated=True, estimates={}, interim=True),
        )  # fmt: skip
    result, (point,) = result_of(made)
    assert result.status == "partial"
    assert [use["batch_size"] for use in point["batch_sizes"]] == [1, 2]
    assert (point["largest_batch"], point["complete"]) == (2, False)
    assert "larger ones may fit" in result.warnings[-1]


def test_a_checkpoint_that_was_cut_keeps_its_saves() -> None:
    options = CheckpointOptions(to=("a",), layouts=("sharded",), modes=("sync",), saves=5)
    made = collector(BenchmarkSpec(name="checkpoint", kind="checkpoint", sizes=(), options=options))
    for rank, saves in ((0, 2), (1, 3)):
        times = (0.5,) * saves
        made.add_part(
            0, rank, CheckpointRecord(label="sharded sync a", blocked_seconds=times, durable_seconds=times,
                                      load_seconds=times, tensor_bytes=10, verified=True, interim=True),
        )  # fmt: skip
    result, (point,) = result_of(made)
    assert (result.status, len(point["samples_seconds"]), point["complete"]) == ("partial", 2, False)
    assert result.warnings == ("sharded sync a: partial: the run ended after 2 of 5 saves",)
