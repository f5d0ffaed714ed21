"""What nodes send is data: garbage of every kind becomes one line that names the question, and never a traceback."""

import math
import random
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from raybench.benchmarks.events import (
    BenchmarkFinished,
    BenchmarkStarted,
    Event,
    OwnSpeedMeasured,
    PointMeasured,
    RankExited,
    RankFailed,
    RankReady,
    WorkloadMeasured,
    encode,
)
from raybench.benchmarks.machine_use import MachineSeconds
from raybench.benchmarks.memory.record import MemoryRecord
from raybench.benchmarks.spec import BenchmarkSpec, OwnSpeed, RankSamples
from raybench.execution.collector import Collector
from raybench.execution.event_check import EventError, event_of
from raybench.execution.log_files import logs_of
from raybench.execution.node_actors.answers import AnswerError, decode_answer, encode_answer
from raybench.execution.node_actors.messages import RankPosition
from raybench.metadata import node_facts

PLAN = (BenchmarkSpec(name="all_reduce", kind="collective", sizes=(1024,), reduce_op="sum", own_samples=2),)
SAMPLES = RankSamples(
    message_bytes=1024,
    element_count=256,
    bus_factor=1.0,
    stamps=((0.1, 0.2),),
    wrong_elements=0,
    verified=True,
    contributors=2,
)
MEMORY = MemoryRecord(
    label="x", trials=(), largest_batch=0, reached_most=False, limit_bytes=1, emulated=True, estimates={}
)
POSITION = RankPosition(rank=0, state="R", phase="timing", benchmark=0, point=0, block=0, iteration=0)
_COUNTED = ("benchmark", "point", "block", "iteration")
FACTS = node_facts() | {"node_id": "a", "gpu_ids": ["0"], "early_rank_host": False}
GOOD: dict[str, Any] = {
    "claim": True,
    "facts": FACTS,
    "logs": {"nccl-rank-0.log": b"\xff"},
    "long_traces": {"trace-rank-0-a.json.gz": (10, 5)},
    "poll": [encode(RankReady(rank=0, facts={}))],
    "positions": [POSITION],
    "reserve_port": 29500,
    "stop": None,
    "traffic": {"eth0": {"sent_bytes": 1, "received_bytes": 2}},
}


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("question", sorted(GOOD))
def test_an_answer_arrives_as_it_was_given(question: str) -> None:
    found = decode_answer(question, encode_answer(GOOD[question]))
    assert found == GOOD[question]


@pytest.mark.parametrize(
    ("question", "data"),
    [
        ("facts", object()),
        ("facts", b""),
        ("facts", b"\x80\x04\x95pickle"),
        ("facts", encode_answer([])),
        ("facts", encode_answer({"gpus": []})),
        ("facts", encode_answer(FACTS | {"gpu_ids": 7})),
        ("facts", encode_answer(FACTS | {"more": nested(50)})),
        ("facts", b"\x91" * 10**6),
        ("traffic", encode_answer({"eth0": {"sent_bytes": "many"}})),
        ("reserve_port", encode_answer(-1)),
        ("reserve_port", encode_answer(10**6)),
        ("positions", encode_answer([msgspec.structs.replace(POSITION, phase="elsewhere")])),
        ("positions", encode_answer([{"rank": 0}])),
        *(("positions", encode_answer([msgspec.structs.replace(POSITION, **{name: -99})])) for name in _COUNTED),
        ("poll", encode_answer(["text"])),
        ("logs", encode_answer({"a": 1})),
        *(("clock", encode_answer(one)) for one in (math.nan, math.inf, -1.0, 1e300, "now")),
        ("stop", encode_answer(1)),
    ],
)
def test_what_is_no_answer_says_which_question_it_was(question: str, data: object) -> None:
    with pytest.raises(AnswerError, match=f"what it answered to '{question}' cannot be read"):
        decode_answer(question, data)


def test_any_damage_to_an_answer_is_a_clear_error_or_a_good_answer() -> None:
    chance = random.Random(10)
    for question, answer in GOOD.items():
        whole = encode_answer(answer)
        for _ in range(300):
            data = bytearray(whole[: chance.randrange(len(whole) + 1)] if chance.random() < 0.3 else whole)
            for _ in range(chance.randrange(1, 4)):
                if data:
                    data[chance.randrange(len(data))] = chance.randrange(256)
            try:
                decode_answer(question, bytes(data))
            except AnswerError as error:
                assert "\n" not in str(error)


def taken(event: Event) -> Event:
    return event_of(encode(event), (0, 1), PLAN, 2)


@pytest.mark.parametrize(
    "event",
    [
        RankReady(rank=1, facts={"visible_gpus": "8"}),
        BenchmarkStarted(rank=0, benchmark=0),
        PointMeasured(rank=0, benchmark=0, samples=SAMPLES),
        OwnSpeedMeasured(rank=0, benchmark=0, speed=OwnSpeed(message_bytes=8, seconds=(0.1, 0.2))),
        RankFailed(rank=0, benchmark=-1, error="ValueError: x", traceback=""),
        RankExited(rank=1, code=-9, output_tail=""),
    ],
)
def test_events_of_the_nodes_own_ranks_are_taken(event: Event) -> None:
    assert taken(event) == event


