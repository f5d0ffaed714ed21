"""What limits a training is said where a figure says so, and is unknown where none does."""

from typing import Any

import pytest

from raybench.documents.run.advice.limit import accumulated, accumulation_for, limit_advice, limit_of
from raybench.documents.run.advice.next_run import memory_advice, training_advice
from raybench.documents.run.communication import Communication
from raybench.documents.run.training.straggler import Straggler
from tests.reports.test_summary import trained

SLOW = Straggler(rank=2, excess=0.5, z=9.0, own_seconds=1.5, wait_seconds=0.0, others_wait_seconds=0.5)


def waiting(share: float | None, label: str = "ddp", **changes: Any) -> Any:
    communication = Communication(exposed={"profiler": share})
    return trained(label, 1.0, launches=((1.0,) * 50,), communication=communication, **changes)


@pytest.mark.parametrize(
    ("share", "changes", "limit", "said"),
    [
        (0.5, {}, "network", "50% of a step waits for communication, high"),
        (0.19, {}, "compute", "little of a step waits for the network"),
        (None, {}, "unknown", "what limits it is unknown"),
        (None, {"world_size": 1}, "compute", "one rank waits for nobody"),
        (0.5, {"phases": {"data": 0.11}}, "network", "waits for communication"),
        (0.1, {"phases": {"data": 0.3}, "facts": {"data": "corpus"}}, "data", "30% of a step waits for them): raise"),
        (0.1, {"phases": {"data": 0.3}}, "data", "which says nothing of your loader"),
        (0.1, {"phases": {"data": 0.1}}, "compute", "computes itself"),
        (0.5, {"stragglers": (SLOW,)}, "rank", "limited by rank 2"),
        (0.5, {"straggler_undecided": True, "straggler_reason": "shared"}, "unknown", "a slow rank: shared"),
    ],
)
def test_a_figure_says_what_limits(share: float | None, changes: dict[str, Any], limit: str, said: str) -> None:
    point = waiting(share, **changes)
    assert limit_of(point) == limit
    assert said in "; ".join(limit_advice(point))


def test_what_to_change_follows_from_the_share() -> None:
    """Half of a step waits: of 1 s each, five times the computing leaves 1 of 6, and four times 1 of 5, a bound."""
    assert accumulation_for(0.5) == 5
    assert (accumulated(0.5, 5), accumulated(0.5, 4)) == (pytest.approx(1 / 6), pytest.approx(0.2))
    assert accumulation_for(1.0) is None
    assert "5x the micro-batches a step" in "; ".join(limit_advice(waiting(0.5)))
    assert "17% of it" in "; ".join(limit_advice(waiting(0.5)))
    sharded = "; ".join(limit_advice(waiting(0.5, "fsdp")))
    assert "grad-op gathers once less" in sharded
    assert "micro-batches" not in sharded


@pytest.mark.parametrize(
    ("label", "gib", "parameters", "said", "not_said"),
    [
        ("ddp", 70, 1e9, "88% of the device's memory is taken, which is tight: take --strategy fsdp", "twice"),
        ("ddp", 50, 1e9, "ddp fits, and fsdp would spare what is not short", "twice"),
        ("ddp", 30, 1e9, "a --batch-size twice as large may fit", "tight"),
        ("fsdp", 30, 1e9, "ddp would take about 38.0 of 80 GiB and sends less", "grad-op"),
        ("fsdp", 40, 4e9, "--sharding grad-op about 48.0, and gathers once less", "ddp fits"),
        ("fsdp", 60, 8e9, "nor --sharding grad-op would fit: fsdp it is", "sends less"),
        ("fsdp", 70, 1e9, "or more nodes, over which the shards get smaller", "fsdp it is"),
        ("lora", 70, 1e9, "take qlora", "--strategy fsdp"),
    ],
)
def test_the_memory_of_a_device_says_which_strategy_and_batch(
    label: str, gib: int, parameters: float, said: str, not_said: str
) -> None:
    memory = {"kind": "cuda", "peak_allocated_bytes": gib * 2**30, "total_bytes": 80 * 2**30}
    facts = {"parameters": int(parameters * 2**30 / 1e9)}
    point = waiting(0.1, label, memory=memory, facts=facts, world_size=2, rank_seconds=(1.0, 1.0))
    text = "; ".join(training_advice(point))
    assert said in text
    assert not_said not in text
    process = waiting(0.1, label, memory={**memory, "kind": "rss"}, facts=facts)
    assert not [*memory_advice(process)]  # whatever else the process holds, a device would not
