"""Bytes that a step is estimated to send against those of the collectives that raybench's own training issues.

As in test_collectives_counted.py one process stands for rank 0 of many: any number of ranks, also one and odd ones.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from raybench.benchmarks.training.models.shapes import shape_of
from raybench.benchmarks.training.options import TrainingOptions
from raybench.performance_model.layout import Layout
from raybench.performance_model.setup.training_setup import TrainingSetup
from raybench.performance_model.step.traffic import training_traffic
from tests.performance_model.test_collectives_counted import Counting, dist, fake, torch

strategies = pytest.importorskip("raybench.benchmarks.training.strategies")
from raybench.benchmarks.base import RankContext
from raybench.benchmarks.rank.progress import ProgressSlot
from raybench.benchmarks.training.models.trainable import built, trainable_of
from raybench.benchmarks.training.step import Trainer

SIZES = {"layers": 3, "hidden_size": 50, "heads": 5, "kv_heads": 5, "intermediate_size": 70, "vocabulary": 211}
STRATEGIES = {"full": "fsdp", "grad-op": "fsdp-grad-op", "hybrid": "fsdp-hybrid"}


@pytest.fixture
def group(request: pytest.FixtureRequest) -> Iterator[int]:
    dist.init_process_group("fake", rank=0, world_size=request.param, store=fake.FakeStore())
    yield request.param
    dist.destroy_process_group()


def context(ranks: int, per_node: int) -> RankContext:
    nothing: dict[str, Any] = {"store": None}
    return RankContext(
        rank=0, local_rank=0, world_size=ranks, ranks_on_machine=ranks, ranks_on_node=per_node, backend="gloo",
        device=torch.device("cpu"), progress=ProgressSlot(), **nothing,
    )  # fmt: skip


def counted(name: str, options: TrainingOptions, ranks: int, per_node: int) -> dict[str, int]:
    """S of all collectives of the second step, by operation; DDP's buckets by a hook, which the dispatcher misses."""
    here, trainable, dtype = context(ranks, per_node), trainable_of(options), str(options.dtype)
    spread = strategies.apply_strategy(here, built(trainable, here.device), name, options, dtype)
    trainer = Trainer(here, trainable, spread, options, dtype)
    buckets: list[int] = []
    if name != "fsdp":
        spread._wrapped.register_comm_hook(buckets, _noted)
    for number in range(2):
        buckets.clear()
        with Counting() as counting:
            trainer.step(number)
    reduced = {"all_reduce": sum(buckets)} if buckets else {}
    return {operation: sum(sizes) for operation, sizes in counting.seen.items()} | reduced


def _noted(state, bucket):  # DDP refuses other annotations than its own
    state.append(bucket.buffer().numel() * bucket.buffer().element_size())
    done: Any = torch.futures.Future()
    done.set_result(bucket.buffer())
    return done


def estimated(name: str, options: TrainingOptions, layout: Layout) -> dict[str, int]:
    shape, length = shape_of(options)
    setup = TrainingSetup(
        batch_size=options.batch_size,
        sequence_length=length,
        strategy=STRATEGIES[options.sharding] if name == "fsdp" else "ddp",
        compute_bytes=4 if options.dtype == "float32" else 2,
        whole_gradients=options.accumulate > 1 and not options.reduce_each,
        lora_rank=options.lora_rank if name in ("lora", "qlora") else 0,
        quantized=name == "qlora",
    )
    traffic = training_traffic(shape, setup, layout, accumulation=options.accumulate)
    found: dict[str, int] = {}
    for message in traffic.messages:
        found[message.operation] = found.get(message.operation, 0) + message.total_bytes
    return found


@pytest.mark.parametrize(
    ("group", "per_node", "name", "options"),
    [
        (1, 1, "ddp", {}),
        (1, 1, "fsdp", {}),
        (3, 3, "ddp", {"accumulate": 3}),
        (5, 5, "lora", {"lora_rank": 3}),
        (7, 7, "qlora", {"lora_rank": 3, "accumulate": 2}),
        (3, 3, "fsdp", {}),
        (5, 5, "fsdp", {"dtype": "bfloat16", "accumulate": 2}),
        (7, 7, "fsdp", {"sharding": "grad-op", "dtype": "bfloat16"}),
        (7, 7, "fsdp", {"dtype": "bfloat16", "accumulate": 3, "reduce_each": True}),
        (9, 3, "fsdp", {"sharding": "hybrid", "dtype": "bfloat16", "accumulate": 3}),
        (6, 2, "fsdp", {"sharding": "hybrid", "model": "llama-3.2-1b"}),
        (8, 8, "fsdp", {"model": "gpt2", "sharding": "grad-op"}),
    ],
    indirect=["group"],
)
def test_bytes_are_those_that_are_estimated(group: int, per_node: int, name: str, options: dict[str, Any]) -> None:
    plain = {"model": "llama-2-7b", "dtype": "float32", "sequence_length": 8, "batch_size": 1, "overlap_steps": 0}
    chosen = TrainingOptions(**{**plain, **SIZES, **options})
    seen = counted(name, chosen, group, per_node)
    expected = estimated(name, chosen, Layout(world_size=group, ranks_per_node=per_node))
    if group == 1 and name == "ddp":
        seen.pop("all_reduce")  # DDP fills its bucket and has nobody to send it to
    assert seen == pytest.approx(expected, rel=0.01)
    assert bool(expected) == (group > 1)
