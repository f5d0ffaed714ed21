"""How long kernels take to start, by what runs a block, and what that does to the bounds."""

import math
from dataclasses import replace
from typing import Any

import pytest

from raybench.hardware.gpus import gpu_for
from raybench.performance_model.estimate.estimate import estimate
from raybench.performance_model.layout import Layout
from raybench.performance_model.models.presets import preset_named
from raybench.performance_model.models.transformer import Transformer
from raybench.performance_model.parallel.part import local_setup, part_of
from raybench.performance_model.setup.training_setup import TrainingSetup
from raybench.performance_model.step.efficiency import CALIBRATION, expected_efficiency, slow_sides
from raybench.performance_model.step.spreads import SPREADS
from raybench.performance_model.step.work import work_of
from tests.performance_model.published_runs import all_runs

OTHERS = tuple(run for run in all_runs() if run.source != "llm-foundry")
LLAMA = preset_named("llama-8b")
SETUP = TrainingSetup(batch_size=1, sequence_length=4096, native_attention=False)
OVER_TWO = Layout(world_size=8, ranks_per_node=8, tensor=2)


def test_hooks_of_zero_3_that_gather_nothing_start_little() -> None:
    """With one rank; with two they gather before each layer, and let go behind it."""
    blocks = []
    for ranks in (1, 2):
        setup = local_setup(replace(SETUP, strategy="zero3"), Layout(world_size=ranks, ranks_per_node=ranks))
        blocks.append(work_of(gpu_for("a100"), LLAMA, setup).starts.blocks)
    assert blocks == [1.25 * LLAMA.layers, 2 * LLAMA.layers]


def test_short_micro_batches_take_as_long_as_their_kernels_take_to_start() -> None:
    work = work_of(gpu_for("h100"), LLAMA, replace(SETUP, sequence_length=16))
    assert CALIBRATION.starting_seconds(work) > CALIBRATION.working_seconds(work)
    assert CALIBRATION.seconds(work) >= CALIBRATION.starting_seconds(work)


def test_where_starts_or_the_cpu_take_the_time_the_bounds_are_wider() -> None:
    """Programs differ in what no row tells of the next one; where that is hidden it costs no width."""
    gpu = gpu_for("h100")
    long, short = (replace(SETUP, sequence_length=length, compiled=True) for length in (8192, 64))
    spreads = [expected_efficiency(gpu, LLAMA, setup).spread for setup in (long, short)]
    own = math.sqrt(SPREADS["compiled"].slow * SPREADS["compiled"].fast)
    assert own < spreads[0] < 1.05 * own
    assert spreads[1] > 1.2 * own
    offloaded = expected_efficiency(gpu, LLAMA, replace(long, strategy="fsdp", offload="all"))
    assert spreads[0] < offloaded.spread


def test_blocks_with_experts_or_of_a_cut_model_start_more_kernels() -> None:
    dense = work_of(gpu_for("h100"), LLAMA, replace(SETUP, strategy="zero1"))
    mixture = work_of(gpu_for("h100"), replace(LLAMA, experts=8, experts_per_token=2), SETUP)
    assert mixture.starts.blocks == 2.5 * dense.starts.blocks
    cut = work_of(gpu_for("h100"), part_of(LLAMA, OVER_TWO), replace(SETUP, strategy="zero1"))
    assert cut.starts.blocks == 1.25 * dense.starts.blocks


def test_a_stage_of_a_pipeline_starts_as_many_kernels_as_its_layers_do() -> None:
    """gdGPT's, of four layers of LLaMA 7B, take 22 ms a micro-batch of 512 tokens."""
    stage = part_of(LLAMA, Layout(world_size=8, ranks_per_node=8, pipeline=8))
    hooked = replace(SETUP, strategy="zero1")
    of_stage, of_all = (work_of(gpu_for("h100"), one, hooked).starts.blocks for one in (stage, LLAMA))
    assert of_stage * 8 == of_all
    assert work_of(gpu_for("h100"), stage, SETUP).starts.blocks == of_stage


