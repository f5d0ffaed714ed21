"""The constants of the computation: what they are fitted to, and how they do on sources that they were not."""

import math
from dataclasses import asdict, replace
from functools import cache
from typing import Any

import pytest

from raybench.errors import UsageError
from raybench.hardware.gpus import gpu_for
from raybench.performance_model.estimate.estimate import estimate
from raybench.performance_model.estimate.heaviest import heaviest
from raybench.performance_model.layout import Layout
from raybench.performance_model.memory.activations import block_activation_bytes_per_token
from raybench.performance_model.models.presets import preset_named
from raybench.performance_model.models.transformer import Transformer
from raybench.performance_model.parallel.part import local_setup, part_of
from raybench.performance_model.setup.training_setup import Loss, TrainingSetup
from raybench.performance_model.step.efficiency import (
    CALIBRATION,
    Efficiency,
    expected_efficiency,
    slow_sides,
)
from raybench.performance_model.step.output_layer import padded_vocabulary
from raybench.performance_model.step.spreads import SPREADS
from raybench.performance_model.step.work import clock_share, work_of
from tests.performance_model.calibration_fit import Observation, fitted, observations
from tests.performance_model.leave_one_out import outcome, promised
from tests.performance_model.other_formulas import FORMULAS
from tests.performance_model.published_runs import all_runs

RUNS = all_runs()
OTHERS = tuple(run for run in RUNS if run.source != "llm-foundry")
LLAMA = preset_named("llama-8b")
SETUP = TrainingSetup(batch_size=1, sequence_length=4096, native_attention=False)
OVER_TWO = Layout(world_size=8, ranks_per_node=8, tensor=2)
ADAPTERS = replace(SETUP, lora_rank=16, quantized=True)


@cache
def observed() -> list[Observation]:
    """Those of all runs: seconds of work, and not of every worker that collects this file."""
    return observations(RUNS)


def test_every_source_is_read() -> None:
    assert len({run.source for run in RUNS}) == 211
    assert len(observed()) == 923


def test_the_constants_are_the_fit_of_the_published_rows() -> None:
    """Nobody has moved one by hand: the search ends at them."""
    again = asdict(fitted(observed()))
    assert again == pytest.approx(asdict(CALIBRATION), rel=1e-3)


