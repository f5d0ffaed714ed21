"""What the ranks tell while they measure, as figures for whoever follows the run from afar. Pure."""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from raybench.benchmarks.events import Event, PointMeasured, WorkloadMeasured
from raybench.benchmarks.messages.combine import point_of
from raybench.benchmarks.messages.operations import is_matrix
from raybench.benchmarks.registry import labels_of, records_of
from raybench.benchmarks.spec import BenchmarkSpec, RankSamples
from raybench.benchmarks.workload import RankRecord
from raybench.documents.plain import Json
from raybench.trackers.base import Figures

_OTHER = re.compile(r"[^A-Za-z0-9_./-]+")
_OF_PLACE = ("message_bytes", "source_rank", "destination_rank", "sample_count")
_MOST_NAME = 200  # letters; MLflow takes 250


@dataclass(kw_only=True)
class LiveFigures:
    """All launches of a run. Of a point that a rank is missing from nothing is said."""

    specs: Sequence[BenchmarkSpec]
    world_size: int
    _samples: dict[tuple[int, int, object], dict[int, RankSamples]] = field(default_factory=dict)
    _records: dict[tuple[int, int, str], dict[int, RankRecord]] = field(default_factory=dict)
    _parts: dict[str, RankRecord] = field(default_factory=dict)  # the last of rank 0, by group
    _last: dict[tuple[str, str], int] = field(default_factory=dict)  # position, by group and name
    _done: Counter[str] = field(default_factory=Counter)  # points without a size, by group

    def take(self, launch: int, event: Event, at: float) -> Iterator[Figures]:
        """An event of a rank. Gives what is new by it; ``at`` is now, wall-clock time."""
        match event:
            case PointMeasured():
                yield from self._point(launch, event, at)
            case WorkloadMeasured(record=record) if record.interim:
                if event.rank == 0:
                    yield from self._steps(launch, event.benchmark, record, at)
            case WorkloadMeasured():
                yield from self._workload(launch, event, at)

    def _point(self, launch: int, event: PointMeasured, at: float) -> Iterator[Figures]:
        one = event.samples
        key = launch, event.benchmark, (one.message_bytes, one.source_rank, one.destination_rank)
        ranks = self._samples.setdefault(key, {})
        ranks[event.rank] = one
        if len(ranks) < one.contributors:
            return
        del self._samples[key]
        spec, group = self.specs[event.benchmark], self.group(event.benchmark, launch)
        axis, position = "message_bytes", one.message_bytes
        if is_matrix(spec):
            axis, position = "pair", (one.source_rank or 0) * self.world_size + (one.destination_rank or 0)
        values = numbers_of(point_of([ranks]).row())
        yield Figures(group=group, axis=axis, position=position, values=values, at=at)

    def _steps(self, launch: int, benchmark: int, part: RankRecord, at: float) -> Iterator[Figures]:
        spec, group = self.specs[benchmark], self.group(benchmark, launch)
        before, self._parts[group] = self._parts.get(group), part
        for one in records_of(spec.kind).step_figures(part, before, spec, self.world_size):
            series = group, next(iter(one.values), "")
            if one.values and one.position > self._last.get(series, -1):
                self._last[series] = one.position
                yield Figures(group=group, axis=one.axis, position=one.position, values=dict(one.values), at=at)

    def _workload(self, launch: int, event: WorkloadMeasured, at: float) -> Iterator[Figures]:
        key = launch, event.benchmark, event.record.label
        ranks = self._records.setdefault(key, {})
        ranks[event.rank] = event.record
        if len(ranks) < self.world_size:
            return
        del self._records[key]
        spec, group = self.specs[event.benchmark], self.group(event.benchmark, launch)
        point = records_of(spec.kind).point([ranks], spec, self.world_size, None)
        values = numbers_of(point.row())
        if len(labels_of(spec, self.world_size)) > 1:
            values = {f"{slug(point.label)}/{name}": value for name, value in values.items()}
        if values:
            self._done[group] += 1
            yield Figures(group=f"{group}.result", axis="point", position=self._done[group], values=values, at=at)

    def group(self, benchmark: int, launch: int) -> str:
        """``ddp``, ``all_reduce.float32-sum`` where it is not the only one of its name, ``ddp.launch-2``."""
        spec = self.specs[benchmark]
        alike = sum(other.name == spec.name for other in self.specs) > 1
        words = (spec.dtype, spec.reduce_op, "in-place" if spec.in_place else None)
        variation = "." + "-".join(word for word in words if word) if alike else ""
        return slug(spec.name + variation) + (f".launch-{launch + 1}" if launch else "")


def numbers_of(row: Json | Mapping[str, object]) -> dict[str, float]:
    """The figures of a row of a table, without what says which row it is, and what is no number."""
    return {
        slug(name): float(value)
        for name, value in row.items()
        if name not in _OF_PLACE and isinstance(value, int | float) and math.isfinite(value)
    }


def slug(text: str) -> str:
    """A name that every tracker takes."""
    return _OTHER.sub("-", text).strip("-/. ")[:_MOST_NAME] or "unnamed"
