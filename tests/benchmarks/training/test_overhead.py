"""What is said of the share of a step that waits: never more than the pairs of steps behind it can tell."""

import random
from typing import Any

import pytest
from msgspec import structs

from raybench.benchmarks.spec import BenchmarkSpec
from raybench.benchmarks.training.combine import training_point
from raybench.benchmarks.training.findings import training_findings
from raybench.benchmarks.training.options import TrainingOptions
from raybench.benchmarks.training.record import Check, Exposure, TrainingRecord
from raybench.documents.run.benchmark import BenchmarkResult
from raybench.documents.run.training.point import TrainingPoint
from raybench.reports.workloads.table import workload_sections
from raybench.stats import median, order_interval

FACTS = {"gpu": None, "dtype": "float32", "tokens_per_sample": 64, "expected_wire_bytes": 1.0}
STEP = 0.1


SPEC = BenchmarkSpec(name="ddp", kind="training", sizes=(), options=TrainingOptions(steps=12))


def record_of(waits: list[float], **exposure: Any) -> TrainingRecord:
    return TrainingRecord(
        label="ddp tiny",
        stamps=tuple(STEP * step for step in range(1, 13)),
        phases={"forward": (STEP,) * 12},
        losses=(1.0,) * 12,
        memory={"kind": "rss", "peak_bytes": 2.0**30, "mean_bytes": 1.0},
        utilization={"cpu": 1.0, "gpu": None},
        exposure=Exposure(
            synchronised=tuple(STEP * (1 + wait) for wait in waits), unsynchronised=(STEP,) * len(waits), **exposure
        ),
        check=Check(),
        facts=FACTS,
    )


def point_of(waits: list[float], **exposure: Any) -> TrainingPoint:
    """Steps of 0.1 s; pairs of steps that differ by these shares of one."""
    record = record_of(waits, **exposure)
    return training_point([{0: record, 1: record}], SPEC, 2)


def test_each_step_keeps_its_fastest_and_its_slowest_rank() -> None:
    even = record_of([0.1] * 6)
    late = structs.replace(even, stamps=(0.15, *even.stamps[1:]))
    point = training_point([{0: even, 1: late}], SPEC, 2)
    fastest, slowest = zip(*point.rank_step_seconds[:3], strict=True)
    assert fastest == pytest.approx((0.1, 0.05, 0.1))
    assert slowest == pytest.approx((0.15, 0.1, 0.1))
    content = point.to_json()["rank_step_seconds"]
    assert (len(content["fastest"]), content["slowest"][0]) == (12, pytest.approx(0.15))


def said(point: TrainingPoint) -> tuple[str, str]:
    """The cell of the table, and what is noted under it."""
    benchmark = BenchmarkResult(name="ddp", kind="training", parameters={}, status="complete", workload=(point,))
    section = next(one for one in workload_sections([benchmark]) if one.title == "Communication")
    return section.grid.rows[0][-1].text, " ".join(section.notes)


@pytest.mark.parametrize(
    ("waits", "band"),
    [
        ([0.10, 0.11, 0.12, 0.13, 0.14, 0.15], "low"),
        ([-0.10, 0.01, 0.02, 0.03, 0.04, 0.05], "low"),  # less than nothing is nothing
        ([0.25, 0.26, 0.27, 0.28, 0.29, 0.30], "moderate"),
        ([0.92, 0.93, 0.94, 0.95, 0.96, 0.97], "high"),
        ([0.15, 0.18, 0.21, 0.22, 0.23, 0.24], "low to moderate"),
        ([0.30, 0.35, 0.39, 0.41, 0.42, 0.45], "moderate to high"),
    ],
)
def test_bands_by_the_interval(waits: list[float], band: str) -> None:
    point = point_of(waits)
    assert (point.overhead_band, point.overhead_reason) == (band, None)
    assert point.overhead == pytest.approx(max(median(waits), 0))
    cell, notes = said(point)
    assert cell.endswith(f"% {band}")
    assert "overhead unknown" not in notes


@pytest.mark.parametrize(
    ("waits", "share", "words"),
    [
        (
            [0.05, 0.15, 0.25, 0.35, 0.45, 0.55],
            0.30,
            "6 pairs of steps with and without synchronisation give 5% to 55%",
        ),
        ([0.30], 0.30, "1 pairs of steps with and without synchronisation give no interval"),
        ([0.30] * 5, 0.30, "give no interval; raise --overlap-steps"),
        ([1.1, 1.2, 1.3], None, "comes out as 120% of a step; 3 pairs of steps"),
        ([1.1, 1.2, 1.3, 1.4, 1.5, 1.6], None, "comes out as 135% of a step"),
    ],
)
def test_what_the_pairs_cannot_tell_is_unknown(waits: list[float], share: float | None, words: str) -> None:
    point = point_of(waits)
    assert point.overhead_band == "unknown"
    assert point.overhead == (None if share is None else pytest.approx(share))
    assert words in str(point.overhead_reason)
    cell, notes = said(point)
    assert cell == "unknown"
    assert words in notes
    content = point.to_json()
    assert (content["overhead_band"], content["overhead_reason"]) == ("unknown", point.overhead_reason)
    benchmark = BenchmarkResult(name="ddp", kind="training", parameters={}, status="complete", workload=(point,))
    assert list(training_findings(benchmark, lambda _: None)) == []


def test_a_profiler_that_saw_slower_steps_gives_no_share_above_one() -> None:
    assert point_of([], communication=0.12, overlap=0.0).overhead_band == "unknown"
    fits = point_of([], communication=0.05, overlap=0.02)
    assert (fits.overhead, fits.overhead_band) == (pytest.approx(0.3), "moderate")
    nothing = point_of([])
    assert (nothing.overhead, nothing.overhead_band, nothing.overhead_reason) == (None, None, None)


def test_an_interval_by_order_holds_the_median_as_often_as_it_says() -> None:
    assert order_interval([1.0, 2.0, 3.0, 4.0, 5.0]) is None
    assert order_interval([6.0, 2.0, 3.0, 4.0, 5.0, 1.0]) == (1.0, 6.0)
    assert order_interval([float(one) for one in range(1, 11)]) == (2.0, 9.0)  # 97.9 %; 3 to 8 would be 89 %
    source, held = random.Random(3), 0
    for _ in range(2000):
        low, high = order_interval([source.lognormvariate(0, 1) for _ in range(10)]) or (0.0, 0.0)
        held += low <= 1 <= high
    assert 0.965 < held / 2000 < 0.99
