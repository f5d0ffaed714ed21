"""Memory that grows from step to step, told by what was held after each: the one judgement of it. Pure."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from diagnostics.findings import Evidence, Finding
from raybench.documents.run.training.memory_growth import MemoryGrowth
from raybench.documents.run.training.point import TrainingPoint
from raybench.finding_rules.samples import MEMORY_GROWS
from raybench.stats import mean_interval
from raybench.units import format_bytes

PARTS = 8
LEAST_A_PART = 4  # readings
LEAST_BYTES, LEAST_SHARE = 64 * 2**20, 0.01
JUMPS, JUMPS_SHARE = 2, 0.5  # so many of the steps of a leak may add something else than it does
SETTLED = 0.25  # of the steps, after which allocators have what they need


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """Bytes from part to part: the mean and its 95 % interval; ``total`` from the first to the last of them."""

    mean: float
    low: float
    high: float
    total: float


def growth_of(held: Sequence[float]) -> Growth | None:
    """How much the least of each part grows from part to part; None where it does not, or by too little to matter.

    The least: what comes and goes within a step, or is freed by a collector now and then, is not kept.
    """
    length = len(held) // PARTS
    least = [min(held[part * length : (part + 1) * length]) for part in range(PARTS)]
    steps = [after - before for before, after in pairwise(least)]
    low, high = mean_interval(steps)
    total = least[-1] - least[0]
    if low <= 0 or total < max(LEAST_BYTES, LEAST_SHARE * least[0]):
        return None
    return Growth(mean=sum(steps) / len(steps), low=low, high=high, total=total)


def growth_by_step(rank: int, kind: str, held: Sequence[float], free_bytes: float | None) -> MemoryGrowth | None:
    """Growth of what a rank held after each timed step; None of too few steps, or where it does not grow.

    ``free_bytes``: what is left after the last step.
    """
    settled = int(SETTLED * len(held))
    growth, length = _of_steps(held[settled:])
    if growth is None:
        return None
    since = _since(held, growth.mean / length)
    later, shorter = _of_steps(held[max(since, settled) :])
    if later is not None:  # what was before it began is no part of its pace
        growth, length = later, shorter
    a_step = growth.mean / length
    return MemoryGrowth(
        rank=rank,
        kind=kind,
        bytes_per_step=a_step,
        interval=(growth.low / length, growth.high / length),
        since_step=since,
        grown_bytes=int(growth.total),
        steps_left=None if free_bytes is None else max(int(free_bytes / a_step), 0),
    )


def _of_steps(held: Sequence[float]) -> tuple[Growth | None, int]:
    """The growth, and the steps of a part; None of too few."""
    length = len(held) // PARTS
    return (growth_of(held) if length >= LEAST_A_PART else None), length


def _since(held: Sequence[float], a_step: float) -> int:
    """The step, from 1, at which growth by ``a_step`` begins.

    That is the last one after which no more was held than after any before it, within the growth of a step; or an
    earlier one, from which on most steps add about as much: what is freed or taken at once on the way (a
    start's objects, by late collections) is no end of growth before it, nor is it in the first few steps.
    """
    least, since = held[0], 1
    for number, value in enumerate(held, start=1):
        if value <= least + a_step / 2:
            least, since = min(least, value), number
    found, others = since, 0
    for number in range(since - 1, 0, -1):
        adds = held[number] - held[number - 1]
        if not a_step / 2 <= adds <= 3 * a_step / 2:
            others += 1
        elif others <= max(JUMPS, (since - number) * JUMPS_SHARE):
            found = number
    return found if found > LEAST_A_PART else 1  # what so few steps add shows nothing


def growth_findings(point: TrainingPoint, node_of: Callable[[int], str | None]) -> Iterator[Finding]:
    """A finding for each rank whose memory grew from step to step."""
    for one in point.memory_growth:
        node = node_of(one.rank)
        low, high = (format_bytes(round(each)) for each in one.interval)
        what = "allocated GPU memory" if one.kind == "cuda" else "resident memory (RSS)"
        lasts = "" if one.steps_left is None else f"; what is free now lasts {one.steps_left} more steps"
        pace, steps = format_bytes(round(one.bytes_per_step)), len(point.launches[0])
        yield grown(
            summary=f"rank {one.rank}: {what} grows by {pace} a step from step {one.since_step} on during "
            f"{point.label}{lasts}",
            explanation=f"By {format_bytes(one.grown_bytes)} in the later of {steps} steps; 95 % interval {low} to "
            f"{high} a step.",
            ranks=(one.rank,),
            hosts=(node,) if node else (),
        )


def grown(
    *,
    summary: str,
    explanation: str,
    ranks: tuple[int, ...],
    hosts: tuple[str, ...],
    evidence: tuple[Evidence, ...] = (),
) -> Finding:
    """The finding, of what ranks said themselves and of samples alike."""
    return MEMORY_GROWS.finding(
        confidence="likely",
        summary=summary,
        explanation=explanation,
        ranks=ranks,
        hosts=hosts,
        evidence=evidence,
        recommendations=MEMORY_GROWS.advise(),
    )
