"""Every measured point of a run beside what a healthy system would reach, and a finding where it is clearly slower."""

from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec.structs import replace

from diagnostics.findings import Finding
from raybench.documents.run.benchmark import BenchmarkResult
from raybench.documents.run.point import Expected, Point
from raybench.documents.run.result import RunResult
from raybench.documents.run.verdict import Check
from raybench.expectations.baseline import Baseline, against_baseline
from raybench.expectations.expected import Judgement, deciding, expect, judge
from raybench.expectations.regimes import NoExpectation, System
from raybench.expectations.shape import system_of
from raybench.finding_rules.bandwidth import BELOW_EXPECTED
from raybench.stability import stability_check
from raybench.units import format_bytes


def with_expectations(result: RunResult, baseline: Baseline | None = None) -> RunResult:
    """The run with ``expected`` on every point of its collectives and pairs, and a finding for each slow collective.

    Published healthy systems judge it in any case; where a ``baseline`` has a point, its figure is the one shown.
    """
    system = system_of(result.cluster, result.variables)
    benchmarks = tuple(_with_expected(benchmark, system) for benchmark in result.benchmarks)
    slow = [] if isinstance(system, NoExpectation) else [_finding(benchmark, system) for benchmark in benchmarks]
    unstable = stability_check([point for one in benchmarks if one.kind == "collective" for point in one.points])
    checks = (*result.checks, *bandwidth_checks(benchmarks, system), *([unstable] if unstable else []))
    judged = replace(result, benchmarks=benchmarks, checks=checks, findings=(*result.findings, *filter(None, slow)))
    return judged if baseline is None else against_baseline(judged, baseline)


def bandwidth_checks(benchmarks: Sequence[BenchmarkResult], system: System | NoExpectation) -> Iterator[Check]:
    """Which collectives were judged by what a healthy system reaches, and why the others were not."""
    collectives = [one for one in benchmarks if _is_judged(one) and one.is_measured]
    if isinstance(system, NoExpectation):
        if collectives:
            yield _open("bandwidth", system.reason.partition(":")[0])
        return
    found = {one.name: _judged(one, system) for one in collectives}
    outcomes: tuple[tuple[str, Literal["passed", "failed"]], ...] = (("as expected", "passed"), ("slow", "failed"))
    for verdict, outcome in outcomes:
        names = [name for name, judgement in found.items() if judgement.verdict == verdict]
        if names:
            yield Check(name="bandwidth", outcome=outcome, text=f"bandwidth {verdict} ({', '.join(names)})")
    others = {name: judgement for name, judgement in found.items() if judgement.ratio is None}
    if others:
        name, first = next(iter(others.items()))
        more = f" and {len(others) - 1} more" if len(others) > 1 else ""
        yield _open(f"bandwidth of {name}{more}", first.basis)


def _is_judged(benchmark: BenchmarkResult) -> bool:
    """Collectives, and a ring of sends; a matrix of pairs is judged by its own pairs."""
    return benchmark.kind == "collective" or benchmark.name == "send_recv"


def _open(what: str, why: str) -> Check:
    return Check(name="bandwidth", outcome="not judged", text=f"{what} not judged ({why})")


def _judged(benchmark: BenchmarkResult, system: System) -> Judgement:
    """By the fast end of each point's 95 % interval."""
    points = [point for point in benchmark.points if point.samples_seconds]
    return judge(benchmark.name, [(point.message_bytes, _fast_end(point)) for point in points], system)


def _with_expected(benchmark: BenchmarkResult, system: System | NoExpectation) -> BenchmarkResult:
    if benchmark.kind not in ("collective", "p2p"):
        return benchmark
    return replace(
        benchmark,
        points=tuple(
            replace(point, expected=_expected(benchmark.name, point, system)) if point.samples_seconds else point
            for point in benchmark.points
        ),
    )


def _expected(operation: str, point: Point, system: System | NoExpectation) -> Expected:
    answer = system if isinstance(system, NoExpectation) else expect(operation, point.message_bytes, system)
    if isinstance(answer, NoExpectation):
        return Expected(bus_gb_per_s=None, limit=None, basis=answer.reason)
    return Expected(bus_gb_per_s=answer.bus_gb_per_s, limit=answer.limit, basis=answer.basis)


def _finding(benchmark: BenchmarkResult, system: System) -> Finding | None:
    """A finding where even the fast end of each point's 95 % interval leaves the collective below the limit."""
    points = [point for point in benchmark.points if point.expected is not None and point.expected_ratio is not None]
    if not points or _judged(benchmark, system).verdict != "slow":
        return None
    seen = judge(benchmark.name, [(point.message_bytes, point.busbw_gb_per_s) for point in points], system)
    return _slow(benchmark, points, seen.ratio or 0.0, seen.limit or 0.0, system)


def _fast_end(point: Point) -> float:
    """busbw at the short end of the interval of the median time; the median where there is no interval."""
    low = point.interval_seconds[0] if point.interval_seconds else point.seconds.median
    return point.busbw_gb_per_s * point.seconds.median / low if low > 0 else point.busbw_gb_per_s


def _slow(benchmark: BenchmarkResult, points: list[Point], ratio: float, limit: float, system: System) -> Finding:
    sizes = deciding([point.message_bytes for point in points], benchmark.name, system)
    shown = max((point for point in points if point.message_bytes in sizes), key=lambda point: point.message_bytes)
    assert shown.expected is not None
    figures = (
        f"{shown.busbw_gb_per_s:.1f} GB/s at {format_bytes(shown.message_bytes)}, "
        f"expected {shown.expected.bus_gb_per_s:.1f}"
    )
    return BELOW_EXPECTED.finding(
        confidence="likely",
        summary=f"{benchmark.name} reaches {ratio:.0%} of what a healthy system of this shape does: {figures}",
        explanation=f"{shown.expected.basis}. Slow: below {limit:.0%} of it with the whole 95 % interval.",
        recommendations=BELOW_EXPECTED.advise(),
    )
