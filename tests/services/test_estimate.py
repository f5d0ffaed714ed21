"""An estimate as a call. Its figures are in tests/cli/test_estimate.py and tests/performance_model."""

import pytest

from raybench.cli.estimate import command
from raybench.errors import UsageError
from raybench.services.estimate import EstimateOptions, estimate


def test_a_model_that_does_not_fit_is_a_problem() -> None:
    fits = estimate(EstimateOptions(world_size=64, strategy="fsdp", node_type="p5.48xlarge"))
    assert (fits.exit_code, fits.report.memory.fits, fits.report.gpu) == (0, True, "H100 SXM")
    assert estimate(EstimateOptions(model="llama-70b", gpu="H100")).exit_code == 1


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
