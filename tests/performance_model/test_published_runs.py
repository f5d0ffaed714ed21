"""Estimates against runs that others published: what ran is never told that it does not fit."""

from dataclasses import replace

import pytest

from raybench.performance_model.estimate import estimate
from tests.performance_model.published_runs import published_runs

RUNS = tuple(published_runs())


def test_every_row_of_the_tables_is_read() -> None:
    assert len(RUNS) == 209


def test_no_run_that_was_done_is_told_that_it_does_not_fit() -> None:
    wrong = [run.name for run in RUNS if estimate(run.request).fits is False]
    assert wrong == []


def test_with_the_loss_and_kernels_that_ran_all_fit() -> None:
    told = [
        estimate(replace(run.request, setup=replace(run.request.setup, kernels="fused", loss="fused"),
                         kernels_known=True, loss_known=True)).fits
        for run in RUNS
    ]  # fmt: skip
    assert all(told)


def test_twice_the_batch_of_most_runs_does_not_fit() -> None:
    """Their micro-batches were the largest that fit: a bound that takes all for fitting would be none."""
    doubled = [
        replace(run.request, setup=replace(run.request.setup, batch_size=2 * run.request.setup.batch_size,
                                           kernels="fused", loss="fused"))
        for run in RUNS
    ]  # fmt: skip
    assert sum(estimate(request).memory.peak > (request.memory_bytes or 0) for request in doubled) > len(RUNS) / 2


def test_parameters_are_counted_as_published() -> None:
    for run in RUNS:
        assert run.request.model.parameters == pytest.approx(run.parameters, rel=1e-3)
