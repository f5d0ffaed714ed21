"""The largest micro-batch where kernels, loss or experts' form are not said: that which fits in any case, first."""

from dataclasses import replace
from typing import Any

import pytest

from raybench.performance_model.estimate.estimate import estimate
from raybench.performance_model.nearest.fit import Fitting, nearest_fit
from raybench.reports.builders.asked import Asked
from raybench.reports.builders.estimates.estimate import estimate_tables
from raybench.services.estimating.estimate import estimate as estimated
from raybench.services.estimating.options import EstimateOptions
from raybench.services.estimating.request import estimate_request

SMALL = EstimateOptions(model="llama-3.2-1b", world_size=8, gpu="H100", strategy="fsdp", sequence_length=4096)
EXPERTS = EstimateOptions(
    model="mixtral-8x7b", world_size=32, gpu="H100", nics=8, nic_gbit=400, strategy="zero1",
    tensor_parallel=4, expert_parallel=8, kernels="fused", loss="fused",
)  # fmt: skip


def fits(options: EstimateOptions, **changes: Any) -> bool | None:
    return estimate(estimate_request(replace(options, **changes))).fits


@pytest.mark.parametrize("options", [SMALL, replace(SMALL, kernels="fused"), EXPERTS], ids=["none", "loss", "experts"])
def test_the_largest_batch_fits_whatever_is_not_said(options: EstimateOptions) -> None:
    largest = estimate(estimate_request(options)).largest_batch
    assert largest is not None
    assert 0 < largest.sure < largest.lean
    assert fits(options, batch_size=largest.sure) is True
    assert fits(options, batch_size=largest.sure + 1) is None


def test_the_lean_one_fits_with_what_it_is_said_to_need() -> None:
    largest = estimate(estimate_request(EXPERTS)).largest_batch
    assert largest is not None
    assert largest.lean_is == "experts cut over tensor ranks"
    assert fits(EXPERTS, batch_size=largest.sure + 1, expert_tensor_parallel=1) is not True
    assert fits(EXPERTS, batch_size=largest.lean, expert_tensor_parallel=4) is not False


def test_the_verdict_has_both() -> None:
    memory = (report := estimated(SMALL).report).memory
    reason = estimate_tables(report, Asked()).reason
    both = (
        f"largest batch size {memory.largest_batch_size} ({memory.lean_batch_size} with the leanest kernels and loss)"
    )
    assert reason.endswith(both)
    said = estimate_tables(estimated(replace(SMALL, kernels="fused", loss="chunked")).report, Asked()).reason
    assert "leanest kernels" not in said


@pytest.mark.parametrize("batch_size", [4, 16])
def test_the_nearest_that_fits_does_with_experts_in_either_form(batch_size: int) -> None:
    """Of small micro-batches whole ones take more, of large ones those that are cut."""
    request = estimate_request(EXPERTS)
    setup = replace(request.setup, batch_size=batch_size)
    run = Fitting(model=request.model, setup=setup, layout=request.layout, accumulation=2)
    peaks = {cut: replace(run, layout=replace(run.layout, expert_cut=cut)).memory.peak for cut in (1, 4)}
    assert run.memory.peak == max(peaks.values())
    assert (peaks[1] > peaks[4]) is (batch_size == 4)
    found = nearest_fit(run, run.memory.peak - 1)
    assert found is not None
    either = [replace(found.run, layout=replace(found.run.layout, expert_cut=cut)) for cut in (1, 4)]
    assert all(one.memory.peak < run.memory.peak for one in either)
