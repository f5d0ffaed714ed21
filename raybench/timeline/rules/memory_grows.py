"""Memory that grows throughout the timed steps of a training."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from diagnostics.agent.series import split_name
from diagnostics.findings import Finding
from raybench.documents.run.node_samples import SampledNode
from raybench.finding_rules.samples import MEMORY_GROWS
from raybench.stats import mean_interval
from raybench.timeline.measures import between
from raybench.timeline.rules.base import Answer, lacking, measured, sampled
from raybench.timeline.spans import Steps, Timeline
from raybench.units import format_bytes

PARTS = 8
LEAST_A_PART = 4  # readings
LEAST_BYTES, LEAST_SHARE = 64 * 2**20, 0.01
_SETTLED = 0.25  # of the steps, after which allocators have what they need
_SERIES = (("process", "resident_bytes"), ("gpu", "memory_used_bytes"))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Growth:
    """Bytes from part to part: the mean and its 95 % interval; ``total`` from the first to the last of them."""

    mean: float
    low: float
    high: float
    total: float


def judge(timeline: Timeline) -> Answer:
    """A finding for each rank and GPU whose memory grows."""
    if not timeline.steps:
        return Answer()
    nodes = timeline.samples.nodes
    found: list[Finding] = []
    short: list[SampledNode] = []
    for node in nodes:
        series = [name for group, metric in _SERIES for name in node.names(group, metric)]
        enough = False
        for steps in timeline.steps:
            for name, held in _held(node, series, steps):
                enough = True
                growth = growth_of(held)
                if growth is not None:
                    found.append(_finding(timeline, node, name, steps, growth))
        short += [] if enough else [node]
    what = f"{PARTS * LEAST_A_PART} readings of the memory of ranks or GPUs over the timed steps"
    return Answer(findings=tuple(found), why=lacking(timeline, short, what))


def _held(node: SampledNode, names: Sequence[str], steps: Steps) -> Iterator[tuple[str, list[float]]]:
    """What each held over the steps, the first quarter left out, where there are enough readings of it."""
    begin = steps.begin + _SETTLED * (steps.ends[-1] - steps.begin)
    for name in names:
        held = between(node, node.values(name), begin, steps.ends[-1])
        if len(held) >= PARTS * LEAST_A_PART:
            yield name, held


def growth_of(held: Sequence[float]) -> _Growth | None:
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
    return _Growth(mean=sum(steps) / len(steps), low=low, high=high, total=total)


def _finding(timeline: Timeline, node: SampledNode, name: str, steps: Steps, growth: _Growth) -> Finding:
    a_part = (1 - _SETTLED) * len(steps.ends) / PARTS
    mean, low, high = (format_bytes(round(one / a_part)) for one in (growth.mean, growth.low, growth.high))
    group, device, _ = split_name(name)
    ranks = _ranks_of(timeline, node, device) if group == "process" else ()
    who = f"GPU {device}" if group == "gpu" else f"rank {ranks[0]}" if ranks else f"process {device}"
    return MEMORY_GROWS.finding(
        confidence="likely",
        summary=f"{node.name}: memory of {who} grows by {mean} a step during {steps.span.title}",
        explanation=f"By {format_bytes(round(growth.total))} after the first quarter of {len(steps.ends)} steps; "
        f"95 % interval {low} to {high} a step.",
        ranks=ranks,
        hosts=(node.name,),
        evidence=(
            sampled(node, name, steps.begin, steps.ends[-1]),
            measured(steps.span, f"{len(steps.ends)} timed steps"),
        ),
        recommendations=MEMORY_GROWS.advise(),
    )


def _ranks_of(timeline: Timeline, node: SampledNode, pid: str) -> tuple[int, ...]:
    nodes = (one for one in timeline.result.cluster.nodes if one.name in node.nodes)
    return tuple(rank for one in nodes for rank, known in one.rank_pids.items() if known == pid)