def test_full_trainings_of_an_unseen_source_are_within_bounds_that_say_something() -> None:
    """Fitted without a row of llm-foundry: 209 of other models, sizes and sequence lengths."""
    calibration = fitted([row for row in observed() if row.source != "llm-foundry"], start=CALIBRATION)
    unseen = [outcome(run, calibration) for run in RUNS if run.source == "llm-foundry"]
    assert sum(bool(one.inside) for one in unseen) >= 0.9 * len(unseen)
    assert sorted(one.width or 0.0 for one in unseen)[len(unseen) // 2] <= 1.9


def test_what_ran_out_of_memory_is_hardly_ever_told_to_fit() -> None:
    """Nor with the margin that the other sources give: of the rows of one of them nothing was chosen."""
    rows = [outcome(run, CALIBRATION) for run in RUNS if run.fits is False]
    assert len(rows) == 238
    assert sum(row.said is True for row in rows) <= 10
    assert promised(rows) <= 0.05 * len(rows)


def test_memory_is_nearer_than_other_formulas_on_every_sum_of_rows() -> None:
    rows = [outcome(run, CALIBRATION) for run in OTHERS if run.memory_bytes]
    for of in (True, False):
        chosen = [row for row in rows if row.has_adapters == of]
        own = sorted(abs((row.memory or 0.0) - 1) for row in chosen)
        for name in FORMULAS:
            theirs = sorted(abs(row.others[name] - 1) for row in chosen)
            assert own[len(own) // 2] < theirs[len(theirs) // 2]


def test_compiled_is_faster_and_where_nobody_says_the_bounds_are_wider() -> None:
    gpu = gpu_for("h100")
    eager, unknown, compiled = (
        expected_efficiency(gpu, LLAMA, replace(SETUP, compiled=said, loss="fused")) for said in (False, None, True)
    )
    assert eager.high < unknown.high < compiled.high
    assert eager.low < unknown.low < compiled.low
    assert unknown.spread > 1.01 * eager.spread
    assert eager.slow > compiled.slow  # on the fast side compiled ones differ more
    fused = expected_efficiency(gpu, LLAMA, replace(SETUP, compiled=False, kernels="fused", loss="fused"))
    assert 1 < compiled.middle.high / fused.middle.high < 1.05  # a compiler leaves half of the launches, and no modules
    assert fused.spread < compiled.spread  # the word of those who know the program narrows them


def test_a_compiler_makes_one_kernel_of_what_stored_scores_pass_through() -> None:
    """GPT-2 on an A100 by somebody's notes: 335 ms a step of 16 samples with scores stored, 192 ms compiled."""
    gpu, gpt = gpu_for("a100"), preset_named("gpt2")
    stored = replace(SETUP, batch_size=16, sequence_length=1024, flash_attention=False, compiled=False)
    eager, compiled = (work_of(gpu, gpt, replace(stored, compiled=said)) for said in (False, True))
    assert compiled.elements < 0.6 * eager.elements
    assert CALIBRATION.seconds(eager) / CALIBRATION.seconds(compiled) == pytest.approx(335 / 192, rel=0.2)


def test_an_odd_vocabulary_that_is_compiled_may_be_padded() -> None:
    """The fastest of GPT-2 with 50,257 words is as fast as with 50,304; the slowest is not."""
    gpu, odd = gpu_for("h100"), preset_named("gpt2")
    aligned = replace(odd, vocabulary=50304)
    found, padded = (
        expected_efficiency(gpu, one, replace(SETUP, batch_size=16, compiled=True)) for one in (odd, aligned)
    )
    assert found.high == pytest.approx(padded.high, rel=0.05)
    assert found.low < 0.8 * padded.low
    eager = work_of(gpu, odd, replace(SETUP, compiled=False))
    assert eager.padded == work_of(gpu, aligned, SETUP).padded == 0


def test_hooks_of_zero_3_that_gather_nothing_start_little() -> None:
    """With one rank; with two they gather before each layer, and let go behind it."""
    blocks = []
    for ranks in (1, 2):
        setup = local_setup(replace(SETUP, strategy="zero3"), Layout(world_size=ranks, ranks_per_node=ranks))
        blocks.append(work_of(gpu_for("a100"), LLAMA, setup).starts.blocks)
    assert blocks == [1.25 * LLAMA.layers, 2 * LLAMA.layers]


def test_one_kernel_for_a_layer_norm_leaves_nothing_to_fuse_but_the_rotation() -> None:
    gpu, gpt = gpu_for("a100"), preset_named("gpt2-xl")
    assert work_of(gpu, gpt, replace(SETUP, sequence_length=1024, compiled=False)).separate == 0


def test_less_power_than_a_gpu_was_made_for_costs_clock() -> None:
    gpu = gpu_for("h100")
    assert clock_share(gpu, None) == clock_share(gpu, 700) == clock_share(gpu, 900) == 1
    assert clock_share(gpu, 500) == pytest.approx(0.8, abs=0.01)
    assert clock_share(gpu_for("l40s"), 100) == 1  # nothing is known of it


def test_unpacking_by_other_kernels_takes_other_time() -> None:
    gpu = gpu_for("a100")
    nf4, gptq = (work_of(gpu, LLAMA, replace(ADAPTERS, packing=kind)) for kind in ("nf4", "gptq"))
    assert CALIBRATION.seconds(nf4) < CALIBRATION.seconds(gptq)


def test_short_micro_batches_take_as_long_as_their_kernels_take_to_start() -> None:
    work = work_of(gpu_for("h100"), LLAMA, replace(SETUP, sequence_length=16))
    assert CALIBRATION.starting_seconds(work) > CALIBRATION.working_seconds(work)
    assert CALIBRATION.seconds(work) >= CALIBRATION.starting_seconds(work)


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


def test_a_gpu_whose_best_product_is_far_from_its_peak_is_slower() -> None:
    """MI300X has a third more at its peak than H100, and reaches less."""
    h100, mi300x = (work_of(gpu_for(name), LLAMA, SETUP).products for name in ("h100", "mi300x"))
    assert mi300x > h100


@pytest.mark.parametrize(("name", "times"), [("MI250", 1.25), ("MI300X", 1.25), ("MI325X", 1), ("MI355X", 1)])
def test_software_of_2023_holds_back_only_what_there_was_then(name: str, times: float) -> None:
    """Against what the best product of each reaches."""
    gpu, setup = gpu_for(name), replace(SETUP, compiled=True)
    work = work_of(gpu, LLAMA, setup)
    reached = work.products * (gpu.peak_tflops("bf16") or 0.0) / work_of(gpu_for("A100"), LLAMA, setup).products / 312
    best = {"MI250": 1.0, "MI300X": 0.803 / 0.514, "MI325X": 0.803 / 0.604, "MI355X": 0.803 / 0.680}[name]
    assert reached == pytest.approx(times * best, rel=1e-3)


def test_fp8_makes_products_faster_and_what_it_casts_takes_the_more_of_that_the_smaller_they_are() -> None:
    """Products of GPT-2 XL are as wide as 1600: ROCm/TransformerEngine's issue 72 has 490 TFLOP/s on an H100."""
    gains = {}
    for name in ("gpt2-xl", "llama-8b", "llama-70b"):
        model, setup = preset_named(name), replace(SETUP, sequence_length=1024, batch_size=14, compiled=True)
        wide, narrow = (work_of(gpu_for("h100"), model, setup, None, dtype) for dtype in ("bf16", "fp8"))
        assert narrow.products < wide.products
        assert narrow.attention == wide.attention
        gains[name] = CALIBRATION.seconds(wide) / CALIBRATION.seconds(narrow)
    assert 1 < gains["gpt2-xl"] < gains["llama-8b"] < gains["llama-70b"] < 1.6


def test_shares_that_are_given_know_nothing_of_fp8() -> None:
    """They are of the peak in 16 bits, and products take a half or so of the time."""
    run = next(run for run in OTHERS if run.request.dtype == "fp8" and run.source == "torchtitan")
    given = Efficiency(low=0.4, high=0.4, source="given")
    times = [
        estimate(replace(run.request, dtype=dtype, efficiency=given), alone=False).step_seconds
        for dtype in ("bf16", "fp8")
    ]
    assert times[0] is not None
    assert times[1] is not None
    assert times[1][0] < times[1][1] < times[0][1]


def test_a_kernel_that_skips_what_the_mask_drops_does_half() -> None:
    gpu = gpu_for("a100")
    whole = work_of(gpu, LLAMA, replace(SETUP, whole_attention=True))
    assert whole.attention == pytest.approx(2 * work_of(gpu, LLAMA, SETUP).attention)
    assert work_of(gpu, LLAMA, replace(SETUP, flash_attention=False)).attention == pytest.approx(whole.attention)


def test_computing_some_blocks_again_is_between_none_and_all() -> None:
    gpu = gpu_for("a100")
    none, some, every = (
        work_of(gpu, LLAMA, replace(SETUP, checkpointing=share > 0, recomputed_share=share or 1.0)).products
        for share in (0.0, 0.5, 1.0)
    )
    assert some == pytest.approx((none + every) / 2)


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


def test_blocks_that_fill_the_gpu_slow_the_slowest_step_and_others_do_not() -> None:
    """Llama-3-8B by FSDP on four A100, 8 samples each: 2264 tokens/s with all logits, 3342 with logits in chunks."""
    rows = [run for run in OTHERS if run.name == "llama-3.1-8b a100 4 full 4096 8"]
    answers = {run.request.setup.loss: estimate(run.request, alone=False) for run in rows}
    assert {loss: answer.step.is_pressed for loss, answer in answers.items()} == {"fused-fp32": True, "chunked": False}
    for loss, rate in (("fused-fp32", 2264), ("chunked", 3342)):
        low, high = answers[loss].step_seconds or (0.0, 0.0)
        assert low < 8 * 4096 / rate < high


def test_what_is_not_known_of_adapters_is_taken_as_most_people_have_it() -> None:
    assert heaviest(SETUP, kernels_known=False, loss_known=False) == replace(SETUP, loss_open=True)
    unknown = heaviest(ADAPTERS, kernels_known=False, loss_known=False)
    assert (unknown.upcast, unknown.loss) == (True, "transformers")
    sharded = replace(ADAPTERS, strategy="fsdp", checkpointing=True)
    unknown = heaviest(sharded, kernels_known=False, loss_known=True)
    assert (unknown.upcast, unknown.holds_inputs, unknown.on_streams) == (False, True, True)
    trained = replace(sharded, lora_rank=0, lora_targets=(), quantized=False)
    assert not heaviest(trained, kernels_known=False, loss_known=True).holds_inputs
    assert heaviest(ADAPTERS, kernels_known=True, loss_known=True) == ADAPTERS


@pytest.mark.parametrize(("loss", "is_theirs"), [("transformers", True), ("fused", False), ("plain", False)])
def test_a_loss_of_transformers_says_how_scores_are_stored_and_adapters_wrapped(loss: Loss, is_theirs: bool) -> None:
    """In fp32, and each adapter on its own, whatever is known of kernels."""
    stored = replace(SETUP, flash_attention=False, loss=loss)
    sharded = replace(ADAPTERS, strategy="fsdp", checkpointing=True, loss=loss)
    said = [heaviest(setup, kernels_known=True, loss_known=True) for setup in (stored, sharded)]
    assert [said[0].wide_scores, said[1].holds_inputs] == [is_theirs, is_theirs]


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


def test_settings_that_cannot_be_are_refused() -> None:
    with pytest.raises(UsageError, match="4-bit"):
        replace(SETUP, upcast=True)
    with pytest.raises(UsageError, match="above 0"):
        replace(SETUP, recomputed_share=0.0)


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


def test_a_board_of_seventy_watts_keeps_its_base_clock_in_products() -> None:
    """A T4 had 24 of its 65 TFLOP/s (forums.developer.nvidia.com, topic 264462); an A100 is not held so."""
    setup = replace(SETUP, compiled=True)
    t4, a10g = (work_of(gpu_for(name), LLAMA, setup) for name in ("T4", "A10G"))
    assert t4.products / t4.at_peak > 2 * a10g.products / a10g.at_peak


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


def test_products_in_wide_types_take_their_own_rates() -> None:
    """Of the units of that type; what moves is the same, so the times are not as far apart as the peaks."""
    setup = replace(SETUP, compute_bytes=4)
    times = [work_of(gpu_for("h200"), LLAMA, setup, None, dtype).products for dtype in ("fp32", "tf32", "bf16")]
    assert times[0] / times[1] == pytest.approx(494.7 / 67.0, rel=0.1)
    assert times[1] / times[2] == pytest.approx(989.4 / 494.7, rel=0.1)


@pytest.mark.parametrize(
    ("vocabulary", "gpu", "dtype", "times"),
    [
        (50257, "A100", "bf16", 2.4),
        (50257, "H200", "bf16", 4.8),
        (50304, "H200", "bf16", 1),
        (50257, "H200", "fp32", 1),
    ],
)
def test_an_odd_vocabulary_is_slow_in_16_bits(vocabulary: int, gpu: str, dtype: str, times: float) -> None:
    """GPT-2's 50,257 words against those padded to 50,304: only the output layer's products take longer."""
    setup = replace(SETUP, sequence_length=1024, compute_bytes=4 if dtype == "fp32" else 2)
    model = preset_named("gpt2")
    own, padded = (
        work_of(gpu_for(gpu), model.resized(vocabulary=words), setup, None, dtype).products
        for words in (vocabulary, 50304)
    )
    head = 50304 * model.hidden / model.resized(vocabulary=50304).computing_parameters
    assert own / padded == pytest.approx(1 + (times - 1) * head, rel=0.01)
    assert (padded_vocabulary(model.resized(vocabulary=vocabulary)) == 50304) == (vocabulary == 50257)


def test_a_loss_that_nobody_names_widens_the_bounds_and_a_fused_one_is_faster() -> None:
    """By how much less of the logits moves; where the output layer is most of the work."""
    small = replace(preset_named("gpt2"), vocabulary=50304)
    setup = replace(SETUP, batch_size=32, sequence_length=1024, compiled=False)
    named = [expected_efficiency(gpu_for("A100"), small, replace(setup, loss=loss)) for loss in ("fused", "plain")]
    unnamed = expected_efficiency(gpu_for("A100"), small, replace(setup, loss_open=True))
    assert named[0].high > unnamed.high > named[1].high
    assert unnamed.fast > 1.005 * max(one.fast for one in named)


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
