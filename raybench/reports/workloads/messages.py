"""How what measures messages is shown: collectives and transfers over message size, and matrices of pairs. Pure.

Their tables by size are as wide as those of nccl-tests: ``terminal/`` and the page draw them in full.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from raybench.documents.run.benchmark import BenchmarkResult
from raybench.documents.run.cluster import ClusterInfo
from raybench.documents.run.point import Point
from raybench.documents.run.result import RunResult
from raybench.reports.listed_pairs import MOST_CSV_PAIRS, MOST_SUMMARY_PAIRS, listed_pairs
from raybench.reports.pairs import pair_matrices
from raybench.reports.rows import Table, is_measured, is_unstable, matrices, tables
from raybench.reports.text import bandwidth, count_of, printable
from raybench.reports.workloads.display import Display, Json, Row
from raybench.stability import stability_warnings
from raybench.stats import median
from raybench.units import format_bytes

if TYPE_CHECKING:
    from raybench.reports.plots.svg import Plot


def _rows(benchmarks: Sequence[BenchmarkResult], result: RunResult) -> Iterator[Row]:
    """One a benchmark, in place and out of place together; then one a matrix."""
    for table in tables(benchmarks):
        yield _collective(table)
    for benchmark in matrices(benchmarks):
        yield _matrix(benchmark, result)


def _collective(table: Table) -> Row:
    points = table.points
    peak = max(points, key=lambda point: point.busbw_gb_per_s)
    sizes = "-".join(dict.fromkeys(format_bytes(point.message_bytes) for point in (points[0], points[-1])))
    figures = f"{bandwidth(peak.busbw_gb_per_s):>6} GB/s busbw at {format_bytes(peak.message_bytes)}"
    ratio = f"{peak.expected_ratio:.2f} of expected" if peak.expected_ratio is not None else ""
    if peak.expected is not None and peak.expected.limit is None and ratio:
        ratio = f"{peak.expected_ratio:.2f} of the baseline, not judged"
    wrong = sum(point.wrong_elements for point in points)
    unstable = sum(map(is_unstable, points))
    remarks = (
        f"WRONG: {count_of(wrong, 'element')}" if wrong else "",
        "" if table.status == "complete" else table.status,
        ratio,
        f"{unstable} of {len(points)} unstable" if unstable else "",
    )
    return f"{table.title}, {sizes}", figures, ", ".join(filter(None, remarks))


def _matrix(benchmark: BenchmarkResult, result: RunResult) -> Row:
    matrix = pair_matrices(benchmark, result.cluster, result.findings)[-1]
    speeds = list(matrix.gb_per_second.values())
    spread = f"{bandwidth(min(speeds))} to {bandwidth(max(speeds))}"
    wrong = sum(point.wrong_elements for point in benchmark.points)
    remarks = (
        f"WRONG: {count_of(wrong, 'element')}" if wrong else "",
        "" if benchmark.status == "complete" else benchmark.status,
        spread,
    )
    name = f"{printable(benchmark.name)}, {count_of(len(speeds), 'pair')} of {format_bytes(matrix.message_bytes)}"
    return name, f"{bandwidth(median(speeds)):>6} GB/s median", ", ".join(filter(None, remarks))


def _summary(benchmarks: Sequence[BenchmarkResult], cluster: ClusterInfo) -> dict[str, Json]:
    made: dict[str, Json] = {}
    for benchmark in benchmarks:
        if benchmark.points:
            made.setdefault(_title(benchmark, made), _communication(benchmark, cluster))
    return made


def _title(benchmark: BenchmarkResult, taken: Mapping[str, Any]) -> str:
    """The operation's name; with its type and place where the same operation was measured more than once."""
    if benchmark.name not in taken:
        return benchmark.name
    place = "in place" if benchmark.in_place else "out of place"
    words = (benchmark.name, benchmark.dtype, benchmark.reduce_op, place)
    return " ".join(str(word) for word in words if word)


def _communication(benchmark: BenchmarkResult, cluster: ClusterInfo) -> Json:
    listed = listed_pairs(benchmark, cluster, MOST_SUMMARY_PAIRS)
    best = max(filter(is_measured, benchmark.points), key=lambda point: point.busbw_gb_per_s, default=None)
    part: Json = {
        "dtype": benchmark.dtype,
        "in_place": benchmark.in_place,
        "peak_busbw_gb_per_s": best.busbw_gb_per_s if best else None,
        "peak_at_bytes": best.message_bytes if best else None,
        "sizes": [_size(point) for point in listed.points],
    }
    return part | ({"left_out": listed.omitted, "left_out_remark": listed.remark} if listed.remark else {})


def _size(point: Point) -> Json:
    row = {
        "message_bytes": point.message_bytes,
        "time_ms": point.seconds.median * 1e3,
        "algbw_gb_per_s": point.algbw_gb_per_s,
        "busbw_gb_per_s": point.busbw_gb_per_s,
        "expected_ratio": point.expected_ratio,
        "verified": point.verified,
    }
    if point.source_rank is not None:
        row |= {"source_rank": point.source_rank, "destination_rank": point.destination_rank}
    return row


def _csv(benchmark: BenchmarkResult, cluster: ClusterInfo) -> Iterator[Json]:
    listed = listed_pairs(benchmark, cluster, MOST_CSV_PAIRS)
    yield from map(_point_fields, listed.points)
    if listed.remark:
        yield {"warnings": listed.remark}


def _point_fields(point: Point) -> dict[str, Any]:
    seconds = point.seconds
    of_a_pair = point.source_rank is not None  # result.json has no interval for pairs either
    low, high = (None, None) if of_a_pair else point.interval_seconds or (None, None)
    times = {name: getattr(seconds, name) for name in ("median", "mean", "min", "max", "p99", "stddev")}
    times |= {"ci95_low": low, "ci95_high": high}
    return {
        "message_bytes": point.message_bytes,
        "element_count": point.element_count,
        "launches": len(point.launches),
        "blocks": sum(len(launch) for launch in point.launches),
        "samples": len(point.samples_seconds),
        **{f"{name}_us": None if value is None else value * 1e6 for name, value in times.items()},
        "algbw_gb_per_s": point.algbw_gb_per_s,
        "busbw_gb_per_s": point.busbw_gb_per_s,
        "verified": point.verified,
        "wrong_elements": point.wrong_elements if point.verified is not None else None,
        "slowest_rank": point.slowest_rank if point.rank_seconds else None,
        "source_rank": point.source_rank,
        "destination_rank": point.destination_rank,
        "algorithm": point.algorithm,
        "warnings": " | ".join(stability_warnings(point)),
        "expected_busbw_gb_per_s": point.expected.bus_gb_per_s if point.expected else None,
        "expected_ratio": point.expected_ratio,
        "expected_basis": point.expected.basis if point.expected else None,
    }


def _plots(benchmarks: Sequence[BenchmarkResult], emulated: bool) -> Iterable["Plot"]:
    from raybench.reports.plots.collectives import size_plots  # matplotlib's

    return size_plots(tables(benchmarks), emulated=emulated)


DISPLAY = Display(
    sections=lambda _: (),
    rows=_rows,
    summary=_summary,
    csv=_csv,
    plots=_plots,
    plots_title="Over message size",
    part="communication",
)
