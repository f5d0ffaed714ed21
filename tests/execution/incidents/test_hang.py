"""What is said of ranks in which nothing moves, from what was seen of each; what cannot be determined blames nobody."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from diagnostics.inputs.flight_recorder import Recorder
from raybench.benchmarks.events import RankExited
from raybench.benchmarks.rank.progress import FIELDS, KEPT_OPERATIONS, Operation, ProgressSlot
from raybench.benchmarks.rank.recorded import Recorded, recorded_of
from raybench.benchmarks.spec import BenchmarkSpec
from raybench.benchmarks.training.options import TrainingOptions
from raybench.execution.incidents.activity_text import activity_text
from raybench.execution.incidents.doing import Seen, doing_text, state_of
from raybench.execution.incidents.flight_file import flight_records
from raybench.execution.incidents.hang import hang
from raybench.execution.node_actors.messages import RankActivity, RankPosition
from raybench.execution.ranks.ending import at_work_text, ending_text
from raybench.execution.ranks.stack import Frame, stacks_of

PLAN = (BenchmarkSpec(name="all_reduce", kind="collective", sizes=(4096,), reduce_op="sum"),)
TORCH = Frame(
    file="/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line=3252, function="all_reduce"
)
TIMING = Frame(file="/opt/raybench/benchmarks/timing.py", line=60, function="follow")
OWN = Frame(file="/home/user/train.py", line=12, function="load", text="queue.get()")


def operation(
    name: str = "all_reduce", sequence: int = 41, *, inside: bool = True, count: int = 1024, **more: int
) -> Operation:
    values = {"peer": -1, "source": -1, "group": 0, "first": 0, "size": 0, "stride": 1} | more
    return Operation(name=name, sequence=sequence, count=count, dtype="float32", inside=inside, **values)


def record(sequence: int = 41, *, over: bool = False, name: str = "all_reduce", count: int = 1024) -> Recorded:
    return Recorded(group="0", ranks=(0, 1), sequence=sequence, name=name, count=count, dtype="float", over=over)


def seen(
    rank: int,
    *operations: Operation,
    stack: tuple[Frame, ...] = (TORCH,),
    states: str = "SSSS",
    cpu: float | None = 0.0,
    io: int | None = 0,
    quiet: float = 60.0,
    steps: tuple[float, ...] = (0.01, 0.01, 0.01),
    moving: bool = False,
    recorded: tuple[Recorded, ...] | None = None,
    iteration: int = 3,
    channel: str | None = None,
) -> Seen:
    position = RankPosition(
        rank=rank, state=states[-1:], phase="timing", benchmark=0, point=0, block=0, iteration=iteration
    )
    activity = RankActivity(
        rank=rank,
        states=states,
        is_moving=moving,
        cpu_seconds=cpu,
        window_seconds=1.2,
        io_bytes=io,
        stack=stack,
        other_stacks=(),
        wait_channel=channel,
        kernel_stack=(),
        operations=operations,
        recorded=recorded,
        quiet_seconds=quiet,
        step_seconds=steps,
    )
    return Seen(node=f"node-{rank}", position=position, activity=activity)


def said(*ranks: Seen, world_size: int | None = None) -> list[tuple[str, list[int], str]]:
    findings = [one.to_finding() for one in hang(ranks, PLAN, world_size=world_size or len(ranks))]
    return [(one.rule, list(one.ranks), one.summary) for one in findings]


WAITING = operation()
BEFORE = operation(sequence=40, inside=False)


def test_all_inside_one_operation_is_the_network_and_says_who_uses_the_processor() -> None:
    ((rule, ranks, text),) = said(seen(0, WAITING, cpu=1.2, states="RRRR"), seen(1, WAITING), seen(2, WAITING))
    assert (rule, ranks) == ("collective-stuck", [0, 1, 2])
    assert "all_reduce #41 (1024 float32)" in text
    assert "rank 0 uses the processor, ranks 1 and 2 are idle" in text


def test_nothing_is_said_of_a_network_while_a_node_does_not_answer() -> None:
    assert said(seen(0, WAITING), seen(1, WAITING), world_size=3) == []


@pytest.mark.parametrize("ended", ["X", "Z"])
def test_ranks_that_wait_for_one_that_has_ended_are_not_what_is_stuck(ended: str) -> None:
    """Rank 0 killed while it started: rank 1 was accused, in init_process_group with "nobody missing"."""
    joining = operation("init_process_group", 1, count=0)
    assert said(seen(0, joining, states=ended), seen(1, joining)) == []
    assert said(seen(0, joining), seen(1, joining)) != []


def test_a_pair_in_a_transfer_is_what_those_in_a_barrier_wait_for() -> None:
    pair = seen(2, operation("send", 7, peer=3)), seen(3, operation("recv", 9, source=2))
    others = [seen(rank, operation("barrier", 12, count=0)) for rank in (0, 1)]
    ((rule, ranks, _),) = said(*others, *pair)
    assert (rule, ranks) == ("collective-stuck", [2, 3])


SEND_RECV = (BenchmarkSpec(name="send_recv", kind="p2p", sizes=(4096,)),)


@pytest.mark.parametrize(("plan", "culprit"), [(PLAN, 1), (SEND_RECV, 2)], ids=["no transfers", "transfers"])
def test_a_transfer_that_no_benchmark_asks_for_is_the_fault_of_its_own_rank(
    plan: tuple[BenchmarkSpec, ...], culprit: int
) -> None:
    """Where transfers are what is measured, the other end that went on without it is."""
    ranks = (seen(0, WAITING), seen(1, BEFORE, operation("recv", 1, source=2)), seen(2, WAITING))
    ((rule, blamed, text),) = [
        (one.rule, list(one.ranks), one.summary)
        for one in (found.to_finding() for found in hang(ranks, plan, world_size=3))
    ]
    assert (rule, blamed) == ("collective-mismatch", [culprit])
    if culprit == 1:
        assert "in recv #1 from rank 2 (1024 float32) where ranks 0 and 2 are in all_reduce #41" in text


@pytest.mark.parametrize(
    ("absent", "words"),
    [
        (seen(1, BEFORE, stack=(OWN,)), "asleep in load (train.py line 12: queue.get())"),
        (
            seen(1, BEFORE, stack=(), states="DDDD", channel="nfs_wait_bit_killable"),
            "in the kernel's nfs_wait_bit_killable",
        ),
        (seen(1, WAITING, stack=(OWN,), channel="pipe_read"), "in the kernel's pipe_read in load"),
        (seen(1, BEFORE, stack=(OWN,), states="RRRR", cpu=1.2), "at work on its processor in load"),
    ],
    ids=["asleep", "in the kernel", "in the place of an operation", "busy"],
)
def test_the_rank_that_does_not_come_is_named_with_its_line(absent: Seen, words: str) -> None:
    ((rule, ranks, text),) = said(seen(0, WAITING), absent, seen(2, WAITING))
    assert (rule, ranks) == ("rank-behind", [1])
    assert words in text
    assert "ranks 0 and 2 wait for it in all_reduce #41" in text


@pytest.mark.parametrize(
    "absent",
    [
        seen(1, BEFORE, stack=(OWN,), moving=True),
        seen(1, BEFORE, stack=(OWN,), quiet=1.9, steps=(1.5, 1.5, 1.5)),
        seen(1, BEFORE, stack=(OWN,), states="RRRR", cpu=1.2, quiet=4.0, steps=(1.2, 1.2, 1.2)),
        seen(1, BEFORE, stack=(OWN,), states="RRRR", cpu=1.2, iteration=0),
        seen(1, BEFORE, stack=(OWN,), io=2**20, iteration=0),
        seen(1, BEFORE, stack=(OWN,), cpu=None),
    ],
    ids=["moves", "as slow as before", "computes little longer than before", "first step", "moves data", "unknown"],
)
def test_a_slow_rank_and_one_that_nothing_is_known_of_are_not_blamed(absent: Seen) -> None:
    assert said(seen(0, WAITING, quiet=absent.activity.quiet_seconds or 0.0), absent) == []


def test_a_rank_that_waits_in_ddp_is_known_by_the_record_of_pytorch() -> None:
    backward = Frame(file="/x/torch/autograd/graph.py", line=1, function="_engine_run_backward")
    waits = seen(0, stack=(backward,), recorded=(record(40, over=True), record(41)))
    sleeps = seen(1, stack=(OWN,), recorded=(record(40, over=True),))
    ((rule, ranks, text),) = said(waits, sleeps)
    assert (rule, ranks) == ("rank-behind", [1])
    assert "rank 0 waits for it in all_reduce #41 (1024 float)" in text


def test_ranks_that_wait_for_their_gpu_part_by_what_is_queued_there() -> None:
    waits = operation("device", 5, count=0)
    others = [seen(rank, waits, stack=(TIMING,), recorded=(record(41),)) for rank in (0, 2)]
    odd = seen(1, waits, stack=(TIMING,), recorded=(record(41, name="broadcast"),))
    ((rule, ranks, text),) = said(*others, odd)
    assert (rule, ranks) == ("collective-mismatch", [1])
    assert "in broadcast #41" in text


def test_without_a_record_the_gpu_that_completed_least_is_behind() -> None:
    waits = operation("device", 5, count=0)
    ranks = [seen(rank, waits, stack=(TIMING,), iteration=2 if rank == 1 else 3) for rank in range(3)]
    assert [(rule, blamed) for rule, blamed, _ in said(*ranks)] == [("rank-behind", [1])]


def test_a_mismatch_needs_no_patience_unless_a_rank_still_moves() -> None:
    slow: dict[str, Any] = {"quiet": 0.2, "steps": (2.0, 2.0, 2.0)}
    ranks = [seen(0, WAITING, **slow), seen(1, operation("barrier", count=0), **slow), seen(2, WAITING, **slow)]
    assert [(rule, blamed) for rule, blamed, _ in said(*ranks)] == [("collective-mismatch", [1])]
    assert said(*ranks[:2], seen(2, WAITING, moving=True, **slow)) == []


def test_a_mismatch_quotes_the_line_that_called_it_and_not_what_notes_operations() -> None:
    noting = Frame(
        file="/opt/raybench/benchmarks/rank/recording.py", line=88, function="call", text="return function()"
    )
    other = seen(1, operation("broadcast"), stack=(TORCH, noting, OWN))
    ((_, blamed, summary),) = said(seen(0, WAITING), other, seen(2, WAITING))
    assert blamed == [1]
    assert "; rank 1 is at load (train.py line 12: queue.get())" in summary
    assert "recording.py" not in summary
    ((_, _, without),) = said(seen(0, WAITING), seen(1, operation("broadcast")), seen(2, WAITING))
    assert "is at" not in without


def test_sizes_that_ranks_may_choose_are_no_mismatch() -> None:
    ranks = [seen(rank, operation("all_to_all_single", count=100 + rank)) for rank in range(3)]
    assert [rule for rule, _, _ in said(*ranks)] == ["collective-stuck"]


def test_of_two_ranks_in_a_training_neither_is_the_odd_one() -> None:
    training = (BenchmarkSpec(name="ddp", kind="training", sizes=(), options=TrainingOptions()),)
    (found,) = hang([seen(0, operation(count=8)), seen(1, operation(count=9))], training, world_size=2)
    assert (found.kind, found.to_finding().ranks) == ("collective-mismatch", (0, 1))


def test_a_stopped_rank_is_told_from_one_that_sleeps() -> None:
    stopped, asleep = seen(0, WAITING, stack=(), states="TTTT"), seen(0, BEFORE, stack=(OWN,))
    assert (state_of(stopped), state_of(asleep)) == ("stopped", "asleep")
    assert "no Python stack came from it" in doing_text(stopped)


def test_the_file_of_all_ranks_holds_their_stacks_and_operations() -> None:
    text = activity_text([seen(0, BEFORE, WAITING), seen(1, BEFORE, stack=(OWN, TORCH), channel="pipe_read")])
    for words in ("all_reduce #41 (1024 float32) (inside)", "/home/user/train.py:12 load", "waits in pipe_read"):
        assert words in text


DUMP = """Thread 0x00007f0000000001 (most recent call first):
  File "/a/threading.py", line 320 in wait
  File "/a b/x.py", line 7 in <lambda>

