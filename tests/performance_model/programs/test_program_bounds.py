"""Bounds of a step where the program is named, of sources that had no part in them."""

from statistics import fmean, median

import pytest

from raybench.performance_model.programs.table import PROGRAMS
from raybench.performance_model.step.spreads import PROGRAMS_TIMED, SPREADS
from tests.performance_model.programs.program_bounds import by_sources, rows_and_needs, spreads_of, table


def test_a_program_is_judged_by_step_times_that_there_are() -> None:
    assert {one.timing for one in PROGRAMS} - {""} == set(PROGRAMS_TIMED)
    assert set(PROGRAMS_TIMED) <= set(SPREADS)


@pytest.mark.long
def test_named_programs_hold_nine_in_ten_and_are_narrower_than_where_nothing_is_said() -> None:
    """Nobody has moved a program's factors by hand; each source is judged by those of the others."""
    rows, needs, fits = rows_and_needs()
    spreads = spreads_of(needs, rows)
    for name in PROGRAMS_TIMED:
        now = SPREADS[name]
        assert (now.slow, now.fast) == pytest.approx((spreads[name].slow, spreads[name].fast), rel=0.01)
    found = by_sources(rows, needs, fits)
    inside, width = {}, {}
    for kind in ("nothing said", "as a class", "program"):
        own = [[one for one in found if one.source == source and one.kind == kind] for source in fits]
        inside[kind] = fmean(fmean(one.inside for one in each) for each in own if each)
        width[kind] = median(one.width for one in found if one.kind == kind)
    assert min(inside["program"], inside["nothing said"]) >= 0.9
    assert width["program"] <= 0.88 * width["nothing said"]
    assert inside["program"] > inside["as a class"]
    assert "torchtitan" in table(found)
