"""Hangs: which fault makes each (``hang_faults``), in which benchmark, and what has to be said of it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from raybench.benchmarks.checkpoint.options import CheckpointOptions
from raybench.benchmarks.spec import BenchmarkSpec
from raybench.benchmarks.training.options import TrainingOptions
from tests.faults.hang_faults import (
    TRAINER,
    after_all_reduce,
    before_all_reduce,
    between_operations,
    collectives,
    computing,
    doze,
    doze_in_c,
    fill_a_pipe,
    forward,
    hash_for_ever,
    in_method,
    inside_all_reduce,
    never,
    open_a_fifo,
    other_message,
    other_operation,
    read_a_pipe,
    skipped,
    slow_rank,
    slow_step,
    spin,
    stop_oneself,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A hang: who is to be named, by which rule, and words of what is said. ``in_ci``: with every change."""

    name: str
    fault: Callable[[int], None]
    rule: str | None
    ranks: tuple[int, ...] = ()
    words: tuple[str, ...] = ()
    world_size: int = 2
    plan: str = "all_reduce"
    in_ci: bool = True


def plans(folder: Path) -> dict[str, tuple[BenchmarkSpec, ...]]:
    """What the ranks run; each for longer than anybody looks."""
    message = {"warmup": 5, "iterations": 20, "blocks": 10**6, "verify": False}
    training = TrainingOptions(sequence_length=8, batch_size=1, warmup_steps=1, steps=10**6)
    checkpoint = CheckpointOptions(to=(str(folder),), model="tiny", layouts=("sharded",), modes=("sync",), saves=1000)
    return {
        "all_reduce": (
            BenchmarkSpec(name="all_reduce", kind="collective", sizes=(65536,), reduce_op="sum", **message),
        ),
        "p2p_matrix": (BenchmarkSpec(name="p2p_matrix", kind="p2p", sizes=(4096,), **(message | {"blocks": 3})),),
        "ddp": (BenchmarkSpec(name="ddp", kind="training", sizes=(), options=training),),
        "fsdp": (BenchmarkSpec(name="fsdp", kind="training", sizes=(), options=training),),
        "lora": (BenchmarkSpec(name="lora", kind="training", sizes=(), options=training),),
        "checkpoint": (BenchmarkSpec(name="checkpoint", kind="checkpoint", sizes=(), options=checkpoint),),
    }


