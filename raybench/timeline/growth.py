"""Memory that grows from step to step, told by what was held after each: the one judgement of it. Pure."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from diagnostics.findings import Evidence, Finding
from raybench.documents.run.training import MemoryGrowth, TrainingPoint
from raybench.finding_rules.samples import MEMORY_GROWS
from raybench.stats import mean_interval
from raybench.units import format_bytes

PARTS = 8
LEAST_A_PART = 4  # readings
LEAST_BYTES, LEAST_SHARE = 64 * 2**20, 0.01
FALLS_FOR_GOOD = 2  # more of a size come again: a collector's
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
    """The last step, from 1, after which no more was held than after any before it, within the growth of a step.

    What was freed for good on the way (a start's objects, by a late collection) is no end of growth before it.
    """
    freed, least, since = _freed_for_good(held), held[0], 1
    for number, value in enumerate((value + before for value, before in zip(held, freed, strict=True)), start=1):
        if value <= least + a_step / 2:
            least, since = min(least, value), number
    return since


def _freed_for_good(held: Sequence[float]) -> list[float]:
    """Per step: bytes freed up to it by a fall that is not repeated and that no rise made up for at once."""
    changes = [after - before for before, after in pairwise(held)]
    half = min(changes) / 2
    large = [change for change in changes if change <= half]
    if half >= 0 or len(large) > FALLS_FOR_GOOD or max(changes) > -half:
        return [0.0] * len(held)
    return [0.0, *accumulate(-change if change <= half else 0.0 for change in changes)]


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
