"""What a compiler saves of a step, and how wide the bounds are where nobody says whether there was one."""

from dataclasses import replace

import pytest

from raybench.hardware.gpus import gpu_for
from raybench.performance_model.models.presets import preset_named
from raybench.performance_model.setup.training_setup import TrainingSetup
from raybench.performance_model.step.efficiency import CALIBRATION, expected_efficiency
from raybench.performance_model.step.work import work_of

LLAMA = preset_named("llama-8b")
SETUP = TrainingSetup(batch_size=1, sequence_length=4096, native_attention=False)


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


def test_one_kernel_for_a_layer_norm_leaves_nothing_to_fuse_but_the_rotation() -> None:
    gpu, gpt = gpu_for("a100"), preset_named("gpt2-xl")
    assert work_of(gpu, gpt, replace(SETUP, sequence_length=1024, compiled=False)).separate == 0
