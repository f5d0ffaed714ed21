"""Nodes that swapped while they were measured."""

from diagnostics.findings import Finding
from raybench.documents.run.node_samples import SampledNode
from raybench.finding_rules.samples import NODE_SWAPS
from raybench.timeline.measures import track_of
from raybench.timeline.rules.base import NO_TIMES, Answer, around, joined_spans, lacking, measured, ranks_on, sampled
from raybench.timeline.spans import Span, Timeline
from raybench.units import format_bytes

LEAST_BYTES = 2**20
_SERIES = ("in_bytes", "out_bytes")


def judge(timeline: Timeline) -> Answer:
    """A finding for each node that swapped, of the point in which it swapped most."""
    if not timeline.spans:
        return Answer(why=NO_TIMES)
    nodes = timeline.samples.nodes
    without = [node for node in nodes if not any(node.names("host", one) for one in _SERIES)]
    found = [finding for node in nodes if (finding := _of_node(timeline, node)) is not None]
    return Answer(findings=tuple(found), why=lacking(timeline, without, "counters of swapped memory"))


def _of_node(timeline: Timeline, node: SampledNode) -> Finding | None:
    names = [name for one in _SERIES for name in node.names("host", one) if not node.is_constant(name)]
    tracks = {name: track for name in names if (track := track_of(node, name)).total >= LEAST_BYTES}
    moved = [
        (swapped, name, span)
        for name, track in tracks.items()
        for span in joined_spans(timeline, node)
        if (swapped := track.grown(*around(node, span)) or 0.0) >= LEAST_BYTES
    ]
    return _finding(timeline, node, *max(moved, key=lambda one: one[0])) if moved else None


def _finding(timeline: Timeline, node: SampledNode, moved: float, name: str, span: Span) -> Finding:
    way = "in" if name.endswith("in_bytes") else "out"
    return NODE_SWAPS.finding(
        confidence="certain",
        summary=f"{node.name} swapped {format_bytes(round(moved))} {way} during {span.title}",
        explanation="What a process waits for is then read from a disk: the figures are those of the disk.",
        ranks=ranks_on(timeline, node),
        hosts=(node.name,),
        evidence=(sampled(node, name, *around(node, span)), measured(span, "measured meanwhile")),
        recommendations=NODE_SWAPS.advise(node=node.name),
    )