@pytest.mark.parametrize(
    ("event", "why"),
    [
        (RankReady(rank=2, facts={}), "rank 2 is not on that node"),
        (RankReady(rank=0, facts={"visible_gpus": "eight"}), "visible_gpus is not a number"),
        (BenchmarkStarted(rank=0, benchmark=1), "there is no benchmark 1"),
        (BenchmarkFinished(rank=0, benchmark=-1), "there is no benchmark -1"),
        *(
            (BenchmarkFinished(rank=0, benchmark=0, machine=MachineSeconds(processors=2, **machine)), why)
            for machine, why in (
                ({"seconds": 0.0}, "no time"),
                ({"seconds": -1.0}, "a time that is none"),
                ({"seconds": 1.0, "stolen": math.nan}, "a time that is none"),
                ({"seconds": 1.0, "busy": 1e308}, "a time that is none"),
                ({"seconds": 1.0, "waiting": -0.5}, "a time that is none"),
            )
        ),
        (RankFailed(rank=0, benchmark=0, error=" \n", traceback=""), "does not say what failed"),
        *(
            (PointMeasured(rank=0, benchmark=0, samples=replace(SAMPLES, **changed)), why)
            for changed, why in (
                ({"message_bytes": -1}, "a negative count"),
                ({"contributors": 0}, "0 ranks are said to measure it"),
                ({"contributors": 3}, "3 ranks are said to measure it"),
                ({"stamps": ()}, "a block without samples"),
                ({"stamps": ((), (0.1,))}, "a block without samples"),
                ({"stamps": ((math.nan,),)}, "a time that is none"),
                ({"stamps": ((math.inf,),)}, "a time that is none"),
                ({"stamps": ((-1.0,),)}, "a time that is none"),
                ({"bus_factor": math.nan}, "a time that is none"),
                *(({"own_seconds": (one,)}, "a time that is none") for one in (math.nan, 0.0, 5e-324, 1e308)),
                ({"contributors": 1}, "1 ranks are said to measure it, of 2"),  # else it alone would be the point
                ({"source_rank": 99, "destination_rank": 0}, "the pair"),
                ({"stamps": ((0.0, 0.0),)}, "a clock that does not advance"),  # nothing is divided by such a time
                ({"stamps": ((0.1, 0.2), (1.0, 1.0, 1.0))}, "a clock that does not advance"),
                ({"stamps": ((0.2, 0.1),)}, "a clock that does not advance"),
            )
        ),
        *(
            (OwnSpeedMeasured(rank=0, benchmark=0, speed=OwnSpeed(message_bytes=8, seconds=seconds)), why)
            for seconds, why in (
                ((0.1,), "1 samples of its own speed, of 2"),
                ((0.1, math.nan), "a time that is none"),
                ((0.1, -0.1), "a time that is none"),
                ((0.1, 0.0), "a time that is none"),  # ranks are compared while the run goes on
                ((1e308, 1e308), "a time that is none"),
            )
        ),
        (WorkloadMeasured(rank=0, benchmark=0, record=MEMORY), "a record of another kind than collective"),
    ],
)
def test_what_none_of_its_ranks_can_have_said_is_refused(event: Event, why: str) -> None:
    with pytest.raises(EventError, match=why):
        taken(event)


def test_what_is_no_event_is_refused() -> None:
    for data in (b"", b"\xc1", b"\x91" * 10**5, encode_answer({"type": "RankReady"}), encode_answer({"type": "Run"})):
        with pytest.raises(EventError, match="is not an event of a rank"):
            event_of(data, (0,), PLAN, 1)


def test_ranks_that_measured_different_blocks_are_no_point() -> None:
    collector = Collector(plan=PLAN, world_size=2)
    collector.add(0, 0, SAMPLES)
    with pytest.raises(EventError, match="rank 1 measured other blocks"):
        collector.add(0, 1, replace(SAMPLES, stamps=((0.1,),)))


def test_a_pair_is_measured_by_its_two_ranks() -> None:
    plan = (BenchmarkSpec(name="p2p_matrix", kind="p2p", sizes=(1024,)),)
    good = PointMeasured(rank=1, benchmark=0, samples=replace(SAMPLES, source_rank=1, destination_rank=2))
    assert event_of(encode(good), (1,), plan, 4) == good
    for pair in ((0, 2), (1, 4), (-1, 1), (None, None), (1, None)):
        other = replace(SAMPLES, source_rank=pair[0], destination_rank=pair[1])
        with pytest.raises(EventError, match="the pair"):
            event_of(encode(PointMeasured(rank=1, benchmark=0, samples=other)), (1,), plan, 4)


def test_a_node_speaks_in_logs_for_its_own_ranks_only() -> None:
    own = ("nccl-rank-3.log", "output-rank-2.log", "nccl_trace_rank_3", "trace-rank-2-fsdp-grad-op.17.pt.trace.json.gz")
    foreign = (
        "nccl-rank-0.log",
        "nccl-rank-30.log",
        "activity.txt",
        "..",
        "a\0b",
        "nccl-rank-3.log\n",
        "x/nccl-rank-3",
    )
    assert set(logs_of((2, 3), dict.fromkeys((*own, *foreign), b""))) == set(own)
