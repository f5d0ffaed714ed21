"""The rates of a GPU: its power, its best product, its software, and the types of what it multiplies."""

from dataclasses import replace

import pytest

from raybench.hardware.gpus import gpu_for
from raybench.performance_model.estimate.estimate import estimate
from raybench.performance_model.models.presets import preset_named
from raybench.performance_model.setup.training_setup import TrainingSetup
from raybench.performance_model.step.efficiency import CALIBRATION, Efficiency
from raybench.performance_model.step.output_layer import padded_vocabulary
from raybench.performance_model.step.work import clock_share, work_of
from tests.performance_model.published_runs import all_runs

OTHERS = tuple(run for run in all_runs() if run.source != "llm-foundry")
LLAMA = preset_named("llama-8b")
SETUP = TrainingSetup(batch_size=1, sequence_length=4096, native_attention=False)
ADAPTERS = replace(SETUP, lora_rank=16, quantized=True)


def test_less_power_than_a_gpu_was_made_for_costs_clock() -> None:
    gpu = gpu_for("h100")
    assert clock_share(gpu, None) == clock_share(gpu, 700) == clock_share(gpu, 900) == 1
    assert clock_share(gpu, 500) == pytest.approx(0.8, abs=0.01)
    assert clock_share(gpu_for("l40s"), 100) == 1  # nothing is known of it


def test_unpacking_by_other_kernels_takes_other_time() -> None:
    gpu = gpu_for("a100")
    nf4, gptq = (work_of(gpu, LLAMA, replace(ADAPTERS, packing=kind)) for kind in ("nf4", "gptq"))
    assert CALIBRATION.seconds(nf4) < CALIBRATION.seconds(gptq)


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


def test_blocks_that_fill_the_gpu_slow_the_slowest_step_and_others_do_not() -> None:
    """Llama-3-8B by FSDP on four A100, 8 samples each: 2264 tokens/s with all logits, 3342 with logits in chunks."""
    rows = [run for run in OTHERS if run.name == "llama-3.1-8b a100 4 full 4096 8"]
    answers = {run.request.setup.loss: estimate(run.request, alone=False) for run in rows}
    assert {loss: answer.step.is_pressed for loss, answer in answers.items()} == {"fused-fp32": True, "chunked": False}
    for loss, rate in (("fused-fp32", 2264), ("chunked", 3342)):
        low, high = answers[loss].step_seconds or (0.0, 0.0)
        assert low < 8 * 4096 / rate < high


def test_a_board_of_seventy_watts_keeps_its_base_clock_in_products() -> None:
    """A T4 had 24 of its 65 TFLOP/s (forums.developer.nvidia.com, topic 264462); an A100 is not held so."""
    setup = replace(SETUP, compiled=True)
    t4, a10g = (work_of(gpu_for(name), LLAMA, setup) for name in ("T4", "A10G"))
    assert t4.products / t4.at_peak > 2 * a10g.products / a10g.at_peak


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
