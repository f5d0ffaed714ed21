"""The estimator of the agent's cost: what drifts is not in it, alike sides are alike, and few rounds say nothing."""

import math
import random
from dataclasses import replace

import pytest

from tests.measurements.agent_steps import Cost, judged
from tests.measurements.comparison import Ratio, paired_ratio_of, ratio_of


def test_a_machine_that_slows_down_from_round_to_round_is_in_both_sides() -> None:
    source = random.Random(3)
    pace = [1 + 0.1 * number for number in range(20)]
    reference = [one * source.gauss(1, 0.001) for one in pace]
    measured = [one * 1.004 * source.gauss(1, 0.001) for one in pace]
    found = paired_ratio_of(measured, reference)
    assert found.value == pytest.approx(1.004, abs=0.001)
    assert found.high - found.low < 0.003
    assert ratio_of(measured, reference).high - ratio_of(measured, reference).low > found.high - found.low


def test_a_few_disturbed_turns_do_not_move_it() -> None:
    measured = [1.0] * 17 + [9.0, 9.0, 9.0]
    assert paired_ratio_of(measured, [1.0] * 20) == Ratio(value=1.0, low=1.0, high=1.0, rounds=20)


def test_the_interval_of_alike_sides_holds_one() -> None:
    source = random.Random(1)
    sides = [[[source.lognormvariate(0, 0.2) for _ in range(20)] for _ in range(2)] for _ in range(400)]
    held = sum((found := paired_ratio_of(*pair)).low <= 1 <= found.high for pair in sides)
    assert 0.94 < held / len(sides) < 0.985  # 95.9 % of 20 rounds


def test_five_rounds_have_no_interval() -> None:
    found = paired_ratio_of([1.1] * 5, [1.0] * 5)
    assert (found.low, found.high) == (-math.inf, math.inf)
    assert found.verdict(1.005) == "inconclusive"
    assert paired_ratio_of([1.1] * 6, [1.0] * 6).verdict(1.005) == "missed"


OPEN = (0.95, 1.06)


def ratio(low: float, high: float) -> Ratio:
    return Ratio(value=(low + high) / 2, low=low, high=high, rounds=20)


@pytest.mark.parametrize(
    ("measured", "control", "verdict"),
    [
        ((1.0, 1.004), (0.99, 1.01), "met"),
        ((1.006, 1.01), (0.99, 1.01), "missed"),
        ((1.0, 1.01), (0.99, 1.01), "inconclusive"),
        ((1.0, 1.004), (1.0001, 1.001), "met"),  # off by chance, and by nothing that counts
        ((1.0, 1.004), (1.001, 1.01), "inconclusive: the control is off"),
    ],
)
def test_a_control_that_is_off_leaves_it_open(
    measured: tuple[float, float], control: tuple[float, float], verdict: str
) -> None:
    off = ratio(1.2, 1.4)
    assert judged(ratio(*measured), ratio(*control), ratio(1.0, 1.001), off, 10.0) == verdict


@pytest.mark.parametrize(
    ("seldom", "often", "verdict"),
    [
        (OPEN, (1.0, 1.04), "met"),  # ten times as often: a tenth of that
        (OPEN, (1.06, 1.2), "missed"),
        (OPEN, (1.0, 1.09), "inconclusive"),
        ((1.0, 1.004), (1.06, 1.2), "inconclusive"),  # they contradict each other
    ],
)
def test_what_is_too_small_to_see_is_decided_by_an_agent_that_reads_ten_times_as_often(
    seldom: tuple[float, float], often: tuple[float, float], verdict: str
) -> None:
    scaled = replace(COST, beside=ratio(*often)).per(10.0)
    assert judged(ratio(*seldom), ratio(0.9, 1.1), scaled, ratio(0.9, 1.1), 10.0) == verdict


COST = Cost(beside=ratio(*OPEN), control=ratio(*OPEN), agent=0.05, rest=0.001, step_seconds=0.005, pss_mib=17.0)
