"""Memory that grows throughout the timed steps of a training."""

from collections.abc import Iterator, Sequence

from diagnostics.agent.series import split_name
from diagnostics.findings import Finding
from raybench.documents.run.node_samples import SampledNode
from raybench.documents.run.training.point import TrainingPoint
from raybench.timeline.growth import LEAST_A_PART, PARTS, SETTLED, Growth, grown, growth_findings, growth_of
from raybench.timeline.measures import between
from raybench.timeline.rules.base import Answer, lacking, measured, sampled
from raybench.timeline.spans import Steps, Timeline
from raybench.units import format_bytes

_SERIES = (("process", "resident_bytes"), ("gpu", "memory_used_bytes"))


def judge(timeline: Timeline) -> Answer:
    """A finding for each rank and GPU whose memory grows, once: what a rank said itself is not said of its samples."""
    found = list(_told_by_ranks(timeline))
    if not timeline.steps:
        return Answer(findings=tuple(found))
    nodes = timeline.samples.nodes
    told = {rank for one in found for rank in one.ranks}
    short: list[SampledNode] = []
    for node in nodes:
        series = [name for group, metric in _SERIES for name in node.names(group, metric)]
        enough = False
        for steps in timeline.steps:
            for name, held in _held(node, series, steps):
                enough = True
                growth = growth_of(held)
                if growth is not None and not _is_told(timeline, node, name, told):
                    found.append(_finding(timeline, node, name, steps, growth))
        short += [] if enough else [node]
    what = f"{PARTS * LEAST_A_PART} readings of the memory of ranks or GPUs over the timed steps"
    return Answer(findings=tuple(found), why=lacking(timeline, short, what))


def _told_by_ranks(timeline: Timeline) -> Iterator[Finding]:
    """What the ranks saw themselves after each step, on a GPU of what tensors hold: nearer to the leak than samples."""
    nodes = {rank: node.name for node in timeline.result.cluster.nodes for rank in node.ranks}
    for benchmark in timeline.result.benchmarks:
        for point in benchmark.workload:
            if isinstance(point, TrainingPoint):
                yield from growth_findings(point, nodes.get)


def _is_told(timeline: Timeline, node: SampledNode, name: str, told: set[int]) -> bool:
    """Whether a rank of the process, or of the GPU's node, said so itself."""
    group, device, _ = split_name(name)
    if group == "process":
        return bool(told.intersection(_ranks_of(timeline, node, device)))
    nodes = (one for one in timeline.result.cluster.nodes if one.name in node.nodes)
    return any(told.intersection(one.ranks) for one in nodes)


def _held(node: SampledNode, names: Sequence[str], steps: Steps) -> Iterator[tuple[str, list[float]]]:
    """What each held over the steps, the first quarter left out, where there are enough readings of it."""
    begin = steps.begin + SETTLED * (steps.ends[-1] - steps.begin)
    for name in names:
        held = between(node, node.values(name), begin, steps.ends[-1])
        if len(held) >= PARTS * LEAST_A_PART:
            yield name, held


def _finding(timeline: Timeline, node: SampledNode, name: str, steps: Steps, growth: Growth) -> Finding:
    a_part = (1 - SETTLED) * len(steps.ends) / PARTS
    mean, low, high = (format_bytes(round(one / a_part)) for one in (growth.mean, growth.low, growth.high))
    group, device, _ = split_name(name)
    ranks = _ranks_of(timeline, node, device) if group == "process" else ()
    who = f"GPU {device}" if group == "gpu" else f"rank {ranks[0]}" if ranks else f"process {device}"
    return grown(
        summary=f"{node.name}: memory of {who} grows by {mean} a step during {steps.span.title}",
        explanation=f"By {format_bytes(round(growth.total))} after the first quarter of {len(steps.ends)} steps; "
        f"95 % interval {low} to {high} a step.",
        ranks=ranks,
        hosts=(node.name,),
        evidence=(
            sampled(node, name, steps.begin, steps.ends[-1]),
            measured(steps.span, f"{len(steps.ends)} timed steps"),
        ),
    )


def _ranks_of(timeline: Timeline, node: SampledNode, pid: str) -> tuple[int, ...]:
    nodes = (one for one in timeline.result.cluster.nodes if one.name in node.nodes)
    return tuple(rank for one in nodes for rank, known in one.rank_pids.items() if known == pid)
