"""Events of all ranks to points: pure bookkeeping of who has measured what."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from raybench.benchmarks.events import (
    BenchmarkFinished,
    BenchmarkStarted,
    Event,
    OwnSpeedMeasured,
    PointMeasured,
    WorkloadMeasured,
)
from raybench.benchmarks.machine_use import MachineSeconds, machine_use
from raybench.benchmarks.messages.combine import point_of
from raybench.benchmarks.messages.operations import is_matrix, sizes_of
from raybench.benchmarks.registry import parameters_of, records_of, workload_of
from raybench.benchmarks.spec import BenchmarkSpec, OwnSpeed, RankSamples
from raybench.benchmarks.workload import RankRecord, Records
from raybench.documents.run.benchmark import BenchmarkResult, BenchmarkStatus, MeasuredWorkload
from raybench.documents.run.machine_use import MachineUse
from raybench.documents.run.point import Point
from raybench.execution.event_check import EventError
from raybench.execution.point_times import PointTimes
from raybench.stability import benchmark_warnings, stolen_warnings
from raybench.units import format_bytes

PointKey = tuple[int, int | None, int | None]  # message bytes, source rank, destination rank


@dataclass(kw_only=True)
class Collector:
    """Samples of a plan over all launches. A point counts when all its ranks have delivered it in some launch.

    Of a launch that is cut, the parts of a workload's point count that all ranks have delivered.
    """

    plan: Sequence[BenchmarkSpec]
    world_size: int
    all_sizes: bool = False  # the sizes were asked for one by one: one that does not fit is missing
    launch: int = 0
    skipped: dict[int, str] = field(default_factory=dict)
    _samples: dict[int, dict[PointKey, list[dict[int, RankSamples]]]] = field(default_factory=lambda: defaultdict(dict))
    _records: dict[int, dict[str, list[dict[int, RankRecord]]]] = field(default_factory=lambda: defaultdict(dict))
    _parts: dict[int, dict[str, dict[tuple[int, int], list[RankRecord]]]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    _finished: dict[tuple[int, int], set[int]] = field(default_factory=lambda: defaultdict(set))
    _machines: dict[int, list[MachineUse]] = field(default_factory=lambda: defaultdict(list))
    _times: PointTimes = field(default_factory=PointTimes)

    def emptied(self) -> "Collector":
        """A collector for the same plan that has nothing yet."""
        return Collector(plan=self.plan, world_size=self.world_size, all_sizes=self.all_sizes)

    def take(self, launch: int, event: Event, seconds: float | None = None) -> None:
        """Keep an event of a launch; those that say nothing of samples change nothing.

        ``seconds``: when it came, since the run's start.
        """
        self.launch = launch
        if seconds is not None:
            self._tell_time(event, seconds)
        match event:
            case PointMeasured():
                self.add(event.benchmark, event.rank, event.samples)
            case OwnSpeedMeasured():
                self.add_own_speed(event.benchmark, event.rank, event.speed)
            case WorkloadMeasured() if event.record.interim:
                self.add_part(event.benchmark, event.rank, event.record)
            case WorkloadMeasured():
                self.add_record(event.benchmark, event.rank, event.record)
            case BenchmarkFinished():
                self.finish(event.benchmark, event.rank, event.skipped, event.machine)

    def _tell_time(self, event: Event, seconds: float) -> None:
        match event:
            case BenchmarkStarted() | BenchmarkFinished() | OwnSpeedMeasured():
                self._times.moved_on(self.launch, event.rank, seconds)
            case PointMeasured(samples=samples):
                key = (samples.message_bytes, samples.source_rank, samples.destination_rank)
                self._times.measured(self.launch, event.benchmark, event.rank, key, seconds)
            case WorkloadMeasured(record=record) if record.interim:
                told = records_of(self.plan[event.benchmark].kind).steps_seconds(record)
                if told is not None:
                    self._times.steps_began(self.launch, event.benchmark, record.label, seconds - told)
            case WorkloadMeasured(record=record):
                self._times.measured(self.launch, event.benchmark, event.rank, record.label, seconds)

    def add(self, benchmark: int, rank: int, samples: RankSamples) -> dict[int, RankSamples] | None:
        """Keep what a rank measured. Returns all ranks' samples when this one completes the point.

        Raises EventError for samples that cannot be of the same point as the other ranks'.
        """
        key = (samples.message_bytes, samples.source_rank, samples.destination_rank)
        launches = self._samples[benchmark].setdefault(key, [])
        while len(launches) <= self.launch:
            launches.append({})
        if any(_shape(other) != _shape(samples) for other in launches[self.launch].values()):
            raise EventError(f"rank {rank} measured other blocks, or with others, than the other ranks")
        launches[self.launch][rank] = samples
        complete = len(launches[self.launch]) == samples.contributors
        return dict(launches[self.launch]) if complete else None

    def add_own_speed(self, benchmark: int, rank: int, speed: OwnSpeed) -> None:
        """Keep it with the point that it was timed beside. Raises EventError where the rank has not measured that."""
        launches = self._samples[benchmark].get((speed.message_bytes, None, None), [])
        point = launches[self.launch] if len(launches) > self.launch else {}
        if rank not in point:
            raise EventError(f"rank {rank} timed its own work beside a size that it has not measured")
        point[rank] = replace(point[rank], own_seconds=speed.seconds)

    def add_record(self, benchmark: int, rank: int, record: RankRecord) -> dict[int, RankRecord] | None:
        """The same for a workload, each point of which every rank measures."""
        launches = self._records[benchmark].setdefault(record.label, [])
        while len(launches) <= self.launch:
            launches.append({})
        launches[self.launch][rank] = record
        if len(launches[self.launch]) < self.world_size:
            return None
        for other in range(self.world_size):  # the parts are needed no more
            self._parts[benchmark].get(record.label, {}).pop((self.launch, other), None)
        return dict(launches[self.launch])

    def add_part(self, benchmark: int, rank: int, part: RankRecord) -> None:
        """Keep a part of what is not whole yet: it counts where the whole never comes."""
        self._parts[benchmark].setdefault(part.label, {}).setdefault((self.launch, rank), []).append(part)

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

    def finish(self, benchmark: int, rank: int, skipped: str | None, machine: MachineSeconds | None = None) -> None:
        """A rank is through with a benchmark; the first of its node says what its ``machine`` did meanwhile."""
        if machine is not None:
            self._machines[benchmark].append(machine_use(self.launch, rank, machine))
        self._finished[self.launch, benchmark].add(rank)
        if skipped is not None:
            self.skipped.setdefault(benchmark, skipped)

    def results(self, launches: int, reason: str | None) -> tuple[BenchmarkResult, ...]:
        """A result for each benchmark of the plan; ``reason`` says why those that are not through are not."""
        return tuple(self._result(index, spec, launches, reason) for index, spec in enumerate(self.plan))

    def _result(self, index: int, spec: BenchmarkSpec, launches: int, reason: str | None) -> BenchmarkResult:
        if workload_of(spec.kind).records is not None:
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
            parameters=parameters_of(spec),
            status=status,
            points=points,
            reason=why,
            warnings=(*benchmark_warnings(points), *stolen_warnings(self._machines[index])),
            times=self._times.of(index),
            machine_use=tuple(self._machines[index]),
        )

    def _workload(self, index: int, spec: BenchmarkSpec, launches: int, reason: str | None) -> BenchmarkResult:
        labels = dict.fromkeys([*self._records[index], *self._parts[index]])
        points = tuple(point for label in labels if (point := self._workload_point(index, label, spec)) is not None)
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
            parameters=parameters_of(spec),
            status="failed" if wrong else status,
            reason=wrong or why,
            warnings=(
                *(f"{point.label}: {text}" for point in points for text in point.warnings),
                *stolen_warnings(self._machines[index]),
            ),
            workload=points,
            times=self._times.of(index),
            machine_use=tuple(self._machines[index]),
        )

    def _workload_point(self, index: int, label: str, spec: BenchmarkSpec) -> MeasuredWorkload | None:
        """From the launches that are whole, else from what all ranks have of one that was cut."""
        launches = self._records[index].get(label, [])
        whole = [launch for launch in launches if len(launch) == self.world_size]
        records = records_of(spec.kind)
        cut = self._cut(index, label, launches[-1] if launches else {}, records)
        if not whole:
            return records.point([cut], spec, self.world_size, None) if cut else None
        return records.point(whole, spec, self.world_size, cut)

    def _cut(
        self, index: int, label: str, whole: Mapping[int, RankRecord], records: Records[Any]
    ) -> Mapping[int, RankRecord] | None:
        """The last launch as far as all ranks came, where it was cut: those that are through have their ``whole``."""
        parts = self._parts[index].get(label, {})
        last = max((launch for launch, _ in parts), default=-1)
        found = {rank: records.joined(known) for (launch, rank), known in parts.items() if launch == last}
        found |= {rank: record for rank, record in whole.items() if len(whole) < self.world_size}
        return records.in_common(dict(sorted(found.items()))) if len(found) == self.world_size else None

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
        missing = 0 if is_matrix(spec) else len(sizes_of(spec, self.world_size)) - len(points)
        if missing <= 0 or not points:
            return None
        largest = max(point.message_bytes for point in points)
        return f"{missing} sizes above {format_bytes(largest)} did not fit the memory of every rank"


def _shape(samples: RankSamples) -> tuple[int, tuple[int, ...]]:
    return samples.contributors, tuple(map(len, samples.stamps))


def _status(*, skipped: bool, complete: bool, measured: bool) -> BenchmarkStatus:
    if skipped:
        return "skipped"
    if complete:
        return "complete"
    return "partial" if measured else "failed"
