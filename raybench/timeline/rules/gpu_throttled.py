"""GPUs that lowered their clocks while they were measured."""

from collections.abc import Iterator

from diagnostics.agent.series import SERIES, split_name
from diagnostics.findings import Finding
from raybench.documents.run.node_samples import SampledNode
from raybench.finding_rules.samples import GPU_THROTTLED
from raybench.stats import median
from raybench.timeline.rules.base import NO_TIMES, Answer, around, joined_spans, lacking, measured, ranks_on, sampled
from raybench.timeline.spans import Span, Steps, Timeline
from raybench.units import format_seconds

REASONS = ("throttle_thermal", "throttle_power_brake", "throttle_hardware")  # the power cap is no fault
_LEAST_READINGS = 2


def judge(timeline: Timeline) -> Answer:
    """A finding for each GPU and reason, of the point in which it was for longest."""
    if not any(node.gpu_count for node in timeline.result.cluster.nodes):
        return Answer()
    if not timeline.spans:
        return Answer(why=NO_TIMES)
    nodes = timeline.samples.nodes
    without = [node for node in nodes if not any(node.names("gpu", reason) for reason in REASONS)]
    found = tuple(finding for node in nodes for finding in _of_node(timeline, node))
    return Answer(findings=found, why=lacking(timeline, without, "the reasons for which GPUs lower their clocks"))


def _of_node(timeline: Timeline, node: SampledNode) -> Iterator[Finding]:
    for name in (name for reason in REASONS for name in node.names("gpu", reason)):
        rows = [(at, value) for at, value in zip(node.seconds, node.values(name), strict=True) if value is not None]
        if not any(value for _, value in rows):
            continue
        times = [(span, *_throttled(node, span, rows)) for span in joined_spans(timeline, node)]
        if times:
            span, flagged, count = max(times, key=lambda time: len(time[1]))
            if len(flagged) >= (_LEAST_READINGS if node.merged == 1 else 1):
                yield _finding(timeline, node, name, span, flagged, count)


def _throttled(node: SampledNode, span: Span, rows: list[tuple[float, float]]) -> tuple[list[float], int]:
    """When it was so within a span, and how many readings there are of it."""
    begin, end = around(node, span)
    within = [(at, value) for at, value in rows if begin <= at <= end]
    return [at for at, value in within if value], len(within)


def _finding(timeline: Timeline, node: SampledNode, name: str, span: Span, flagged: list[float], count: int) -> Finding:
    parts = split_name(name)
    title = SERIES[parts.group, parts.metric].title
    steps = next((one for one in timeline.steps if one.span is span), None)
    while_steps = _of_steps(node, steps, flagged) if steps else None
    compared = f" {while_steps}." if while_steps else ""
    lines = [sampled(node, name, flagged[0], flagged[-1])]
    lines += [measured(span, while_steps)] if while_steps else []
    return GPU_THROTTLED.finding(
        confidence="certain",
        summary=f"{node.name} GPU {parts.device}: {title} in {len(flagged)} of {count} readings during {span.title}",
        explanation=f"From {flagged[0]:.0f} to {flagged[-1]:.0f} s of the run.{compared}",
        ranks=ranks_on(timeline, node),
        hosts=(node.name,),
        evidence=tuple(lines),
        recommendations=GPU_THROTTLED.advise(gpu=parts.device, node=node.name),
    )


def _of_steps(node: SampledNode, steps: Steps, flagged: list[float]) -> str | None:
    """``steps 40 to 80 took 120 ms in the median, the others 90 ms``; None where there are no others."""
    half = node.resolution_seconds / 2
    during = sorted({step for at in flagged for step in steps.within(at - half, at + half)})
    seconds = steps.point.launches[steps.span.time.launch]
    others = sorted(set(range(len(seconds))) - set(during))
    if not during or not others:
        return None
    slow, usual = (format_seconds(median([seconds[step] for step in ones])) for ones in (during, others))
    return f"{len(during)} steps between {during[0] + 1} and {during[-1] + 1} took {slow} in the median, others {usual}"
