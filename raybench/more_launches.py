"""Whether a run needs more launches than were planned: they are too far apart for two such runs to show 5 %. Pure.

Seconds in which something else holds up a machine are shared by launches that follow each other at once, so more of
them begin after pauses that grow: between-launch spread is sampled over the minutes in which two runs would differ.
Judged are figures that wait for a link and not for a process to be woken: others differ from launch to launch whatever
is done.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from raybench.documents.run.benchmark import BenchmarkResult, MeasuredWorkload
from raybench.documents.run.checkpoint import CheckpointPoint
from raybench.documents.run.figures import FiguresPoint
from raybench.documents.run.memory import MemoryPoint
from raybench.documents.run.point import Point
from raybench.documents.run.training.point import TrainingPoint
from raybench.expectations.baseline import LEAST_BYTES
from raybench.stability import point_label
from raybench.weighing import Repeats, half_width, repeats_of, weigh

LONG_SECONDS = 0.05  # an operation that takes so long waits for a link, not for a process to be woken
ENOUGH = 0.025  # half of the 5 % that a comparison is to show: same is told from slower whichever of them it is
_LEVEL = 0.05  # of all intervals of a comparison together (Bonferroni)
_PAUSES_SECONDS = (5.0, 10.0, 20.0, 30.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureSpread:
    """How well the launches of a run show one figure: ``share`` by which two such runs may differ by chance.

    It is infinite where there is a single launch, which shows nothing of others.
    """

    label: str
    share: float
    launches: int

    @property
    def text(self) -> str:
        """``all_reduce float32 sum, 64M: of 3 launches each, two runs of the same may differ by 8.3 %``."""
        if math.isinf(self.share):
            return f"{self.label}: one launch does not show what another would be"
        return f"{self.label}: of {self.launches} launches each, two runs of the same may differ by {self.share:.1%}"


def widest_spread(benchmarks: Sequence[BenchmarkResult]) -> FigureSpread | None:
    """The figure that its launches show least well; None where each is known well enough, or none is judged.

    What the machine lost to others does not count where launches agree all the same: more of them would lose as much.
    """
    found = [one for benchmark in benchmarks for one in _spreads(benchmark, _tail(benchmarks))]
    worst = max(found, key=lambda one: one.share, default=None)
    return None if worst is None or worst.share <= ENOUGH else worst


def pause_seconds(number: int) -> float:
    """How long to wait before the launch of that number beyond those that were planned, from 0."""
    return _PAUSES_SECONDS[min(number, len(_PAUSES_SECONDS) - 1)]


def is_long(point: Point) -> bool:
    """Whether an operation waits for a link: it has a large message, or takes long."""
    return point.message_bytes >= LEAST_BYTES or point.seconds.median >= LONG_SECONDS


def figures_compared(benchmarks: Sequence[BenchmarkResult]) -> int:
    """How many figures a comparison of two such runs judges: those of every point, and what they have together.

    ``comparison/run_side.py`` makes them; that both agree is tested.
    """
    count = 0
    for benchmark in benchmarks:
        found = Counter("time" for point in benchmark.points if point.samples_seconds)
        found.update(name for one in benchmark.workload if one.failed is None for name in _judged(one))
        count += found.total() + sum(number > 1 for number in found.values())
    return count


def _judged(one: MeasuredWorkload) -> Iterator[str]:
    """Quantities of which less, or more, is better."""
    match one:
        case TrainingPoint():
            yield "step"
            if one.peak_memory_bytes:
                yield "peak memory"
        case MemoryPoint():
            if one.complete and one.largest_batch:
                yield "largest batch"
            yield from (f"peak memory, batch {use.batch_size}" for use in one.uses if use.peak)
        case CheckpointPoint():
            times = {"blocked": one.blocked_seconds, "durable": one.durable_seconds, "load": one.load_seconds}
            yield from (name for name, samples in times.items() if samples)
        case FiguresPoint():
            if one.samples_seconds:
                yield "time"


def _tail(benchmarks: Sequence[BenchmarkResult]) -> float:
    """Of one figure of a comparison of two such runs."""
    return _LEVEL / max(figures_compared(benchmarks), 1) / 2


def _spreads(benchmark: BenchmarkResult, tail: float) -> Iterator[FigureSpread]:
    for point in benchmark.points:
        if point.samples_seconds and point.source_rank is None and is_long(point):
            launches = [launch for launch in point.launches if any(launch)]
            yield _spread(f"{benchmark.label}, {point_label(point)}", repeats_of(launches), tail)
    for one in benchmark.workload:
        if isinstance(one, TrainingPoint) and one.complete and one.seconds.median >= LONG_SECONDS:
            steps = [[launch] for launch in one.launches if launch]
            yield _spread(f"{benchmark.label}, {one.label}", repeats_of(steps, is_mean=True), tail)


def _spread(label: str, launches: Repeats, tail: float) -> FigureSpread:
    share = math.inf
    if launches.count > 1:
        both = weigh(launches, launches)
        share = math.expm1(half_width(*both, tail))
    return FigureSpread(label=label, share=share, launches=launches.count)
