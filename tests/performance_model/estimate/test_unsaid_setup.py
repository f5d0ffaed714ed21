"""What is taken of a setup that nobody says: adapters, loss, and blocks that are computed again."""

from dataclasses import replace

import pytest

from raybench.errors import UsageError
from raybench.hardware.gpus import gpu_for
from raybench.performance_model.models.presets import preset_named
from raybench.performance_model.request.heaviest import heaviest
from raybench.performance_model.setup.kernels import Loss
from raybench.performance_model.setup.training_setup import TrainingSetup
from raybench.performance_model.step.efficiency import expected_efficiency
from raybench.performance_model.step.work import work_of

LLAMA = preset_named("llama-8b")
SETUP = TrainingSetup(batch_size=1, sequence_length=4096, native_attention=False)
ADAPTERS = replace(SETUP, lora_rank=16, quantized=True)


def test_computing_some_blocks_again_is_between_none_and_all() -> None:
    gpu = gpu_for("a100")
    none, some, every = (
        work_of(gpu, LLAMA, replace(SETUP, checkpointing=share > 0, recomputed_share=share or 1.0)).products
        for share in (0.0, 0.5, 1.0)
    )
    assert some == pytest.approx((none + every) / 2)


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


def test_settings_that_cannot_be_are_refused() -> None:
    with pytest.raises(UsageError, match="4-bit"):
        replace(SETUP, upcast=True)
    with pytest.raises(UsageError, match="above 0"):
        replace(SETUP, recomputed_share=0.0)


def test_a_loss_that_nobody_names_widens_the_bounds_and_a_fused_one_is_faster() -> None:
    """By how much less of the logits moves; where the output layer is most of the work."""
    small = replace(preset_named("gpt2"), vocabulary=50304)
    setup = replace(SETUP, batch_size=32, sequence_length=1024, compiled=False)
    named = [expected_efficiency(gpu_for("A100"), small, replace(setup, loss=loss)) for loss in ("fused", "plain")]
    unnamed = expected_efficiency(gpu_for("A100"), small, replace(setup, loss_open=True))
    assert named[0].high > unnamed.high > named[1].high
    assert unnamed.fast > 1.005 * max(one.fast for one in named)
