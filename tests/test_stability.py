"""Each stability rule fires on what it is about, and stays quiet on its near miss."""

import random
import re
from collections.abc import Sequence

import pytest

from raybench.documents.run.point import Point
from raybench.stability import benchmark_warnings, stability_warnings, warnings_of

Launches = tuple[tuple[tuple[float, ...], ...], ...]


def point(launches: Launches, message_bytes: int = 65536, **pair: int) -> Point:
    return Point(
        message_bytes=message_bytes,
        element_count=message_bytes // 4,
        bus_factor=1.0,
        launches=launches,
        rank_seconds=(1e-3,),
        verified=True,
        wrong_elements=0,
        **pair,
    )


def blocks(*middles: float, iterations: int = 20, noise: float = 0.01, seed: int = 1) -> tuple[tuple[float, ...], ...]:
    """Blocks of samples around the given seconds."""
    source = random.Random(seed)
    return tuple(tuple(middle * source.lognormvariate(0, noise) for _ in range(iterations)) for middle in middles)


def with_samples(samples: Sequence[float], replaced: Sequence[float]) -> Launches:
    """Five blocks of a hundred samples, the last ones replaced."""
    every = (*samples[: len(samples) - len(replaced)], *replaced)
    return (tuple(tuple(every[index::5]) for index in range(5)),)


def kinds(measured: Point) -> set[str]:
    return {warning.kind for warning in warnings_of(measured)}


STEADY = (1e-3,) * 5
HUNDRED = tuple(sample for block in blocks(*STEADY) for sample in block)


def test_steady_samples_raise_no_warning() -> None:
    assert stability_warnings(point((blocks(*STEADY),))) == ()


def test_no_samples_raise_no_warning() -> None:
    assert stability_warnings(point(())) == ()
    assert benchmark_warnings(()) == ()


@pytest.mark.parametrize(
    ("kind", "fires", "near_miss"),
    [
        ("few-samples", (blocks(*STEADY[:4]),), (blocks(*STEADY, iterations=4),)),
        ("few-samples", (blocks(*STEADY, iterations=3),), (blocks(*STEADY, iterations=4),)),
        ("warming-up", (blocks(1.15e-3, *STEADY),), (blocks(1.08e-3, *STEADY),)),
        ("unsteady", (blocks(1e-3, 1.3e-3, 0.9e-3, 1.2e-3, 1e-3),), (blocks(1e-3, 1.05e-3, 0.95e-3, 1.05e-3, 1e-3),)),
        ("unsteady", (blocks(*STEADY * 10, 1.6e-3),), (blocks(*STEADY * 10, 1.4e-3),)),
        ("launches", (blocks(*STEADY), blocks(*(1.1e-3,) * 5)), (blocks(*STEADY), blocks(*(1.03e-3,) * 5))),
        ("heavy-tail", with_samples(HUNDRED, (4e-3,) * 3), with_samples(HUNDRED, (2.5e-3,) * 3)),
        ("heavy-tail", with_samples(HUNDRED, (0.2,)), with_samples(HUNDRED, (40e-3,))),
    ],
)
def test_rule_fires_and_its_near_miss_does_not(kind: str, fires: Launches, near_miss: Launches) -> None:
    assert kind in kinds(point(fires))
    assert kind not in kinds(point(near_miss))


def test_one_outlier_in_a_hundred_is_no_warning() -> None:
    """pyperf's test of single values would warn here, and on nearly every point of a real network."""
    assert kinds(point(with_samples(HUNDRED, (10e-3,)))) == set()


def test_launches_that_differ_no_more_than_their_blocks_are_no_warning() -> None:
    wide = (0.9e-3, 1.1e-3, 1e-3, 0.95e-3, 1.05e-3)
    shifted = tuple(middle * 1.08 for middle in wide)
    assert "launches" not in kinds(point((blocks(*wide), blocks(*shifted))))


def test_launches_that_differ_are_not_called_unsteady() -> None:
    assert kinds(point((blocks(*STEADY), blocks(*(1.4e-3,) * 5)))) >= {"launches"}
    assert "unsteady" not in kinds(point((blocks(*STEADY), blocks(*(1.4e-3,) * 5))))


def test_interval_limit_is_wider_for_short_operations() -> None:
    middles = (1.0, 1.09, 0.93, 1.08, 0.94)
    assert "wide-interval" in kinds(point((blocks(*(1e-3 * middle for middle in middles)),)))
    assert "wide-interval" not in kinds(point((blocks(*(20e-6 * middle for middle in middles)),)))
    assert "wide-interval" not in kinds(point((blocks(1.0, 1.03, 0.98, 1.02, 0.97),)))


def test_warnings_carry_numbers_and_a_next_step() -> None:
    warning = stability_warnings(point((blocks(1.2e-3, *STEADY),)))[0]
    assert re.search(r"first block is 2[01]% slower", warning)
    assert "--warmup" in warning


def test_a_benchmark_gets_one_line_a_kind_with_sizes_joined() -> None:
    sizes = [8 * 2**power for power in range(10)]
    noisy = {8, 16, 32, 4096}
    slow = (blocks(1.15e-3, *STEADY),)
    points = [point(slow if size in noisy else (blocks(*STEADY),), size) for size in sizes]
    line = benchmark_warnings(points)[0]
    assert "8-32, 4K (4 of 10 sizes)" in line
    assert line.count("--warmup") == 1


def test_a_benchmark_unstable_at_every_size_says_all() -> None:
    points = [point((blocks(1.15e-3, *STEADY),), size) for size in (8, 16, 32)]
    assert "all 3 sizes" in benchmark_warnings(points)[0]


def test_one_outlier_in_twenty_is_no_heavy_tail() -> None:
    samples = (*HUNDRED[:19], 8e-3)
    assert "heavy-tail" not in kinds(point((tuple(samples[index::5] for index in range(5)),)))


def test_a_pair_needs_few_samples_and_no_interval() -> None:
    pair = {"source_rank": 0, "destination_rank": 1}
    assert kinds(point(((STEADY,),), **pair)) == set()
    assert kinds(point(((STEADY[:4],),), **pair)) == {"few-samples"}
    assert "wide-interval" not in kinds(point((blocks(1.0, 1.09, 0.93, 1.08, 0.94),), **pair))


def test_pairs_are_counted_not_listed() -> None:
    slow = (blocks(1.2e-3, *STEADY),)
    points = [
        point(slow if other < 3 else (blocks(*STEADY),), source_rank=0, destination_rank=other) for other in range(1, 9)
    ]
    (line,) = benchmark_warnings(points)
    assert "2 of 8 pairs" in line
    assert "rank 0 -> " in line
