"""Events of all ranks to points: pure bookkeeping of who has measured what."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from raybench.benchmarks.combine import point_of
from raybench.benchmarks.events import Record
from raybench.benchmarks.registry import MESSAGE_KINDS, sizes_of
from raybench.benchmarks.spec import BenchmarkSpec, RankSamples
from raybench.benchmarks.workload import workload_point
from raybench.results import BenchmarkResult, BenchmarkStatus, Point
from raybench.stability import benchmark_warnings
from raybench.units import format_bytes

PointKey = tuple[int, int | None, int | None]  # message bytes, source rank, destination rank


@dataclass(kw_only=True)
class Collector:
    """Samples of a plan over all launches. A point counts when all its ranks have delivered it in some launch."""

    plan: Sequence[BenchmarkSpec]
    world_size: int
    all_sizes: bool = False  # the sizes were asked for one by one: one that does not fit is missing
    launch: int = 0
    skipped: dict[int, str] = field(default_factory=dict)
    _samples: dict[int, dict[PointKey, list[dict[int, RankSamples]]]] = field(default_factory=lambda: defaultdict(dict))
    _records: dict[int, dict[str, list[dict[int, Record]]]] = field(default_factory=lambda: defaultdict(dict))
    _finished: dict[tuple[int, int], set[int]] = field(default_factory=lambda: defaultdict(set))

    def add(self, benchmark: int, rank: int, samples: RankSamples) -> dict[int, RankSamples] | None:
        """Keep what a rank measured. Returns all ranks' samples when this one completes the point."""
        key = (samples.message_bytes, samples.source_rank, samples.destination_rank)
        launches = self._samples[benchmark].setdefault(key, [])
        while len(launches) <= self.launch:
            launches.append({})
        launches[self.launch][rank] = samples
        complete = len(launches[self.launch]) == samples.contributors
        return dict(launches[self.launch]) if complete else None

    def add_record(self, benchmark: int, rank: int, record: Record) -> dict[int, Record] | None:
        """The same for a workload, each point of which every rank measures."""
        launches = self._records[benchmark].setdefault(record.label, [])
        while len(launches) <= self.launch:
            launches.append({})
        launches[self.launch][rank] = record
        return dict(launches[self.launch]) if len(launches[self.launch]) == self.world_size else None

    def measured(self, benchmark: int) -> int:
        """How many points of a benchmark are complete in this launch."""
        points = [
            launches[self.launch] for launches in self._samples[benchmark].values() if len(launches) > self.launch
        ]
        records = [
            launches[self.launch] for launches in self._records[benchmark].values() if len(launches) > self.launch
        ]
        return sum(bool(ranks) and len(ranks) == next(iter(ranks.values())).contributors for ranks in points) + sum(
            len(ranks) == self.world_size for ranks in records
        )

    def finish(self, benchmark: int, rank: int, skipped: str | None) -> None:
        """A rank is through with a benchmark."""
        self._finished[self.launch, benchmark].add(rank)
        if skipped is not None:
            self.skipped.setdefault(benchmark, skipped)

    def results(self, launches: int, reason: str | None) -> tuple[BenchmarkResult, ...]:
        """A result for each benchmark of the plan; ``reason`` says why those that are not through are not."""
        return tuple(self._result(index, spec, launches, reason) for index, spec in enumerate(self.plan))

    def _result(self, index: int, spec: BenchmarkSpec, launches: int, reason: str | None) -> BenchmarkResult:
        if spec.kind not in MESSAGE_KINDS:
            return self._workload(index, spec, launches, reason)
        points = self._points(index)
        through = all(len(self._finished[launch, index]) == self.world_size for launch in range(launches))
        too_large = self._too_large(spec, points) if through else None
        complete = through and not (too_large and self.all_sizes)
        status = _status(skipped=index in self.skipped, complete=complete, measured=bool(points))
        why = self.skipped.get(index) or too_large or (None if through else reason)
        wrong = sum(point.wrong_elements for point in points)
        if wrong:
            status, why = "failed", f"{wrong} elements differ from their exact expected value"
        return BenchmarkResult(
            name=spec.name,
            kind=spec.kind,
            parameters=spec.parameters(),
            status=status,
            points=points,
            reason=why,
            warnings=benchmark_warnings(points),
        )

    def _workload(self, index: int, spec: BenchmarkSpec, launches: int, reason: str | None) -> BenchmarkResult:
        complete = [
            ([launch for launch in samples if len(launch) == self.world_size], label)
            for label, samples in self._records[index].items()
        ]
        points = tuple(workload_point(found, spec, self.world_size) for found, _ in complete if found)
        through = all(len(self._finished[launch, index]) == self.world_size for launch in range(launches))
        measured = [point for point in points if point.failed is None]
        whole = through and len(measured) == len(points) > 0
        status = _status(skipped=index in self.skipped, complete=whole, measured=bool(measured))
        failures = "; ".join(f"{point.label}: {point.failed}" for point in points if point.failed)
        why = self.skipped.get(index) or failures or (None if whole else reason or "a rank ended before it was through")
        wrong = "; ".join(f"{point.label}: {point.wrong}" for point in points if point.wrong)
        return BenchmarkResult(
            name=spec.name,
            kind=spec.kind,
            parameters=spec.parameters(),
            status="failed" if wrong else status,
            reason=wrong or why,
            warnings=tuple(f"{point.label}: {text}" for point in points for text in point.warnings),
            workload=points,
        )

    def _points(self, index: int) -> tuple[Point, ...]:
        points = []
        for samples in self._samples[index].values():
            complete = [
                launch for launch in samples if launch and len(launch) == next(iter(launch.values())).contributors
            ]
            if complete:
                points.append(point_of(complete))
        return tuple(
            sorted(points, key=lambda point: (point.source_rank or 0, point.destination_rank or 0, point.message_bytes))
        )

    def _too_large(self, spec: BenchmarkSpec, points: Sequence[Point]) -> str | None:
        """What sizes a benchmark that all ranks are through with left out: those that did not fit."""
        missing = 0 if spec.name == "p2p_matrix" else len(sizes_of(spec, self.world_size)) - len(points)
        if missing <= 0 or not points:
            return None
        largest = max(point.message_bytes for point in points)
        return f"{missing} sizes above {format_bytes(largest)} did not fit the memory of every rank"


def _status(*, skipped: bool, complete: bool, measured: bool) -> BenchmarkStatus:
    if skipped:
        return "skipped"
    if complete:
        return "complete"
    return "partial" if measured else "failed"
