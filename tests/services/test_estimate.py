"""An estimate as a call. Its figures are in tests/cli/test_estimate.py and tests/performance_model."""

import pytest

from raybench.cli.estimate import command
from raybench.errors import UsageError
from raybench.services.estimate import EstimateOptions, estimate


def test_a_model_that_does_not_fit_is_a_problem() -> None:
    fits = estimate(EstimateOptions(world_size=64, strategy="fsdp", node_type="p5.48xlarge"))
    assert (fits.exit_code, fits.report.memory.fits, fits.report.gpu) == (0, True, "H100 SXM")
    assert estimate(EstimateOptions(model="llama-70b", gpu="H100")).exit_code == 1


@pytest.mark.parametrize(("length", "said"), [(131_072, False), (131_073, True)])
def test_a_sequence_longer_than_the_model_is_made_for_is_said(length: int, said: bool) -> None:
    report = estimate(EstimateOptions(gpu="h100", sequence_length=length, activation_checkpointing=True)).report
    assert any(f"stretched from 131,072 to {length:,} tokens" in one for one in report.advice) is said


@pytest.mark.parametrize(
    ("gpu", "given", "said"), [("a4000", None, True), ("a4000", "0.3:0.4", False), ("h100", None, False)]
)
def test_bounds_of_other_gpus_are_said_unless_they_are_given(gpu: str, given: str | None, said: bool) -> None:
    report = estimate(EstimateOptions(model="gpt2", gpu=gpu, efficiency=given)).report
    assert any("no published training on RTX A4000" in one for one in report.advice) is said


def test_an_estimate_that_cannot_be_is_refused() -> None:
    for wrong, said in ((EstimateOptions(world_size=0), "world"), (EstimateOptions(layers=-1), "--layers is -1")):
        with pytest.raises(UsageError, match=said):
            estimate(wrong)


def test_a_power_limit_costs_speed_where_that_is_known_and_is_refused_elsewhere() -> None:
    full, held = (estimate(EstimateOptions(gpu="h100", power_limit=watts)).report for watts in (None, 500))
    assert (held.mfu or (1, 1))[1] < (full.mfu or (0, 0))[1]
    for wrong in (EstimateOptions(gpu="a100", power_limit=300), EstimateOptions(gpu="h100", power_limit=0)):
        with pytest.raises(UsageError, match="--power-limit"):
            estimate(wrong)


def test_the_command_has_the_defaults_of_the_call() -> None:
    """An option that is given to one of them only would mean two things."""
    given = command.make_context("estimate", []).params
    del given["as_json"], given["full"]  # which say how it is printed
    assert EstimateOptions(**given) == EstimateOptions()
