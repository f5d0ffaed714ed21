"""The constants of the computation: what they are fitted to, and how they do on sources that they were not."""

from dataclasses import asdict
from functools import cache

import pytest

from raybench.performance_model.step.efficiency import CALIBRATION
from tests.performance_model.calibration_fit import Observation, fitted, observations
from tests.performance_model.leave_one_out import outcome, promised
from tests.performance_model.other_formulas import FORMULAS
from tests.performance_model.published_runs import all_runs

RUNS = all_runs()
OTHERS = tuple(run for run in RUNS if run.source != "llm-foundry")


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
