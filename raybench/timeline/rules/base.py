"""What a rule over samples answers, and what several of them ask."""

from collections.abc import Sequence
from dataclasses import dataclass

from diagnostics.findings import Evidence, Finding
from raybench.documents.run.node_samples import FILE, SampledNode
from raybench.documents.run.verdict import Check
from raybench.timeline.spans import Span, Timeline
from raybench.units import format_seconds

NO_TIMES = "the result does not say when its points were measured"
RESULT = "result.json"
_UNBOUNDED_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Findings; ``why``: what keeps the rule from telling, at least of some nodes; ``checks``: what it leaves open."""

    findings: tuple[Finding, ...] = ()
    why: str = ""
    checks: tuple[Check, ...] = ()


def lacking(timeline: Timeline, nodes: Sequence[SampledNode], what: str) -> str:
    """``node-2 and 3 more have no series of ports``; empty where none lacks it."""
    if not nodes:
        return ""
    more = f" and {len(nodes) - 1} more" if len(nodes) > 1 else ""
    every = len(nodes) == len(timeline.samples.nodes)
    return f"no node has {what}" if every else f"{nodes[0].name}{more} without {what}"


def sampled(node: SampledNode, name: str, begin: float, end: float) -> Evidence:
    """A series at the beginning and the end of a time, as a line: the document is one line."""
    known = [
        (at, value)
        for at, value in zip(node.seconds, node.values(name), strict=True)
        if value is not None and begin - _edge(node) <= at <= end + _edge(node)
    ]
    text = ", ".join(f"{value:.15g} at {at:.1f} s" for at, value in (known[:1] + known[-1:]))
    return Evidence(file=FILE, line=1, text=f"{node.name} {name}: {text}{_clock_offset(node)}")


def measured(span: Span, text: str) -> Evidence:
    """What was measured, as a line."""
    return Evidence(file=RESULT, line=1, text=f"{span.title}, {span.begin:.1f} to {span.end:.1f} s: {text}")


def _clock_offset(node: SampledNode) -> str:
    """How far off those times may be, where the node has a clock of its own."""
    bound = node.clock.bound_seconds
    if bound is None:
        return " (offset of its clock unknown)"
    return f" (offset of its clock within ±{format_seconds(bound)})" if bound else ""


def is_joined(node: SampledNode, span: Span) -> bool:
    """Whether what the node sampled during a point is known to be of that point: by its clock, and by its readings."""
    return is_joined_over(node, span.end - span.begin)


def is_joined_over(node: SampledNode, seconds: float) -> bool:
    """The same of any stretch of time that was so long."""
    return _bound(node) <= max(seconds, node.resolution_seconds)


def not_joined(timeline: Timeline) -> str:
    """``node-2 and 3 more: the offset of its clock is known within ±2 s only, ...``; empty where all are."""
    found = [
        (node, span) for node in timeline.samples.nodes for span in timeline.spans_on(node) if not is_joined(node, span)
    ]
    nodes = list(dict.fromkeys(node.name for node, _ in found))
    if not found:
        return ""
    node, span = found[0]
    more = f" and {len(nodes) - 1} more" if len(nodes) > 1 else ""
    clock = f"the offset of its clock is known within ±{format_seconds(_bound(node))} only"
    return f"{nodes[0]}{more}: {clock}, longer than {span.title} lasted"


def joined_spans(timeline: Timeline, node: SampledNode) -> tuple[Span, ...]:
    """The points that ranks of a machine took part in, and that its clock can be joined with."""
    return tuple(span for span in timeline.spans_on(node) if is_joined(node, span))


def _edge(node: SampledNode) -> float:
    return node.resolution_seconds + _bound(node)


def _bound(node: SampledNode) -> float:
    """How far off its clock may be; of one that nothing bounds a second is taken, as of clocks that NTP keeps."""
    return _UNBOUNDED_SECONDS if node.clock.bound_seconds is None else node.clock.bound_seconds


def around(node: SampledNode, span: Span) -> tuple[float, float]:
    """A span with how far off the node's clock may be."""
    bound = _bound(node)
    return span.begin - bound, span.end + bound


def ranks_on(timeline: Timeline, node: SampledNode) -> tuple[int, ...]:
    """The ranks of a machine."""
    return tuple(rank for one in timeline.result.cluster.nodes if one.name in node.nodes for rank in one.ranks)
