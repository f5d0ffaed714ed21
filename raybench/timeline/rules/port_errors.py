"""Errors of a port during a benchmark, and what they cost where that was measured without them as well."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from diagnostics.agent.series import SERIES, split_name
from diagnostics.findings import Finding
from raybench.documents.run.node_samples import SampledNode
from raybench.documents.run.point import Point
from raybench.finding_rules.samples import PORT_ERRORS
from raybench.stats import median, quantile
from raybench.timeline.measures import track_of
from raybench.timeline.rules.base import NO_TIMES, Answer, around, joined_spans, lacking, measured, ranks_on, sampled
from raybench.timeline.spans import Span, Timeline, point_of_span

# Counters that show a fault of a link, and the least growth within a point that is told. Bits fail now and then: the
# InfiniBand specification allows one in 10^12, ten an hour at 40 Gb/s (volume 1, 7.12.2).
FAULTS: Mapping[tuple[str, str], int] = {
    ("port", "symbol_errors"): 10,
    ("port", "link_downed"): 1,
    ("port", "link_recoveries"): 1,
    ("port", "receive_errors"): 10,
    ("port", "remote_physical_errors"): 10,
    ("port", "integrity_errors"): 10,
    ("port", "buffer_overruns"): 10,
    ("nic", "crc_errors"): 10,
    ("nic", "send_errors"): 10,
    ("nic", "receive_errors"): 10,
    ("nic", "carrier_changes"): 1,
}
_LEAST_DROP = 0.05
_LEAST_OTHERS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class _Growth:
    node: SampledNode
    series: str
    span: Span
    errors: int
    drop: "_Drop | None"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Drop:
    """How much slower a point was with errors than without: ``text`` quotes both."""

    share: float
    beside: str
    text: str


def judge(timeline: Timeline) -> Answer:
    """A finding for each port that had errors while it was used."""
    nodes = timeline.samples.nodes
    names = {node.name: fault_counters(node) for node in nodes}
    without = [node for node in nodes if not names[node.name]]
    if not timeline.spans:
        return Answer(why=NO_TIMES)
    findings = [
        _finding(timeline, found)
        for node in nodes
        for found in _worst_by_port(timeline, node, [name for name in names[node.name] if not node.is_constant(name)])
    ]
    return Answer(findings=tuple(findings), why=lacking(timeline, without, "error counters of ports"))


def fault_counters(node: SampledNode) -> list[str]:
    """Those of its series that show faults of a link."""
    return [name for name in node.series if _limit(name) is not None]


def _limit(name: str) -> int | None:
    try:
        parts = split_name(name)
    except ValueError:
        return None
    return FAULTS.get((parts.group, parts.metric))


def _worst_by_port(timeline: Timeline, node: SampledNode, names: list[str]) -> Iterator[_Growth]:
    """Of each port the errors that cost most, else the most of the gravest."""
    found: dict[str, list[_Growth]] = {}
    for name in names:
        parts = split_name(name)
        limit, track = _limit(name) or 1, track_of(node, name)
        for span in joined_spans(timeline, node) if track.total >= limit else ():
            errors = track.grown(*around(node, span))
            if errors is not None and errors >= limit:
                one = _Growth(node=node, series=name, span=span, errors=round(errors), drop=None)
                found.setdefault(f"{parts.group}/{parts.device}", []).append(one)
    for growths in found.values():
        costly = [one for growth in growths if (one := _with_drop(growth, growths)).drop is not None]
        if costly:
            yield max(costly, key=lambda one: (one.drop.share if one.drop else 0.0, one.errors))
        else:
            yield max(growths, key=lambda one: one.errors / (_limit(one.series) or 1))


def _with_drop(growth: _Growth, growths: list[_Growth]) -> _Growth:
    point = point_of_span(growth.span)
    if point is None:
        return growth
    bad = {one.span.time.launch for one in growths if point_of_span(one.span) is point}
    drop = _beside_launches(growth.span, point, bad) or _beside_pairs(growth.span, point)
    return _Growth(node=growth.node, series=growth.series, span=growth.span, errors=growth.errors, drop=drop)


def _beside_launches(span: Span, point: Point, bad: set[int]) -> _Drop | None:
    """The same point in launches without errors: slower where the blocks of the two do not overlap."""
    key = (span.time.message_bytes, span.time.source_rank, span.time.destination_rank)
    told = sorted(
        one.launch for one in span.benchmark.times if (one.message_bytes, one.source_rank, one.destination_rank) == key
    )
    if len(told) != len(point.launches):
        return None  # a launch of the two is not whole: which is which is not known
    by_launch = dict(zip(told, point.launches, strict=True))
    own = [median(block) for block in by_launch[span.time.launch] if block]
    others = [median(block) for launch, blocks in by_launch.items() if launch not in bad for block in blocks if block]
    if len(own) < 2 or len(others) < 2 or min(own) <= max(others):
        return None
    return _drop(point, median(own), median(others), "its other launches")


def _beside_pairs(span: Span, point: Point) -> _Drop | None:
    """Pairs of other ranks at the same size: slower where its fastest block is slower than 95 % of them."""
    if span.ranks is None:
        return None
    others = [
        one.seconds.median
        for one in span.benchmark.points
        if one.message_bytes == point.message_bytes
        and one.source_rank is not None
        and not {one.source_rank, one.destination_rank} & set(span.ranks)
    ]
    own = [median(block) for launch in point.launches for block in launch if block]
    if len(others) < _LEAST_OTHERS or len(own) < 2 or min(own) <= quantile(sorted(others), 0.95):
        return None
    return _drop(point, median(own), median(others), "pairs of other nodes")


def _drop(point: Point, own_seconds: float, other_seconds: float, beside: str) -> _Drop | None:
    share = 1 - other_seconds / own_seconds
    if share < _LEAST_DROP:
        return None
    slow, fast = (point.message_bytes / one / 1e9 * point.bus_factor for one in (own_seconds, other_seconds))
    text = f"busbw {slow:.4g} GB/s, {fast:.4g} in {beside}"
    return _Drop(share=share, beside=beside, text=text)


def _finding(timeline: Timeline, found: _Growth) -> Finding:
    parts = split_name(found.series)
    title = SERIES[parts.group, parts.metric].title
    cost = f", busbw {found.drop.share:.0%} below {found.drop.beside}" if found.drop else ""
    compared = (
        f"{found.drop.text}." if found.drop else "Nothing tells that what was measured then was slower without them."
    )
    lines = [sampled(found.node, found.series, *around(found.node, found.span))]
    lines += [measured(found.span, found.drop.text)] if found.drop else []
    return PORT_ERRORS.finding(
        severity="critical" if found.drop else "warning",
        confidence="likely" if found.drop else "possible",
        summary=f"{found.node.name} {parts.device}: {title} +{found.errors:,} during {found.span.title}{cost}",
        explanation=f"Between readings {found.node.resolution_seconds:g} s apart. {compared}",
        ranks=ranks_on(timeline, found.node),
        hosts=(found.node.name,),
        evidence=tuple(lines),
        recommendations=PORT_ERRORS.advise(port=parts.device, node=found.node.name),
    )
