"""Exposed communication: interval arithmetic, what is read from a trace, and three estimators against a known truth."""

from typing import Any

import pytest

from raybench.benchmarks.training.exposure.intervals import common, length, merged, serial_end
from raybench.benchmarks.training.exposure.stalls import Dependencies, dependencies_of, stalled_seconds
from raybench.benchmarks.training.exposure.trace import STEP, Operation, StepTrace, shares_of, steps_of
from tests.measurements.overlap_accuracy import Schedule, ShardedSchedule, measured


def event(
    name: str, begin: float, seconds: float, category: str = "cpu_op", tid: int = 1, **args: Any
) -> dict[str, Any]:
    return {"ph": "X", "cat": category, "name": name, "ts": begin * 1e6, "dur": seconds * 1e6, "tid": tid, "args": args}


# As torch 2.13 writes them for DDP on gloo: the list of tensors has no type of its own, gloo's range has.
ALL_REDUCE = {"Input Dims": [[[1000]], [], []], "Input type": ["TensorList", "", ""]}
GLOO = {"Input Dims": [[1000]], "Input type": ["c10::BFloat16"]}
HOST = [
    event(STEP, 1.0, 1.0, "user_annotation"),
    event("aten::mm", 1.0, 0.4),
    event("aten::mm", 1.4001, 0.2),  # 0.1 ms after the one before: the interpreter
    event("c10d::allreduce_", 1.3, 0.001, **ALL_REDUCE),
    event("gloo:all_reduce", 1.5, 0.3, "user_annotation", tid=2, **GLOO),
    event("aten::add_", 1.5, 0.3, tid=2),  # gloo's own thread: part of the communication
    event("aten::mm", 5.0, 1.0),
]
GPU = [
    event(STEP, 1.0, 1.0, "user_annotation"),
    event("aten::mm", 1.0, 0.9),
    event("sm90_gemm", 1.1, 0.5, "kernel", tid=7),
    event("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 1.4, 0.4, "kernel", tid=8),
    event("c10d::_allgather_base_", 1.05, 0.001, **{"Input Dims": [[800], [100]], "Input type": ["float", "float"]}),
]


def test_a_trace_of_a_cpu() -> None:
    (step,) = steps_of({"traceEvents": HOST})
    shares = shares_of(step)
    assert shares.communication == pytest.approx(0.3)
    assert shares.computation == pytest.approx(0.6001)
    assert shares.overlap == pytest.approx(0.1001)
    assert shares.exposed == pytest.approx(0.1999)
    assert shares.idle == pytest.approx(0.2)
    (operation,) = step.operations
    assert (operation.name, operation.message_bytes, operation.ready) == ("all_reduce", 2000, pytest.approx(0.3))
    assert operation.wire_bytes(4) == 2000 * 2 * 3 / 4


def test_a_trace_of_a_gpu_counts_kernels_and_their_start() -> None:
    (step,) = steps_of({"traceEvents": GPU})
    assert shares_of(step).exposed == pytest.approx(0.2)
    assert shares_of(step).computation == pytest.approx(0.5)
    (operation,) = step.operations
    assert (operation.ranks, operation.message_bytes) == (8, 3200)
    assert operation.ready == pytest.approx(0.4)
    assert operation.wire_bytes(1) == 3200 * 7 / 8


def test_waiting_for_a_late_rank_is_not_communication() -> None:
    (step,) = steps_of({"traceEvents": HOST})
    assert shares_of(step, [0.05]).communication == pytest.approx(0.05)


def test_no_steps_in_a_trace_without_marks() -> None:
    assert steps_of({"traceEvents": HOST[1:]}) == ()
    assert steps_of({}) == ()


def test_intervals() -> None:
    assert merged([(3, 4), (0, 1), (1, 2)]) == [(0, 2), (3, 4)]
    assert merged([(0, 1), (1.5, 2)], gap=0.5) == [(0, 2)]
    assert length(common([(0, 2), (3, 5)], [(1, 4)])) == 2
    assert serial_end([1.0, 2.0], [3.0, 1.0]) == 5.0
    assert serial_end([], []) == 0.0


@pytest.mark.alone
def test_three_estimators_find_a_known_truth() -> None:
    schedule = Schedule(computation=(0.2, 0.1, 0.1), messages=(0.14, 0.36))
    assert schedule.exposed == pytest.approx(0.3)
    for name, seconds in measured(
        schedule, pairs=3
    ).items():  # quiet machine: 3 % (tests.measurements.overlap_accuracy)
        assert seconds == pytest.approx(schedule.exposed, rel=0.1), name


@pytest.mark.alone
def test_two_estimators_find_a_known_truth_of_shards() -> None:
    schedule = ShardedSchedule()
    assert schedule.exposed == pytest.approx(0.12 + 0.06 + 0.10)
    for name, seconds in measured(schedule).items():
        assert seconds == pytest.approx(schedule.exposed, rel=0.1), name


def sharded_step(*communication: tuple[float, float], computed: tuple[tuple[float, float], ...]) -> StepTrace:
    operations = [Operation(name="all_gather", elements=8, dtype="float32", ready=begin) for begin, _ in communication]
    return StepTrace(seconds=1.0, communication=communication, computation=computed, operations=tuple(operations))


def test_what_is_ready_and_needed_is_told_without_the_waiting() -> None:
    """Two gathers that computation waits for, and one between them that ends while it goes on."""
    step = sharded_step((0.0, 0.1), (0.15, 0.25), (0.3, 0.5), computed=((0.1, 0.3), (0.5, 0.6)))
    found = dependencies_of(step)
    assert found is not None
    assert found.ready == pytest.approx((0.0, 0.05, 0.2))
    assert found.needed == pytest.approx((0.0, -1.0, 0.2))
    assert stalled_seconds(found, (0.1, 0.1, 0.2)) == pytest.approx(0.3)
    assert stalled_seconds(found, (0.05, 0.1, 0.1)) == pytest.approx(0.15)
    assert stalled_seconds(found, (0.1, 0.25, 0.1)) == pytest.approx(0.1 + 0.1 + 0.1)  # the third waits for the second


def test_operations_in_the_way_of_others_delay_them() -> None:
    both = Dependencies(ready=(0.0, 0.0), needed=(-1.0, 0.1))
    assert stalled_seconds(both, (0.2, 0.1)) == pytest.approx(0.2)
    assert stalled_seconds(both, (0.0, 0.1)) == pytest.approx(0.0)
    assert dependencies_of(sharded_step(computed=())) is None