_PAIRS, _STEP = "raybench.benchmarks.messages.point_to_point", "raybench.benchmarks.training.step"
_STORAGE = "raybench.benchmarks.checkpoint.storage"
_ASLEEP = ("asleep", "time.sleep(FOREVER)")
BEHIND = "rank-behind"
MISMATCH = "collective-mismatch"
CASES = (
    Case(name="asleep before", fault=before_all_reduce(doze, 1), rule=BEHIND, ranks=(1,), words=_ASLEEP),
    Case(name="asleep after", fault=after_all_reduce(doze, 0), rule=BEHIND, ranks=(0,), words=_ASLEEP),
    Case(name="asleep inside", fault=inside_all_reduce(doze, 1), rule=BEHIND, ranks=(1,), words=_ASLEEP),
    Case(
        name="asleep between", fault=between_operations(doze, 2), rule=BEHIND, ranks=(2,), words=_ASLEEP, world_size=3
    ),
    Case(name="asleep in C", fault=before_all_reduce(doze_in_c, 1), rule=BEHIND, ranks=(1,), words=("PyDLL",)),
    Case(
        name="asleep in C between",
        fault=between_operations(doze_in_c, 0),
        rule=BEHIND,
        ranks=(0,),
        words=("PyDLL",),
        in_ci=False,
    ),
    Case(
        name="asleep in C after",
        fault=after_all_reduce(doze_in_c, 2),
        rule=BEHIND,
        ranks=(2,),
        world_size=3,
        in_ci=False,
    ),
    Case(
        name="busy loop before",
        fault=before_all_reduce(spin, 1),
        rule=BEHIND,
        ranks=(1,),
        words=("processor",),
        in_ci=False,
    ),
    Case(
        name="busy loop between", fault=between_operations(hash_for_ever, 0), rule=BEHIND, ranks=(0,), words=("hash(",)
    ),
    Case(
        name="busy loop after",
        fault=after_all_reduce(spin, 1),
        rule=BEHIND,
        ranks=(1,),
        words=("in spin",),
        in_ci=False,
    ),
    Case(
        name="broadcast",
        fault=other_operation(lambda tensor: collectives().broadcast(tensor, 0), 1),
        rule=MISMATCH,
        ranks=(1,),
        words=("broadcast #", "all_reduce #"),
    ),
    Case(
        name="broadcast of the root",
        fault=other_operation(lambda tensor: collectives().broadcast(tensor, 0), 0),
        rule=MISMATCH,
        ranks=(0,),
        words=("broadcast #",),
    ),
    Case(
        name="all_gather of one of three",
        fault=other_operation(
            lambda one: collectives().all_gather([one.new_empty(one.shape) for _ in range(3)], one), 2
        ),
        rule=MISMATCH,
        ranks=(2,),
        words=("all_gather #",),
        world_size=3,
        in_ci=False,
    ),
    Case(
        name="a barrier instead",
        fault=other_operation(lambda _: collectives().barrier(), 1),
        rule=MISMATCH,
        ranks=(1,),
        in_ci=False,
    ),
    Case(name="skipped", fault=skipped("all_reduce", 1), rule=MISMATCH, ranks=(1,), words=("left out",)),
    Case(
        name="skipped by rank 0",
        fault=skipped("all_reduce", 0),
        rule=MISMATCH,
        ranks=(0,),
        words=("left out",),
        in_ci=False,
    ),
    Case(name="skipped by one of three", fault=skipped("all_reduce", 2), rule=MISMATCH, ranks=(2,), world_size=3),
    Case(
        name="half the count",
        fault=other_message(lambda one: one[: len(one) // 2], 1),
        rule=MISMATCH,
        ranks=(1,),
        words=("8192 float32", "16384 float32"),
    ),
    Case(
        name="twice the count",
        fault=other_message(lambda one: one.repeat(2), 0),
        rule=MISMATCH,
        ranks=(0,),
        in_ci=False,
    ),
    Case(name="other type", fault=other_message(lambda one: one.double(), 1), rule=MISMATCH, ranks=(1,)),
    Case(name="an empty pipe", fault=before_all_reduce(read_a_pipe, 1), rule=BEHIND, ranks=(1,), words=("os.read",)),
    Case(name="a full pipe", fault=between_operations(fill_a_pipe, 0), rule=BEHIND, ranks=(0,), words=("os.write",)),
    Case(name="a fifo that nobody opens", fault=after_all_reduce(open_a_fifo, 1), rule=BEHIND, ranks=(1,), in_ci=False),
    Case(name="stopped", fault=before_all_reduce(stop_oneself, 1), rule="rank-stopped", ranks=(1,), words=("SIGSTOP",)),
    Case(name="two of four", fault=before_all_reduce(doze, 1, 2), rule=BEHIND, ranks=(1, 2), world_size=4),
    Case(name="both of two", fault=between_operations(doze, 0, 1), rule=BEHIND, ranks=(0, 1)),
    Case(
        name="a sender of a pair",
        fault=in_method(_PAIRS, "exchange", doze, 3, nth=30),
        rule=BEHIND,
        ranks=(3,),
        world_size=4,
        plan="p2p_matrix",
    ),
    Case(
        name="a transfer left out",
        fault=in_method(_PAIRS, "exchange", lambda *_: None, 2, nth=12),
        rule=MISMATCH,
        ranks=(2,),
        world_size=4,
        plan="p2p_matrix",
    ),
    Case(name="forward of ddp", fault=forward(doze, 1), rule=BEHIND, ranks=(1,), words=_ASLEEP, plan="ddp"),
    Case(
        name="busy forward of ddp",
        fault=forward(spin, 0),
        rule=BEHIND,
        ranks=(0,),
        words=("in spin",),
        plan="ddp",
        in_ci=False,
    ),
    Case(name="C in forward of ddp", fault=forward(doze_in_c, 0), rule=BEHIND, ranks=(0,), plan="ddp", in_ci=False),
    Case(name="data of ddp", fault=in_method(_STEP, "batch_of", doze, 0, nth=9), rule=BEHIND, ranks=(0,), plan="ddp"),
    Case(name="forward of fsdp", fault=forward(doze, 1), rule=BEHIND, ranks=(1,), words=_ASLEEP, plan="fsdp"),
    Case(
        name="data of fsdp",
        fault=in_method(_STEP, "batch_of", doze, 1, nth=9),
        rule=BEHIND,
        ranks=(1,),
        plan="fsdp",
        in_ci=False,
    ),
    Case(
        name="optimizer of fsdp",
        fault=in_method(TRAINER, "_update", read_a_pipe, 0, nth=9),
        rule=BEHIND,
        ranks=(0,),
        plan="fsdp",
        in_ci=False,
    ),
    Case(
        name="forward of lora",
        fault=forward(doze, 1),
        rule=BEHIND,
        ranks=(1,),
        words=_ASLEEP,
        plan="lora",
        in_ci=False,
    ),
    Case(
        name="write of a checkpoint",
        fault=in_method(f"{_STORAGE}:ManifestWriter", "write_data", doze, 1, nth=3),
        rule=BEHIND,
        ranks=(1,),
        words=_ASLEEP,
        plan="checkpoint",
    ),
    Case(
        name="read of a checkpoint",
        fault=in_method(f"{_STORAGE}:ManifestReader", "read_data", open_a_fifo, 0, nth=2),
        rule=BEHIND,
        ranks=(0,),
        plan="checkpoint",
    ),
    Case(
        name="full pipe in a checkpoint",
        fault=in_method(f"{_STORAGE}:ManifestWriter", "write_data", fill_a_pipe, 0, nth=2),
        rule=BEHIND,
        ranks=(0,),
        plan="checkpoint",
        in_ci=False,
    ),
    Case(
        name="before it joins",
        fault=in_method("torch.distributed", "init_process_group", doze, 1),
        rule="init-hang",
        ranks=(1,),
    ),
    Case(name="healthy", fault=never, rule=None),
    Case(name="healthy ddp", fault=never, rule=None, plan="ddp", in_ci=False),
    Case(name="healthy checkpoint", fault=never, rule=None, plan="checkpoint", in_ci=False),
    Case(name="a slow rank", fault=slow_rank(1.0), rule=None),
    Case(name="slow steps", fault=slow_step(1.5), rule=None, plan="ddp"),
    Case(name="a long first step", fault=computing(60.0), rule=None, plan="ddp"),
)
