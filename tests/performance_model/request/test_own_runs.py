"""Runs of one's own: the more alike they are, the further they move another training's bounds, the less they leave."""

import math
from dataclasses import replace
from typing import Any

import pytest

from raybench.performance_model.estimate.estimate import estimate
from raybench.performance_model.request.own_runs import (
    NO_CORRECTION,
    WEIGHTS,
    OwnRun,
    Told,
    Traits,
    by_others,
    correction_of,
    correlation,
    distances,
)
from tests.performance_model.published_runs import all_runs
from tests.performance_model.step import own_runs as published

ONE = Traits(
    ranks=8, parameters=8 * 10**9, tokens=8192, launches=0.1, communication=0.1, gpu="H100 SXM", strategy="fsdp",
    adapters=(False, False), kernels=("plain", None), dtype="bf16", cut=(1, 1, 1),
)  # fmt: skip


def ran(times: float, traits: Traits = ONE, said: tuple[object, ...] = ()) -> OwnRun:
    """A run that took so many times as long as told, within bounds of a factor e."""
    return OwnRun(text="mine", seconds=times, told=(Told(said=said, traits=traits, seconds=1.0, half_width=0.5),))


def test_the_same_training_moves_most_and_leaves_least() -> None:
    own = correction_of(ONE, (), [ran(math.exp(0.25))])
    assert own.shift == pytest.approx(0.5 * correlation(ONE, ONE))
    assert 0.8 < correlation(ONE, ONE) < 1  # what is noise of each run stays
    assert own.share(0.5) == pytest.approx(math.hypot(0.12 / 0.5, 0.5))
    assert own.share(0.05) == 1.0  # bounds that are narrower than any run leaves them
    assert correction_of(ONE, (), []) == NO_CORRECTION
    assert (NO_CORRECTION.times(0.5), NO_CORRECTION.share(0.5)) == (1.0, 1.0)


@pytest.mark.parametrize(
    "other",
    [
        {"ranks": 1024}, {"parameters": 10**9}, {"tokens": 65536}, {"launches": 0.8}, {"communication": 0.3},
        {"gpu": "A100 SXM 80GB"}, {"strategy": "ddp"}, {"adapters": (True, False)}, {"kernels": ("fused", None)},
        {"dtype": "fp8"}, {"cut": (4, 1, 2)},
    ],
)  # fmt: skip
def test_whatever_tells_two_trainings_apart_makes_them_less_alike(other: dict[str, Any]) -> None:
    apart = replace(ONE, **other)
    assert {name for name, far in distances(ONE, apart).items() if far} == set(other)
    assert correlation(apart, ONE) == correlation(ONE, apart) < correlation(ONE, ONE)
    near, far = correction_of(ONE, (), [ran(1.3)]), correction_of(apart, (), [ran(1.3)])
    assert 0 < far.shift < near.shift
    assert (far.left or 0) > (near.left or 1)


def test_every_weight_is_of_something_and_none_is_left_out() -> None:
    assert set(WEIGHTS) == set(distances(ONE, ONE))
    assert all(weight > 0 for weight in WEIGHTS.values())


def test_several_runs_say_more_than_one_and_may_contradict_each_other() -> None:
    half = replace(ONE, parameters=4 * 10**9)
    one, two = (correction_of(half, (), runs) for runs in ([ran(1.3)], [ran(1.3), ran(1.3)]))
    assert two.shift > one.shift
    assert (two.left or 1) < (one.left or 0)
    assert correction_of(ONE, (), [ran(1.3), ran(1 / 1.3)]).shift == pytest.approx(0)


