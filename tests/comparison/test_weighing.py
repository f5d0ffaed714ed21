"""A launch that was held up counts by what its own samples tell; one that is slow steadily counts in full."""

import itertools
import math
import random
from collections import Counter
from collections.abc import Sequence

import pytest

from raybench.comparison.comparing import compare
from raybench.comparison.interval import ratio_interval
from raybench.comparison.side import Side, SideFigure, blocks_of
from raybench.stats import student
from raybench.weighing import Repeats, combined, weigh_alone
from tests.comparison.live_pairs import word_of
from tests.comparison.recorded import KEY, SERIES, sampled_run

Launch = list[float]


def quiet(seed: int, level: float = 1.0) -> Launch:
    """20 samples within 0.5 % of each other."""
    noise = random.Random(seed)
    return [level * math.exp(noise.gauss(0, 0.005)) for _ in range(20)]


def held(seed: int, level: float = 1.0) -> Launch:
    """Most samples are held up, by up to a quarter."""
    noise = random.Random(seed)
    return [level * math.exp(max(noise.gauss(0.08, 0.07), 0.0)) for _ in range(20)]


def side(*launches: Sequence[float], name: str = "runs", is_mean: bool = False) -> Side:
    figure = SideFigure(unit="s", runs=(tuple(map(blocks_of, map(tuple, launches))),), is_mean=is_mean)
    return Side(name=name, kind="run", machine={"nodes": "2"}, figures={KEY: figure})


BEFORE = side(quiet(1), quiet(2), quiet(3), name="A")


@pytest.mark.parametrize(
    ("launches", "said"),
    [
        ([quiet(4), held(5), quiet(6)], "no difference"),
        ([quiet(4, 1.05), held(5, 1.05), quiet(6, 1.05)], "slower"),
        ([quiet(4), quiet(5, 1.08), quiet(6)], "cannot tell"),  # steadily so: the next launch may be like it
        ([held(4), held(5), quiet(6)], "cannot tell"),  # the only quiet one does not speak for the others
        ([held(4, 1.05), held(5, 1.05), held(6, 1.05)], "slower"),
    ],
    ids=["one held up", "one held up, all slower", "one slow", "two held up", "all held up and slower"],
)
def test_what_is_said_beside_three_quiet_launches(launches: list[Launch], said: str) -> None:
    assert word_of(compare([BEFORE, side(*launches, name="B")])) == said


def test_five_launches_bear_two_that_were_held_up() -> None:
    before = side(*map(quiet, range(10, 15)))
    two = side(quiet(15), held(16), quiet(17), held(18), quiet(19))
    three = side(quiet(15), held(16), held(17), held(18), quiet(19))
    assert [word_of(compare([before, other])) for other in (two, three)] == ["no difference", "cannot tell"]


def test_the_launch_that_counts_for_less_is_named() -> None:
    found = compare([BEFORE, side(quiet(4), held(5), quiet(6), name="B")])
    (remark,) = found.remarks
    assert remark.startswith("B: launch 2 of 3 is ")
    assert "% slower than its run in all_reduce float32 sum, 1M, with samples too far apart" in remark


@pytest.mark.parametrize(
    "launches",
    [
        [quiet(4), quiet(5, 1.08), quiet(6)],  # slow, and known to be
        [held(4), held(5), held(6)],  # none is worse known than the others
        [quiet(4), held(5)],  # of two none is the usual one
        [quiet(4), [*quiet(5)[:10], *held(6, 0.93)[:10]], quiet(6)],  # less well known, at the level of the others
    ],
    ids=["steady", "all alike", "two", "same level"],
)
def test_no_launch_is_named_for_nothing(launches: list[Launch]) -> None:
    assert compare([BEFORE, side(*launches, name="B")]).remarks == ()


def test_stalls_of_a_training_count_in_full() -> None:
    """Of a mean the samples that lie far off are what is measured: a launch that stalls widens the interval."""
    steady, stalled = [1.0, 1.001] * 10, [1.0, 1.001] * 9 + [2.0, 1.8]
    before, after = (side(steady, one, steady, is_mean=True) for one in (steady, stalled))
    found = ratio_interval(before.figures[KEY], after.figures[KEY])
    assert found.ratio > 1.02
    assert not found.is_clear
    assert found.high > 1.1