Current thread 0x00007f0000000002 [main] (most recent call first):
  File "/c/d.py", line 12 in nap
  ...
"""


def test_stacks_are_read_by_thread_and_other_lines_passed_over() -> None:
    first, second = stacks_of("noise\n" + DUMP)
    assert [frame.function for frame in first.frames] == ["wait", "<lambda>"]
    assert (second.identity, second.frames[0].file, second.frames[0].line) == (0x7F0000000002, "/c/d.py", 12)
    assert stacks_of("") == ()


def test_a_record_of_another_form_is_none() -> None:
    assert recorded_of(None) == recorded_of({"entries": 3}) == ()
    entry = {"process_group": ("0", "default_pg"), "collective_seq_id": 7, "profiling_name": "nccl:_all_gather_base"}
    dump = {"entries": [entry | {"input_sizes": [[3, 4]], "input_dtypes": ["Float"], "state": "completed"}]}
    (found,) = recorded_of(dump | {"pg_config": {"0": {"ranks": "[0, 1]"}}})
    assert (found.name, found.count, found.over, found.ranks) == ("all_gather_base", 12, True, (0, 1))


def test_the_record_of_nccl_ranks_is_a_dump_that_diagnose_reads(tmp_path: Path) -> None:
    ranks = [seen(3, recorded=(record(40, over=True), record(41))), seen(4)]
    ((name, content),) = flight_records(ranks, "nccl").items()
    file = tmp_path / name
    file.write_bytes(content)
    found = Recorder().read(str(file))
    assert (name, found.rank, found.last_sequence) == ("nccl_trace_rank_3.json", 3, {"0": 41})
    assert flight_records(ranks, "gloo") == {}


def test_a_slot_keeps_the_last_operations_and_only_the_last_may_be_inside() -> None:
    values = memoryview(bytearray(3 * FIELDS * 8)).cast("q")
    slot, neighbours = ProgressSlot(values, 1), (ProgressSlot(values, 0), ProgressSlot(values, 2))
    for number in range(KEPT_OPERATIONS + 5):
        slot.enter_operation((0, number, 8, 1, -1, -1, 0, 0, 0, 1))
        if number < KEPT_OPERATIONS + 4:
            slot.leave_operation()
    found = slot.operations()
    assert [one.sequence for one in found] == list(range(5, KEPT_OPERATIONS + 5))
    assert [one.inside for one in found] == [False] * (KEPT_OPERATIONS - 1) + [True]
    assert [one.operations() for one in neighbours] == [(), ()]
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(found), type=tuple[Operation, ...]) == found


def test_a_limit_that_was_too_short_says_how_far_the_run_came() -> None:
    training = BenchmarkSpec(name="ddp", kind="training", sizes=(), options=TrainingOptions(steps=200))
    text = at_work_text(training, points=0, steps=50, world_size=2, limit_seconds=30.0)
    assert "50 of 200 timed steps were done; at that rate all take about 120 s" in text
    assert "raise --timeout or ask for fewer --steps" in text
    assert "at that rate" not in at_work_text(training, points=0, steps=0, world_size=2, limit_seconds=30.0)


def test_a_library_that_aborts_is_quoted() -> None:
    tail = "terminate called after throwing an instance of 'gloo::EnforceNotMet'\n  what():  65536 vs 32768\n"
    text = ending_text(RankExited(rank=0, code=-6, output_tail=tail))
    assert text == "the process was killed by SIGABRT: 65536 vs 32768"