@pytest.mark.parametrize(
    ("times", "contradicted"), [((1.0, 1.25), []), ((1.0, 2.0), [0, 1]), ((1.0, 1.05, 2.2), [2]), ((1.6, 1.7), [])]
)
def test_runs_that_contradict_each_other_are_told(times: tuple[float, ...], contradicted: list[int]) -> None:
    """3 s and 6 s of the very same training were averaged without a word."""
    found = by_others([ran(one) for one in times])
    assert [index for index, seconds in enumerate(found) if seconds is not None] == contradicted
    if contradicted:
        assert found[contradicted[-1]] == pytest.approx(1.0, abs=0.05)
    far = replace(ONE, gpu="A100 SXM 80GB", strategy="ddp", kernels=("fused", True), cut=(4, 1, 2), communication=0.4)
    assert by_others([ran(1.0), ran(2.0, far)]) == (None, None)  # so unlike that it may well be
    assert by_others([ran(3.0)]) == (None,)


def test_what_is_open_of_both_is_compared_as_the_same() -> None:
    slow, fast = (
        Told(said=(said,), traits=ONE, seconds=seconds, half_width=0.3) for said, seconds in (("a", 2.0), ("b", 1.0))
    )
    run = OwnRun(text="mine", seconds=2.0, told=(slow, fast))
    assert correction_of(ONE, ("a",), [run]).shift == pytest.approx(0)
    assert correction_of(ONE, ("b",), [run]).shift > 1
    assert correction_of(ONE, ("neither",), [run]).shift == pytest.approx(0)  # as it stands
    assert run.times == 1.0


def test_what_is_open_of_the_run_is_as_it_is_asked_where_that_says_more() -> None:
    stands, fused = (
        Told(said=said, traits=replace(ONE, kernels=(said[0], None)), seconds=seconds, half_width=0.3)
        for said, seconds in ((("plain", "plain", None), 2.0), (("fused", "fused", True), 1.0))
    )
    run = OwnRun(text="mine", seconds=1.0, told=(stands, fused))
    assert run.told_so(("fused", "fused", None)) == fused
    assert run.told_so(("plain", "plain", False)) == stands


def test_a_published_training_is_nearer_its_own_time_beside_itself() -> None:
    run = next(one for one in all_runs() if one.source == "torchtune" and one.tokens_per_second)
    alone = estimate(run.request, alone=False)
    traits, likely = alone.traits, alone.likely_step_seconds or 1.0
    assert traits is not None
    low, high = alone.step_seconds or (0.0, 1.0)
    told = Told(said=alone.said, traits=traits, seconds=likely, half_width=math.log(high / low) / 2)
    own = (OwnRun(text="itself", seconds=1.5 * likely, told=(told,)),)
    found = estimate(replace(run.request, own_runs=own), alone=False)
    assert found.step.uncorrected == alone.step_seconds
    assert (found.likely_step_seconds or 0) == pytest.approx(1.5 * likely, rel=0.05)
    after = found.step_seconds or (0.0, 1.0)
    assert after[1] / after[0] < 0.95 * high / low
    assert found.step.efficiency_range[1] < alone.step.efficiency_range[1]
    assert (found.computation_seconds or (0,))[0] > (alone.computation_seconds or (0,))[0]


@pytest.mark.long
def test_own_runs_hold_as_many_published_step_times_within_narrower_bounds() -> None:
    rows = published.rows_of(all_runs())
    one, near, three = (published.judged(rows, seen, near=close) for seen, close in ((1, False), (1, True), (3, False)))
    for found, most in ((one, 0.95), (near, 0.87), (three, 0.9)):
        assert found.sources > 50
        assert found.inside > found.inside_alone - 0.02, found
        assert found.width < most * found.width_alone, found
    assert near.width < 1.6
    for least in (
        0.0,
        math.log(1.2),
    ):  # ways compared as they are corrected, not all by as much as the one that was run
        order = published.ordered(rows, least_error=least)
        assert order.sources > 20
        assert order.right > order.right_alone - 0.01, order
        assert order.lost < order.lost_alone, order
    shared, weights = published.fitted(rows)
    assert shared == pytest.approx(published.SHARED, abs=0.03)
    for name in ("communication", "gpu", "kernels"):  # those that matter most
        assert weights[name] == pytest.approx(WEIGHTS[name], rel=0.25)
