"""Every strategy that a CPU can run, trained over the nodes of a lab, against a plain loop over all samples."""

from collections.abc import Sequence
from typing import Any

import pytest

from raybench.benchmarks.training.options import TrainingOptions
from tests.lab.cluster import Lab
from tests.lab_run import lab_run

pytestmark = [pytest.mark.lab, pytest.mark.cluster]
STEPS, BATCH, LENGTH, LORA_RANK = 4, 2, 16, 4
SHAPE = ("--model", "tiny", "--batch-size", str(BATCH), "--sequence-length", str(LENGTH), "--lora-rank", str(LORA_RANK))
LOOP = ("--steps", str(STEPS), "--warmup-steps", "0", "--overlap-steps", "1", "--keep-warm", "60", "--json")


def trained(lab: Lab, *arguments: str) -> list[dict[str, Any]]:
    """The benchmarks of one ``raybench train``."""
    with lab_run(lab, *SHAPE, *LOOP, *arguments, verb="train") as run:
        assert run.finish(120) == 0, run.errors
        result = run.result()
    assert not result["cluster"]["emulated"]
    benchmarks: list[dict[str, Any]] = result["benchmarks"]
    return benchmarks


def losses_of_one_process(strategy: str, ranks: int) -> list[float]:
    """The mean loss of each step, all samples in one batch: no raybench trainer, no communication, nothing timed."""
    import torch  # here, since the other tests of labs need none of it

    from raybench.benchmarks.training.models.trainable import trainable_of
    from raybench.benchmarks.training.step import batch_of
    from raybench.benchmarks.training.strategies import prepare

    options = TrainingOptions(model="tiny", batch_size=BATCH, sequence_length=LENGTH, lora_rank=LORA_RANK)
    trainable = trainable_of(options)
    model = trainable.build()
    prepare(model, strategy, torch.device("cpu"), options, "float32")
    optimizer = torch.optim.AdamW([one for one in model.parameters() if one.requires_grad], lr=1e-3)
    losses = []
    for step in range(STEPS):
        parts = [batch_of(trainable, options, rank, step) for rank in range(ranks)]
        loss = model(*(torch.cat(columns) for columns in zip(*parts, strict=True)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def check(benchmark: dict[str, Any], strategy: str, ranks: int) -> None:
    """Losses, throughput and bytes of a benchmark's one point."""
    (point,) = benchmark["points"]
    assert point["loss"]["steps"] == pytest.approx(losses_of_one_process(strategy, ranks), rel=1e-4)
    assert point["verified"] is True
    samples = point["samples_seconds"]
    assert len(samples) == STEPS
    assert point["samples_per_s"] == pytest.approx(BATCH * ranks / (sum(samples) / STEPS))
    assert point["tokens_per_s"] == pytest.approx(point["samples_per_s"] * LENGTH)
    sent = point["communication"]
    assert sent["wire_bytes_per_rank"] == pytest.approx(sent["expected_bytes_per_rank"], rel=0.01)


@pytest.mark.long
def test_strategies_over_three_nodes(ray_lab: Lab) -> None:
    """Three: most dimensions that are cut into shards are no multiple of it."""
    strategies: Sequence[str] = ("ddp", "fsdp", "lora", "qlora")
    benchmarks = trained(ray_lab, "--nodes", "3", "--strategy", ",".join(strategies))
    assert [one["name"] for one in benchmarks] == list(strategies)
    for benchmark in benchmarks:
        check(benchmark, benchmark["name"], 3)


@pytest.mark.long
def test_shards_kept_until_the_backward_pass(ray_lab: Lab) -> None:
    (benchmark,) = trained(ray_lab, "--nodes", "2", "--strategy", "fsdp", "--sharding", "grad-op")
    check(benchmark, "fsdp", 2)


@pytest.mark.long
def test_shards_within_nodes_and_replicas_over_them(ray_lab: Lab) -> None:
    """The node actors that the runs before it keep warm hold these nodes, for runs of other shapes: they give way."""
    (benchmark,) = trained(
        ray_lab, "--nodes", "2", "--gpus-per-node", "2", "--strategy", "fsdp", "--sharding", "hybrid"
    )
    check(benchmark, "fsdp", 4)