def test_launches_of_one_sample_each_have_students_interval() -> None:
    before, after = [1.0, 1.01, 1.03], [1.05, 1.0815, 1.0605]  # spread alike, so that Welch's is the same
    found = ratio_interval(side(*([one] for one in before)).figures[KEY], side(*([one] for one in after)).figures[KEY])
    logs = [[math.log(one) for one in launches] for launches in (before, after)]
    means = [sum(levels) / 3 for levels in logs]
    squares = sum((level - mean) ** 2 for levels, mean in zip(logs, means, strict=True) for level in levels)
    half = student(4) * math.sqrt(squares / 4 * 2 / 3)
    assert found.ratio == pytest.approx(math.exp(means[1] - means[0]))
    assert math.log(found.high / found.low) == pytest.approx(2 * half, rel=1e-3)


def test_a_level_is_never_known_better_than_its_repeats_know_theirs() -> None:
    """Three that agree by chance to a thousandth of their errors are no certainty."""
    level, error = combined(Repeats(levels=(0.0, 1e-5, -1e-5), errors=(0.01, 0.01, 0.01)))
    assert level == pytest.approx(0.0)
    assert error == pytest.approx(0.01 / math.sqrt(3))


@pytest.mark.parametrize(
    ("errors", "shares"),
    [
        ((0.0, 0.0, 0.0), (1 / 3, 1 / 3, 1 / 3)),
        ((0.001, 0.001, 0.1), (0.5, 0.5, 0.0)),
        ((0.001, 0.1, 0.1), (1 / 3, 1 / 3, 1 / 3)),
        ((0.001, 0.1), (0.5, 0.5)),
        ((0.001, 0.001, 0.001, 0.1), (1 / 3, 1 / 3, 1 / 3, 0.0)),
        ((0.001, 0.001, 0.1, 0.1), (0.25, 0.25, 0.25, 0.25)),
    ],
)
def test_less_than_half_of_the_repeats_can_lose_weight(errors: tuple[float, ...], shares: tuple[float, ...]) -> None:
    weighed = weigh_alone(Repeats(levels=(0.0,) * len(errors), errors=errors))
    assert weighed.shares == pytest.approx(shares, abs=1e-3)


@pytest.mark.parametrize(("series", "share"), [("load 1.1 to 2.1", 1.0), ("load 3 to 16", 0.9)])
def test_recorded_runs_of_the_same_link_are_no_difference_and_5_percent_is_found(series: str, share: float) -> None:
    """Each run with the next three at its rate; each slower one with the run just before, and with every fourth."""
    runs = SERIES[series]
    sides = [sampled_run(run) for run in runs]
    numbers = {rate: [at for at, run in enumerate(runs) if run["rate"] == rate] for rate in ("100mbit", "95mbit")}
    near = [(a, b) for some in numbers.values() for at, a in enumerate(some) for b in some[at + 1 : at + 4]]
    same = Counter(word_of(compare([sides[a], sides[b]])) for a, b in near)
    beside = [(at - 1, at) for at in numbers["95mbit"]]
    far = itertools.product(numbers["100mbit"][::4], numbers["95mbit"])
    slower = Counter(word_of(compare([sides[a], sides[b]])) for a, b in {*beside, *far})
    assert same["no difference"] >= share * same.total()
    assert set(same) <= {"no difference", "cannot tell"}
    assert slower["slower"] >= 0.95 * slower.total()
    assert set(slower) <= {"slower", "cannot tell"}


def test_a_false_difference_is_as_rare_as_is_said() -> None:
    """Launches of unequal noise, some held up: in 1.67 % of pairs of the same at most, as one of three figures."""
    drawn = random.Random(8)

    def some() -> SideFigure:
        launches = [
            held(drawn.randrange(10**9)) if drawn.random() < 0.2 else quiet(drawn.randrange(10**9)) for _ in "123"
        ]
        return side(*launches).figures[KEY]

    clear = sum(ratio_interval(some(), some(), figures=3).is_clear for _ in range(400))
    assert clear <= 0.05 / 3 * 400
