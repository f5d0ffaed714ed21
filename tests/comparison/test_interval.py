"""Intervals on real runs over a shaped link: the same thing is no difference, and 5 % is found."""

import itertools
import json
import math
import random
from pathlib import Path

import pytest

from raybench.comparison.interval import AGAIN, ratio_interval
from raybench.comparison.one_launch import launch_share, reach
from raybench.comparison.run_side import run_side
from raybench.comparison.side import SideFigure
from raybench.documents.run.result import RunResult
from raybench.stats import student, student_quantile
from tests.comparison.recorded import FULL, SLOWER, figure

SAMPLE = Path(__file__).parents[1] / "documents/samples/collective-26f0ebe.json"


@pytest.mark.parametrize("degrees", [1, 2, 3, 5, 8, 10, 15, 30, 60, 120])
def test_quantiles_of_student_are_those_of_the_table(degrees: int) -> None:
    assert student_quantile(degrees, 0.025) == pytest.approx(student(degrees), rel=3e-4)


def test_quantiles_beyond_the_table_are_known_ones() -> None:
    assert student_quantile(1, 0.0005) == pytest.approx(636.619, rel=1e-5)  # any large table
    assert student_quantile(8, 0.0005) == pytest.approx(5.0413, rel=1e-4)
    assert student_quantile(1e6, 0.025) == pytest.approx(1.95996, rel=1e-4)  # the normal distribution's


def test_the_same_thing_launched_once_each_is_no_difference() -> None:
    pairs = [*itertools.combinations(FULL, 2), *itertools.combinations(SLOWER, 2)]
    clear = sum(ratio_interval(figure(one), figure(two)).is_clear for one, two in pairs)
    assert len(pairs) > 300
    assert clear <= 0.05 * len(pairs)


@pytest.mark.parametrize("runs", [2, 3, 5])
def test_several_runs_of_the_same_thing_are_no_difference(runs: int) -> None:
    chosen = random.Random(1)
    draws = [chosen.sample(FULL, 2 * runs) for _ in range(200)]
    clear = sum(ratio_interval(figure(*draw[:runs]), figure(*draw[runs:])).is_clear for draw in draws)
    assert clear <= 0.05 * len(draws)


@pytest.mark.parametrize("runs", [3, 5])
def test_a_link_that_is_5_percent_slower_is_found(runs: int) -> None:
    chosen = random.Random(2)
    draws = [(chosen.sample(FULL, runs), chosen.sample(SLOWER, runs)) for _ in range(200)]
    found = [ratio_interval(figure(*before), figure(*after)) for before, after in draws]
    assert sum(one.low > 1 for one in found) >= 0.95 * len(draws)
    assert sum(one.low <= 100 / 95 <= one.high for one in found) >= 0.9 * len(draws)


def test_one_run_takes_the_spread_of_the_other_sides_runs() -> None:
    found = ratio_interval(figure(*FULL[:6]), figure(SLOWER[0]))
    assert (found.repeated, found.counts, found.allowed) == ("runs", (6, 1), None)
    assert found.low > 1
    assert not ratio_interval(figure(*FULL[:6]), figure(FULL[7])).is_clear


def test_many_figures_make_each_interval_wider() -> None:
    alone, together = (ratio_interval(figure(*FULL[:4]), figure(*FULL[4:8]), figures=count) for count in (1, 26))
    assert together.half_width > 1.5 * alone.half_width


def test_launches_that_differ_are_not_made_certain_by_their_many_samples() -> None:
    """Each launch has a level of its own, 10 % apart, and no noise within: two of them say nothing of a difference."""
    noisy = random.Random(3)
    runs = [[level * (1 + noisy.gauss(0, 1e-4)) for _ in range(1000)] for level in (1.0, 1.1, 1.2, 1.1)]
    assert not ratio_interval(figure(*runs[:2]), figure(*runs[2:])).is_clear
    one_each = ratio_interval(figure(runs[0], allowed=0.3), figure(runs[1], allowed=0.3))
    assert (one_each.repeated, one_each.allowed, one_each.is_clear) == ("blocks", 0.3, False)


def test_samples_that_drift_widen_the_interval_of_their_median() -> None:
    """Neighbours are alike: 40 samples in five levels are five samples, and not forty."""
    noise = random.Random(4)
    apart = [noise.gauss(1, 0.05) for _ in range(40)]
    drifting = sorted(apart)
    assert reach(figure(drifting), 0.025)[1] > 2 * reach(figure(apart), 0.025)[1]


def test_blocks_that_differ_allow_launches_to_differ_by_more() -> None:
    steady, restless = figure([1.0] * 40), figure([1.0 + 0.1 * (index // 8 % 3) for index in range(40)])
    assert launch_share(steady) == pytest.approx(0.03)
    assert launch_share(restless) > 0.2


def test_the_mean_counts_stalls_that_the_median_does_not() -> None:
    steps = [1.0] * 36 + [5.0] * 4
    runs = (((tuple(steps),),),)
    by_mean, by_median = (SideFigure(unit="s", runs=runs, is_mean=mean).value for mean in (True, False))
    assert (by_mean, by_median) == (pytest.approx(1.4), pytest.approx(1.0))


def test_an_interval_that_is_open_above_is_still_a_number() -> None:
    found = ratio_interval(figure([1.0, 2.0] * 3), figure([1e-9, 3.0] * 3), figures=1000)
    assert 0 <= found.low < found.high < math.inf


def test_launches_made_until_they_lay_together_have_a_longer_interval_and_planned_ones_not() -> None:
    launches = tuple((tuple(run),) for run in FULL[:4])
    planned, again = (SideFigure(unit="s", runs=(launches,), again=one) for one in (False, True))
    other = SideFigure(unit="s", runs=(launches[:3],))
    width = [
        math.log(found.high / found.low) for found in (ratio_interval(planned, other), ratio_interval(again, other))
    ]
    assert width[1] == pytest.approx(AGAIN * width[0])
    several = [SideFigure(unit="s", runs=(launches[:2], launches[2:]), again=one) for one in (False, True)]
    assert len({ratio_interval(one, one).high for one in several}) == 1, "whole runs were not chosen"


@pytest.mark.parametrize(("planned", "again"), [(5, False), (4, True), (None, False)])
def test_a_run_knows_which_of_its_figures_were_launched_again(planned: int | None, again: bool) -> None:
    content = json.loads(SAMPLE.read_text(encoding="utf-8"))
    content["config"]["repeats"] = planned
    for point in content["benchmarks"][0]["points"]:
        point["block_iterations"] = [[length] for length in point["block_iterations"][0]]  # five launches
    side = run_side("it", [RunResult.of_json(content, "it")])
    assert {one.again for one in side.figures.values()} == {again}
