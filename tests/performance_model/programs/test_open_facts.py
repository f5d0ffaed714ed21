"""What a program has in some of its releases, or with some of its users, is open: the most and the least hold both."""

from dataclasses import replace

import pytest

from raybench.performance_model.estimate import estimate
from raybench.performance_model.programs.taken import with_program
from raybench.performance_model.step.request import EstimateRequest, least_setup
from raybench.services.estimate import EstimateOptions, estimate_request


def asked(program: str, **options: object) -> EstimateRequest:
    return with_program(estimate_request(EstimateOptions(gpu="h100", program=program, **options)))  # type: ignore[arg-type]


def test_a_flag_that_is_open_is_on_in_the_most_and_off_in_the_least() -> None:
    """TRL prepared a 4-bit base as peft does up to December 2025, and does not since."""
    request = asked("trl", lora_rank=16, qlora=True, kernels="plain")
    assert request.setup.upcast
    assert not least_setup(request).upcast
    said = replace(request, taken=tuple(replace(fact, is_open=False) for fact in request.taken))
    assert least_setup(said).upcast
    assert estimate(request).least_peak < estimate(said).least_peak


def test_of_adapters_inputs_may_be_held_by_fsdp_whatever_the_kernels() -> None:
    """Reentrant checkpointing is what transformers had up to 4: fused kernels and a loss in chunks change nothing."""
    options = {"lora_rank": 16, "strategy": "fsdp", "world_size": 8, "activation_checkpointing": True}
    request = asked("transformers", kernels="fused", **options)
    assert (request.kernels_known, request.loss_known, request.setup.holds_inputs) == (True, True, True)
    assert not least_setup(request).holds_inputs
    assert not asked(
        "transformers", kernels="fused", **{**options, "activation_checkpointing": False}
    ).setup.holds_inputs


@pytest.mark.parametrize(("accumulation", "kept"), [(1, False), (2, True)])
def test_gradients_that_are_no_views_of_buckets_are_let_go(accumulation: int, kept: bool) -> None:
    """DDP of accelerate copies gradients to buckets: none are kept but while micro-batches add up."""
    options = {"strategy": "ddp", "world_size": 8, "accumulation": accumulation}
    request = asked("transformers", **options)
    assert not request.setup.bucket_view
    assert request.setup.gradients_kept == kept
    assert asked("transformers", **options, bucket_view=True).setup.gradients_kept


def test_a_loss_that_is_compiled_with_the_model_takes_what_no_other_does() -> None:
    compiled, said = asked("nanogpt"), asked("nanogpt", loss="plain")
    assert (compiled.setup.loss, compiled.loss_known) == ("compiled", True)
    assert estimate(compiled).memory.logits == pytest.approx(estimate(said).memory.logits / 2, rel=0.01)
    assert asked("nanogpt", compile=False).setup.loss == "plain"
