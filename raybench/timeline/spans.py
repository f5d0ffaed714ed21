"""What was measured when, and on which nodes: the points of a run on the clock of its samples. Pure."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from raybench.documents.run.benchmark import BenchmarkResult
from raybench.documents.run.node_samples import NodeSamples, SampledNode
from raybench.documents.run.point import Point
from raybench.documents.run.point_time import PointTime
from raybench.documents.run.result import RunResult
from raybench.documents.run.training.point import TrainingPoint
from raybench.units import format_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A point of a benchmark in one launch. ``ranks``: those that measured it; all where None."""

    benchmark: BenchmarkResult
    time: PointTime
    title: str
    ranks: tuple[int, int] | None = None

    @property
    def begin(self) -> float:
        """Seconds since the run's start."""
        return self.time.begin_seconds

    @property
    def end(self) -> float:
        """Seconds since the run's start."""
        return self.time.end_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """The timed steps of a training in one launch: when each of them ended."""

    span: Span
    point: TrainingPoint
    begin: float
    ends: tuple[float, ...]

    def within(self, begin: float, end: float) -> range:
        """Those that were under way at some time of these, counted from 0."""
        return range(bisect_left(self.ends, begin), min(bisect_right(self.ends, end) + 1, len(self.ends)))


@dataclass(frozen=True)
class Timeline:
    """A run and its samples, joined."""

    result: RunResult
    samples: NodeSamples

    @cached_property
    def spans(self) -> tuple[Span, ...]:
        """All points whose times are known, in the order in which they began."""
        return tuple(sorted(_spans(self.result.benchmarks), key=lambda span: span.begin))

    @cached_property
    def steps(self) -> tuple[Steps, ...]:
        """The timed steps of all trainings that are known on the clock."""
        return tuple(steps for span in self.spans if (steps := _steps_of(span)) is not None)

    def spans_on(self, node: SampledNode) -> tuple[Span, ...]:
        """Those that ranks of a machine took part in."""
        if not any(span.ranks for span in self.spans):
            return self.spans
        own = {rank for one in self.result.cluster.nodes if one.name in node.nodes for rank in one.ranks}
        return tuple(span for span in self.spans if span.ranks is None or own.intersection(span.ranks))


def _spans(benchmarks: Sequence[BenchmarkResult]) -> Iterator[Span]:
    for benchmark in benchmarks:
        for time in benchmark.times:
            pair = (time.source_rank, time.destination_rank)
            ranks = None if pair[0] is None or pair[1] is None else (pair[0], pair[1])
            yield Span(benchmark=benchmark, time=time, title=_title(benchmark, time), ranks=ranks)


def _title(benchmark: BenchmarkResult, time: PointTime) -> str:
    """``all_reduce 1G``, ``p2p 64M, rank 0 to 3``, ``ddp tiny``."""
    if time.label is not None:
        return time.label if time.label.startswith(benchmark.name) else f"{benchmark.name} {time.label}"
    size = "" if time.message_bytes is None else f" {format_bytes(time.message_bytes)}"
    pair = "" if time.source_rank is None else f", rank {time.source_rank} to {time.destination_rank}"
    return benchmark.name + size + pair


def point_of_span(span: Span) -> Point | None:
    """The point of messages that was measured then."""
    key = (span.time.message_bytes, span.time.source_rank, span.time.destination_rank)
    points = (one for one in span.benchmark.points)
    return next((one for one in points if (one.message_bytes, one.source_rank, one.destination_rank) == key), None)


def _steps_of(span: Span) -> Steps | None:
    """The steps of a launch that is whole: those of a training whose first step is on the clock."""
    begin = span.time.steps_begin_seconds
    points = (one for one in span.benchmark.workload if isinstance(one, TrainingPoint) and one.failed is None)
    point = next((one for one in points if one.label == span.time.label), None)
    if begin is None or point is None or span.time.launch >= len(point.launches):
        return None
    ends = tuple(begin + passed for passed in accumulate(point.launches[span.time.launch]))
    return Steps(span=span, point=point, begin=begin, ends=ends) if ends else None
