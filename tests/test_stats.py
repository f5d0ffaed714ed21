"""Statistics against the standard library and NumPy, and the bootstrap against what an interval promises."""

import math
import random
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from raybench.stats import deviation, median, median_interval, quantile, summarize

SAMPLES = st.lists(st.floats(1e-9, 1e3), min_size=1, max_size=60)


@given(SAMPLES)
def test_a_summary_is_what_the_standard_library_and_numpy_say(samples: list[float]) -> None:
    summary = summarize(samples)
    assert summary.median == pytest.approx(statistics.median(samples), rel=1e-12)
    assert summary.mean == pytest.approx(statistics.fmean(samples), rel=1e-12)
    assert (summary.min, summary.max) == (min(samples), max(samples))
    assert summary.p99 == pytest.approx(float(np.quantile(samples, 0.99)), rel=1e-9)
    expected = statistics.stdev(samples) if len(samples) > 1 else 0.0
    assert summary.stddev == pytest.approx(expected, rel=1e-9, abs=1e-12)


@given(SAMPLES, st.floats(0, 1))
def test_a_quantile_is_numpys(samples: list[float], fraction: float) -> None:
    assert quantile(sorted(samples), fraction) == pytest.approx(float(np.quantile(samples, fraction)), rel=1e-9)


def test_nothing_cannot_be_summarized() -> None:
    with pytest.raises(ValueError, match="no samples"):
        summarize([])


def test_small_cases_by_hand() -> None:
    assert median([3.0, 1.0, 2.0]) == 2.0
    assert median([4.0, 1.0]) == 2.5
    assert deviation([2.0, 4.0], 3.0) == math.sqrt(2.0)
    assert deviation([2.0], 2.0) == 0.0


@pytest.mark.parametrize("launches", [[], [[]], [[[1.0, 2.0]]], [[[1.0], []]], [[[]], [[1.0]]]])
def test_fewer_than_two_blocks_have_no_interval(launches: list[list[list[float]]]) -> None:
    assert median_interval(launches) is None


def test_two_blocks_have_one_and_it_is_the_same_each_time() -> None:
    launches = [[[1.0, 2.0, 3.0], [2.0, 3.0, 4.0]]]
    assert median_interval(launches) == median_interval(launches) == (2.0, 3.0)


def test_blocks_are_drawn_whole() -> None:
    """Two blocks that each repeat one value: the pooled median can only be one of them or halfway."""
    low, high = median_interval([[[1.0] * 10, [3.0] * 10]]) or (0.0, 0.0)
    assert (low, high) == (1.0, 3.0)


def test_launches_are_drawn_whole() -> None:
    """Blocks agree within each launch, launches do not: the interval must span the launches."""
    low, high = median_interval([[[1.0] * 5] * 4, [[2.0] * 5] * 4]) or (0.0, 0.0)
    assert (low, high) == (1.0, 2.0)


@pytest.mark.parametrize("lengths", [(20, 20, 20, 20, 20), (20, 21, 20, 19, 20)], ids=["equal", "unequal"])
def test_the_interval_covers_the_true_median_about_as_often_as_it_says(lengths: tuple[int, ...]) -> None:
    """Blocks differ (a level of their own), so intervals over samples would cover far too seldom: half of the time.

    The percentile bootstrap over five blocks is known to be short: about 85 % where 95 % is aimed at.
    """
    source, covered, trials = random.Random(7), 0, 60
    for _ in range(trials):
        levels = [source.gauss(10.0, 0.3) for _ in lengths]
        blocks = [[source.gauss(level, 0.3) for _ in range(n)] for level, n in zip(levels, lengths, strict=True)]
        low, high = median_interval([blocks], resamples=300) or (0.0, 0.0)
        covered += low <= 10.0 <= high
    assert 0.72 <= covered / trials <= 0.97


def test_equal_and_unequal_paths_agree() -> None:
    """One more sample in one of six blocks takes the other path; the interval must hardly move."""
    source = random.Random(3)
    launches = [[[source.gauss(10.0, 1.0) for _ in range(60)] for _ in range(6)] for _ in range(3)]
    equal = median_interval(launches) or (0.0, 0.0)
    launches[1][2] = [*launches[1][2], 10.0]
    unequal = median_interval(launches) or (0.0, 0.0)
    width = equal[1] - equal[0]
    assert width > 0
    assert unequal == pytest.approx(equal, abs=width * 0.15)
