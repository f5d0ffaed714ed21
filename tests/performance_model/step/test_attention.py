"""How long attention takes: by its kernel, its mask and what it drops."""

import math
from dataclasses import replace

import pytest

from raybench.hardware.gpus import gpu_for
from raybench.performance_model.memory.activations import block_activation_bytes_per_token
from raybench.performance_model.models.presets import preset_named
from raybench.performance_model.setup.training_setup import TrainingSetup
from raybench.performance_model.step.efficiency import CALIBRATION, expected_efficiency
from raybench.performance_model.step.work import work_of
from tests.performance_model.published_runs import all_runs

OTHERS = tuple(run for run in all_runs() if run.source != "llm-foundry")
LLAMA = preset_named("llama-8b")
SETUP = TrainingSetup(batch_size=1, sequence_length=4096, native_attention=False)
ADAPTERS = replace(SETUP, lora_rank=16, quantized=True)


def test_attention_by_the_instructions_of_a_newer_gpu_is_faster_and_where_nobody_says_the_bounds_are_wider() -> None:
    gpu, long = gpu_for("h200"), replace(SETUP, sequence_length=131072, compiled=True)
    own, unknown, older = (replace(long, native_attention=said) for said in (True, None, False))
    times = [work_of(gpu, LLAMA, setup).attention for setup in (own, unknown, older)]
    assert times == pytest.approx([times[0], 1.5 * times[0], 2 * times[0]])
    spreads = [expected_efficiency(gpu, LLAMA, setup).spread for setup in (own, unknown, older)]
    assert math.hypot(math.log(spreads[0]), 0.22) < math.log(spreads[1])  # independent errors
    assert spreads[0] == pytest.approx(spreads[2])
    a100 = gpu_for("a100")
    assert work_of(a100, LLAMA, own) == work_of(a100, LLAMA, unknown)


def test_a_kernel_that_skips_what_the_mask_drops_does_half() -> None:
    gpu = gpu_for("a100")
    whole = work_of(gpu, LLAMA, replace(SETUP, whole_attention=True))
    assert whole.attention == pytest.approx(2 * work_of(gpu, LLAMA, SETUP).attention)
    assert work_of(gpu, LLAMA, replace(SETUP, flash_attention=False)).attention == pytest.approx(whole.attention)


@pytest.mark.parametrize(("length", "times"), [(4096, 3247 / 2483), (8192, 3083 / 1918)])
def test_attention_with_a_mask_is_slower_by_what_was_published(length: int, times: float) -> None:
    """Mistral-7B by LoRA in tokens/s before and after transformers 4.40.0 gave sdpa a mask (its issue 30461)."""
    mistral = next(run.request.model for run in OTHERS if run.request.model.name == "mistral-7b")
    setup = replace(ADAPTERS, sequence_length=length, checkpointing=True, quantized=False, compiled=False)
    without, masked = (
        CALIBRATION.seconds(work_of(gpu_for("a100"), mistral, replace(setup, masked_attention=said)))
        for said in (False, True)
    )
    assert masked / without == pytest.approx(times, rel=0.1)


@pytest.mark.parametrize(("gpu", "by_cudnn"), [("h100", True), ("gb200", True), ("a100", False), ("mi300x", False)])
def test_a_mask_costs_the_dropped_scores_alone_where_cudnn_takes_it(gpu: str, by_cudnn: bool) -> None:
    """PyTorch's memory-efficient kernel takes it elsewhere, and in fp32."""
    setup = replace(SETUP, native_attention=True, masked_attention=False)
    work, masked = (work_of(gpu_for(gpu), LLAMA, replace(setup, masked_attention=said)) for said in (False, True))
    assert (masked.attention == pytest.approx(2 * work.attention)) == by_cudnn
    wide = replace(setup, masked_attention=True, compute_bytes=4)
    either = (replace(wide, native_attention=said) for said in (True, False))
    assert len({work_of(gpu_for(gpu), LLAMA, one).attention for one in either}) == 1


def test_nobody_says_which_kernel_takes_a_mask() -> None:
    """IDRIS's Qwen2.5 14B on GB200 takes half of the time with the slower one: the bounds hold for both."""
    gpu, setup = gpu_for("gb200"), replace(SETUP, masked_attention=True, native_attention=None)
    either = work_of(gpu, LLAMA, setup)
    least, most = (work_of(gpu, LLAMA, replace(setup, native_attention=said)).attention for said in (True, False))
    assert either.attention - either.unsure_attention == pytest.approx(least)
    assert either.attention + either.unsure_attention == pytest.approx(most)
    assert most > 5 * least


def test_scores_of_which_some_are_dropped_take_a_mask_and_what_it_leaves() -> None:
    """A byte and an element more of each score and block; FlashAttention keeps neither."""
    gpt = replace(preset_named("gpt2"), drops=True)
    for flash, each in ((False, 1 + 2), (True, 0)):
        setup = replace(SETUP, sequence_length=1024, flash_attention=flash)
        dropping, keeping = (
            block_activation_bytes_per_token(replace(gpt, drops=drops), setup) - 2 * gpt.hidden * drops
            for drops in (True, False)
        )
        assert dropping - keeping == gpt.heads * 1024 * each
