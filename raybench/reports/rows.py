"""Results as rows for tables: in-place and out-of-place runs of one benchmark side by side. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from raybench.documents.run.benchmark import BenchmarkResult
from raybench.documents.run.cluster import ClusterInfo
from raybench.documents.run.point import Point
from raybench.documents.run.result import RunResult
from raybench.reports.spans import names_in_short
from raybench.reports.text import count_of, printable
from raybench.stability import benchmark_warnings, warnings_of

PLACES = ("out-of-place", "in-place")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One message size; ``places[i]`` is the point measured in ``Table.places[i]``, None where it was not."""

    message_bytes: int
    element_count: int
    places: tuple[Point | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unmeasured:
    """Benchmarks that measured nothing, for one reason. ``word``: skipped, failed, or not measured."""

    names: tuple[str, ...]
    word: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One benchmark with one set of parameters, without ``in_place``, which makes the column groups ``places``.

    ``other_parameters``: those beyond a collective's, as ``name=value``.
    """

    name: str
    kind: str
    dtype: str | None
    reduce_op: str | None
    root: int | None
    other_parameters: tuple[str, ...]
    places: tuple[str, ...]
    rows: tuple[Row, ...]
    reasons: tuple[str, ...]
    warnings: tuple[str, ...]
    status: str

    @property
    def points(self) -> tuple[Point, ...]:
        """Every point with samples, by size, out of place first."""
        return tuple(point for row in self.rows for point in row.places if point is not None)

    @property
    def has_expected(self) -> bool:
        """Whether an expected bandwidth is known of any point."""
        return any(point.expected_ratio is not None for point in self.points)

    @property
    def expected_basis(self) -> str | None:
        """Why so much is expected of its largest message; None where nothing is."""
        known = [point.expected for point in self.points if point.expected and point.expected.bus_gb_per_s is not None]
        return known[-1].basis if known else None

    @property
    def title(self) -> str:
        """``all_reduce float32 sum`` and the root where there is one."""
        words = [self.name, *(str(value) for value in (self.dtype, self.reduce_op) if value is not None)]
        words += [f"root {self.root}"] if self.root is not None else []
        return printable(" ".join([*words, *self.other_parameters]))


def tables(benchmarks: Iterable[BenchmarkResult]) -> tuple[Table, ...]:
    """Benchmarks that have points, in their order, runs that differ only in ``in_place`` joined. Matrices left out."""
    groups: dict[tuple[str, ...], list[BenchmarkResult]] = {}
    for benchmark in benchmarks:
        if any(is_measured(point) for point in benchmark.points) and not is_matrix(benchmark):
            groups.setdefault(_group_key(benchmark), []).append(benchmark)
    return tuple(_table(group) for group in groups.values())


def is_measured(point: Point) -> bool:
    """Whether the point has samples, and a time that a bandwidth can be derived from."""
    return bool(point.samples_seconds) and point.seconds.median > 0


def is_matrix(benchmark: BenchmarkResult) -> bool:
    """Whether its points are pairs of ranks."""
    return any(point.source_rank is not None for point in benchmark.points)


def all_warnings(benchmark: BenchmarkResult) -> tuple[str, ...]:
    """What the run noted against a benchmark and what its samples say, each once."""
    measured = [point for point in benchmark.points if is_measured(point)]
    return tuple(dict.fromkeys((*benchmark.warnings, *benchmark_warnings(measured))))


def unknown_expectations(benchmarks: Iterable[BenchmarkResult]) -> dict[str, list[str]]:
    """Why no bandwidth is expected of a benchmark: the benchmarks' names by reason, each once."""
    reasons: dict[str, list[str]] = {}
    for benchmark in benchmarks:
        for point in benchmark.points:
            if point.expected is not None and point.expected.bus_gb_per_s is None:
                names = reasons.setdefault(point.expected.basis, [])
                names += [] if benchmark.name in names else [benchmark.name]
    return reasons


def expectation_remarks(benchmarks: Iterable[BenchmarkResult]) -> Iterator[str]:
    """A sentence a reason for which no bandwidth is expected."""
    for reason, names in unknown_expectations(benchmarks).items():
        which = f" of {', '.join(map(printable, names))}" if len(names) < 4 else ""
        yield f"expected bandwidth{which} unknown: {printable(reason)}"


def is_unstable(point: Point) -> bool:
    """Whether any stability rule has something against the point."""
    return bool(warnings_of(point))


def _group_key(benchmark: BenchmarkResult) -> tuple[str, ...]:
    rest = sorted((key, repr(value)) for key, value in benchmark.parameters.items() if key != "in_place")
    return (benchmark.name, benchmark.kind, *(text for pair in rest for text in pair))


def place_of(benchmark: BenchmarkResult) -> str:
    """``in-place`` or ``out-of-place``."""
    return PLACES[bool(benchmark.in_place)]


def _table(group: Sequence[BenchmarkResult]) -> Table:
    ordered = sorted(group, key=lambda benchmark: PLACES.index(place_of(benchmark)))
    measured = [[point for point in benchmark.points if is_measured(point)] for benchmark in ordered]
    first = ordered[0]
    return Table(
        name=first.name,
        kind=first.kind,
        dtype=first.dtype,
        reduce_op=first.reduce_op,
        root=first.root,
        other_parameters=first.other_parameters,
        places=tuple(place_of(benchmark) for benchmark in ordered),
        rows=_rows(measured),
        reasons=_prefixed(ordered, lambda benchmark: (benchmark.reason,) if benchmark.reason else ()),
        warnings=_prefixed(ordered, all_warnings),
        status=next((benchmark.status for benchmark in ordered if benchmark.status != "complete"), "complete"),
    )


def _rows(measured: Sequence[Sequence[Point]]) -> tuple[Row, ...]:
    by_size = [{point.message_bytes: point for point in points} for points in measured]
    counts = {point.message_bytes: point.element_count for points in measured for point in points}
    return tuple(
        Row(message_bytes=size, element_count=counts[size], places=tuple(points.get(size) for points in by_size))
        for size in sorted(counts)
    )


def _prefixed(group: Sequence[BenchmarkResult], texts: Any) -> tuple[str, ...]:
    if len(group) == 1:
        return tuple(texts(group[0]))
    return tuple(f"{place_of(benchmark)}: {text}" for benchmark in group for text in texts(benchmark))


def matrices(benchmarks: Iterable[BenchmarkResult]) -> tuple[BenchmarkResult, ...]:
    """The benchmarks whose points are pairs of ranks."""
    return tuple(
        benchmark for benchmark in benchmarks if is_matrix(benchmark) and any(map(is_measured, benchmark.points))
    )


def unmeasured(result: RunResult) -> list[Unmeasured]:
    """The benchmarks that measured nothing, by reason: skipped, failed, or what ended the run came before them."""
    groups: dict[tuple[str, str], list[str]] = {}
    has_ended_early = any(finding.ended_the_run for finding in result.findings)
    for one in result.benchmarks:
        if one.workload or any(map(is_measured, one.points)):
            continue
        word = "not measured" if one.status == "failed" and has_ended_early else one.status
        groups.setdefault((word, one.reason or "no reason was given"), []).append(one.name)
    return [
        Unmeasured(names=tuple(dict.fromkeys(map(printable, names))), word=word, reason=printable(reason))
        for (word, reason), names in groups.items()
    ]


def cluster_line(cluster: ClusterInfo) -> str:
    """``2 nodes, 16 ranks, nccl``."""
    sizes = f"{count_of(len(cluster.nodes), 'node')}, {count_of(cluster.world_size, 'rank')}"
    return f"{sizes}, {printable(cluster.backend)}"


def dropped_lines(cluster: ClusterInfo) -> list[str]:
    """A sentence a reason for which nodes are not in the figures: lost where they had ranks, else never taken in."""
    named = {node.name for node in cluster.nodes}
    groups: dict[tuple[str, str], list[str]] = {}
    for dropped in cluster.dropped:
        lost = dropped.node in named
        groups.setdefault(("lost" if lost else "", dropped.reason), []).append(dropped.node)
    return [
        f"{names_in_short(names)} {_was(names) if lost else 'took no part'}: {printable(reason)}"
        for (lost, reason), names in groups.items()
    ]


def _was(names: Sequence[str]) -> str:
    return "was lost" if len(names) == 1 else "were lost"


def emulated_notice(result: RunResult) -> str | None:
    """The sentence that no reader of emulated figures may miss; None on real nodes."""
    if not result.cluster.emulated:
        return None
    nodes = count_of(len(result.cluster.nodes), "node")
    return f"EMULATED: {nodes} on one machine. These figures say nothing about a network."