@pytest.mark.parametrize(
    ("changes", "has"),
    [
        ({"strategy": "fsdp", "compiled": False}, True),
        ({"strategy": "fsdp", "compiled": False, "kernels": "fused"}, False),
        ({"strategy": "fsdp", "compiled": False, "dtensors": False}, False),
        ({"strategy": "fsdp", "compiled": True}, False),
        ({"strategy": "fsdp"}, None),
        ({"strategy": "ddp", "compiled": False}, None),
        ({"strategy": "ddp", "compiled": False, "dtensors": True}, True),
        ({"strategy": "ddp", "dtensors": True}, None),
        ({"strategy": "zero1", "compiled": False, "dtensors": True}, False),
        ({"strategy": "zero3", "compiled": False}, False),
    ],
)
def test_dtensors_of_tensor_ranks_are_slow_to_start_and_widen_bounds_where_they_may_be(
    changes: dict[str, Any], has: bool | None
) -> None:
    setup = replace(SETUP, batch_size=1, sequence_length=2048, **changes)
    assert setup.has_dtensors is has
    whole, part = LLAMA, part_of(LLAMA, OVER_TWO)
    hooked = 2 if setup.strategy == "zero3" else 1
    works = [work_of(gpu_for("h100"), one, setup) for one in (whole, part)]
    block = LLAMA.layers * 0.7  # with Hopper's hosts
    assert works[1].starts.blocks / block == pytest.approx(hooked * (5 if has else 1.25))
    assert [one.starts.may_be_dispatched > 0 for one in works] == [False, has is None]
    sides = [slow_sides(one, CALIBRATION, setup) for one in works]
    assert [len(one) for one in sides] == [1, 1 + (has is None)]
    assert max(longer for _, longer in sides[1]) > 0.5 or has is not None


@pytest.mark.parametrize(("implementation", "seconds"), [("zero1", 0.829), ("fsdp", 1.354), ("ddp", 2.028)])
def test_a_short_sample_over_eight_tensor_ranks_waits_for_dtensors_dispatch(
    implementation: str, seconds: float
) -> None:
    """Qwen3 32B by DeepSpeed's AutoTP, DTensor over transformers' model and torchtitan (tohtana/benchmark_tp)."""
    of = [run for run in OTHERS if run.source.startswith("TP benchmarking tool")]
    run = next(run for run in of if run.request.setup.strategy == implementation)
    assert run.step_seconds == pytest.approx(seconds, rel=0.001)
    low, high = estimate(run.request, alone=False).step_seconds or (0.0, 0.0)
    assert low < seconds < high < 4.5 * low


def test_a_block_without_hooks_starts_its_kernels_and_compiled_half_a_block() -> None:
    """Llama's by transformers has 125; GPT-2's fewer, more where its weights are cast or scores are stored."""
    gpu, gpt = gpu_for("a100"), preset_named("gpt2")
    alone = replace(SETUP, strategy="ddp", compiled=False, parameter_bytes=2)

    def blocks(model: Transformer, **changes: Any) -> float:
        return work_of(gpu, model, replace(alone, **changes)).starts.blocks / model.layers

    assert blocks(LLAMA) == 1
    changes: list[dict[str, Any]] = [{}, {"parameter_bytes": 4}, {"flash_attention": False}]
    assert [125 * blocks(gpt, **one) for one in changes] == pytest.approx([57, 99, 72])
    assert blocks(LLAMA, compiled=True) == blocks(gpt, compiled=True) == 0.5
    assert blocks(LLAMA, strategy="fsdp") == blocks(gpt, strategy="fsdp", compiled=True) == 1
    assert blocks(gpt, kernels="fused") == 1


def test_launches_of_a_compiled_block_without_hooks_widen_bounds_less() -> None:
    setup = replace(SETUP, strategy="ddp", batch_size=1, sequence_length=512, loss="fused")
    eager, compiled = (
        expected_efficiency(gpu_for("h100"), preset_named("gpt2"), replace(setup, compiled=said))
        for said in (False, True)
    )
    assert compiled.slow < 0.9 * eager.slow
    assert compiled.fast == pytest.approx(eager.fast, rel=0.15)
