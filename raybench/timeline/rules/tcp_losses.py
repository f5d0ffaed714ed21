"""TCP segments lost during a benchmark, and what that cost: beside times without, or beside the link's rate."""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from diagnostics.agent.rules.tcp_retransmissions import LIMIT_SEGMENTS, LIMIT_SHARE
from diagnostics.agent.series import split_name
from diagnostics.findings import Finding
from raybench.documents.run.node_samples import SampledNode
from raybench.documents.run.verdict import Check
from raybench.finding_rules.samples import TCP_LOSSES
from raybench.timeline.link_rate import LinkRate, link_rate
from raybench.timeline.measures import Track, between, track_of
from raybench.timeline.rules.base import NO_TIMES, Answer, is_joined_over, lacking, measured, sampled
from raybench.timeline.spans import Span, Timeline

CHECK = "tcp"
SENT, AGAIN, NEEDLESS = (
    f"host/tcp/{name}" for name in ("sent_segments", "retransmitted_segments", "needlessly_retransmitted_segments")
)
MOST_PARTS = 8
LEAST_READINGS = 3  # of a part
_LEAST_BYTES = 2**20  # of a part, in bulk, of which a rate is told
_NO_LOSS = LIMIT_SHARE / 10
_COSTS = 0.5  # of what TCP carried without losses: below, they cost what this run measures
_OF_LINK = 0.25  # of the link's rate, in the second in which it moved most: below, with losses, they are what holds it
_OF_MOST = 0.1  # of what a node lost: a peer to which less went is not its trouble
_MOST_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """A stretch of a benchmark on one node: segments sent and lost, bulk bytes and seconds with them on their way."""

    sent: float
    lost: float
    carried: float
    carrying: float

    @property
    def is_lossy(self) -> bool:
        return self.lost >= LIMIT_SEGMENTS and self.lost >= LIMIT_SHARE * self.sent

    @property
    def is_clean(self) -> bool:
        return self.lost <= _NO_LOSS * self.sent


@dataclass(frozen=True)
class _Losses:
    """What a node lost during a benchmark, in the parts of it in which it lost much."""

    node: SampledNode
    parts: Sequence[_Part]
    to: Mapping[str, float]  # by node
    link: LinkRate | None

    @cached_property
    def lossy(self) -> list[_Part]:
        return [one for one in self.parts if one.is_lossy]

    @property
    def share(self) -> float:
        return sum(one.lost for one in self.lossy) / sum(one.sent for one in self.lossy)

    @property
    def rate(self) -> float | None:
        """GB/s by TCP while it had bulk data on its way, and lost of it."""
        return _rate(self.lossy)

    @property
    def clean_rate(self) -> float | None:
        """The same where it lost none."""
        return _rate([one for one in self.parts if one.is_clean])

    @property
    def beside_clean(self) -> float | None:
        """The one over the other."""
        return self.rate / self.clean_rate if self.rate and self.clean_rate else None

    @property
    def of_link(self) -> float | None:
        """The most that TCP or the NIC moved, over the rate of the link."""
        return max(self.rate or 0.0, self.link.most_gb_per_second) / self.link.gb_per_second if self.link else None


def judge(timeline: Timeline) -> Answer:
    """A finding for the benchmark in which most was lost; a check that is open where what it cost is not known."""
    cluster, nodes = timeline.result.cluster, timeline.samples.nodes
    if cluster.emulated or len(cluster.nodes) < 2:
        return Answer()  # nothing leaves the machine
    without = [node for node in nodes if not {SENT, AGAIN} <= node.series.keys()]
    if nodes and not timeline.spans:
        return Answer(why=NO_TIMES)
    by_benchmark: dict[int, list[Span]] = {}
    for span in timeline.spans:
        by_benchmark.setdefault(id(span.benchmark), []).append(span)
    each = [(spans, list(_losses(timeline, spans))) for spans in by_benchmark.values()]
    worst = max((one for one in each if one[1]), key=lambda one: max(loss.share for loss in one[1]), default=None)
    why = lacking(timeline, without, "counts of TCP segments")
    if worst is None:
        return Answer(why=why)
    finding, is_known = _finding(timeline, *worst)
    text = f"{finding.summary}: what the network carries without is not known"
    checks = () if is_known else (Check(name=CHECK, outcome="not judged", text=text, undecided=True),)
    return Answer(findings=(finding,), why=why, checks=checks)


def _losses(timeline: Timeline, spans: Sequence[Span]) -> Iterator[_Losses]:
    begin, end = min(span.begin for span in spans), max(span.end for span in spans)
    for node in timeline.samples.nodes:
        count = min(int((end - begin) / (LEAST_READINGS * node.resolution_seconds)), MOST_PARTS)
        if len(node.nodes) != 1 or not {SENT, AGAIN} <= node.series.keys() or node.is_constant(AGAIN) or count < 1:
            continue
        edges = [begin + (end - begin) * number / count for number in range(count + 1)]
        parts = list(_parts(node, edges)) if is_joined_over(node, end - begin) else []
        if any(one.is_lossy for one in parts):
            yield _Losses(node, parts, _lost_to(timeline, node, begin, end), link_rate(node, begin, end))


def _parts(node: SampledNode, edges: Sequence[float]) -> Iterator[_Part]:
    sent, again = track_of(node, SENT), track_of(node, AGAIN)
    needless = [track_of(node, NEEDLESS)] if NEEDLESS in node.series else []
    carried, carrying = (
        [track_of(node, name) for name in node.names("tcp", metric)] for metric in ("carried_bytes", "carrying_seconds")
    )
    for begin, end in pairwise(edges):
        lost = _grown([again], begin, end) - _grown(needless, begin, end)
        yield _Part(
            sent=_grown([sent], begin, end),
            lost=max(lost, 0.0),
            carried=_grown(carried, begin, end),
            carrying=_grown(carrying, begin, end),
        )


def _grown(tracks: Sequence[Track], begin: float, end: float) -> float:
    """Of all of them, between the first and the last reading within a time."""
    total = 0.0
    for track in tracks:
        first, last = bisect_left(track.seconds, begin), bisect_right(track.seconds, end) - 1
        total += track.totals[last] - track.totals[first] if last > first else 0.0
    return total


def _rate(parts: Sequence[_Part]) -> float | None:
    used = [one for one in parts if one.carried >= _LEAST_BYTES and one.carrying > 0]
    return sum(one.carried for one in used) / sum(one.carrying for one in used) / 1e9 if used else None


def _lost_to(timeline: Timeline, node: SampledNode, begin: float, end: float) -> dict[str, float]:
    """What it lost on the way to each other node, but for those to which next to nothing was lost."""
    known = {address: one.name for one in timeline.result.cluster.nodes for address in one.addresses}
    lost: Counter[str] = Counter()
    for name in node.names("tcp", "lost_segments"):
        peer = known.get(split_name(name).device, "")
        before, within = (between(node, node.values(name), *times) for times in ((0.0, begin), (begin, end)))
        if peer and peer not in node.nodes and within:  # it is counted from 0, and read once it is more
            lost[peer] += round(within[-1] - (before[-1] if before else 0.0))
    most = sum(lost.values())
    return {peer: count for peer, count in lost.items() if count > _OF_MOST * most}


def _finding(timeline: Timeline, spans: Sequence[Span], losses: Sequence[_Losses]) -> tuple[Finding, bool]:
    """And whether what they cost is known."""
    worst = max(losses, key=lambda one: one.share)
    cost, severity = _cost(losses)
    nodes, senders = _between(timeline, losses), [one.node.name for one in losses]
    span = max(spans, key=lambda one: one.end - one.begin)
    told = f"{worst.share:.1%} of the TCP segments of {worst.node.name} were lost and sent again"
    hosts = tuple(nodes) or tuple(senders)
    of_hosts = [one for one in timeline.result.cluster.nodes if one.name in hosts]
    finding = TCP_LOSSES.finding(
        severity="critical" if severity == "critical" else "warning",
        confidence="likely",
        summary=f"{_who(nodes, senders)}: {told} during {spans[0].benchmark.name}{cost}",
        explanation="TCP sends slower at each loss, and all ranks wait for the slowest path in every collective.",
        ranks=tuple(rank for one in of_hosts for rank in one.ranks),
        hosts=hosts,
        evidence=(
            *(sampled(one.node, name, spans[0].begin, spans[-1].end) for one in losses[:2] for name in (AGAIN, SENT)),
            measured(span, told),
        ),
        recommendations=TCP_LOSSES.advise(node=" and ".join(hosts[:2])),
    )
    return finding, severity != "unknown"


def _who(nodes: Sequence[str], senders: Sequence[str]) -> str:
    if len(nodes) == 2:
        return f"the path between {nodes[0]} and {nodes[1]}"
    more = f" and {len(senders) - _MOST_NAMED} more" if len(senders) > _MOST_NAMED else ""
    return nodes[0] if nodes else ", ".join(senders[:_MOST_NAMED]) + more


def _cost(losses: Sequence[_Losses]) -> tuple[str, str]:
    """In words, and ``critical``, ``little`` or ``unknown``."""
    beside = min((one for one in losses if one.beside_clean), key=lambda one: one.beside_clean or 0.0, default=None)
    if beside is not None and (beside.beside_clean or 0.0) < _COSTS:
        return f", and TCP carried {beside.rate:.2g} GB/s then, {beside.clean_rate:.2g} without losses", "critical"
    linked = min((one for one in losses if one.of_link), key=lambda one: one.of_link or 0.0, default=None)
    if linked is not None and linked.link is not None:
        most = max(linked.link.most_gb_per_second, linked.rate or 0.0)
        words = f"; at most {most:.2g} GB/s passed {linked.link.text}"
        if (linked.of_link or 0.0) < _OF_LINK and beside is None:
            return words, "critical"
        return words, "little"
    return ("", "unknown") if beside is None else ("", "little")


def _between(timeline: Timeline, losses: Sequence[_Losses]) -> list[str]:
    """The node that all of it was on the way to or from, or the two ends of the one path; none where it is neither."""
    paths = {frozenset((one.node.nodes[0], peer)) for one in losses for peer in one.to}
    if not paths or any(not one.to for one in losses):
        return []
    common = frozenset.intersection(*paths)
    order = [one.name for one in timeline.result.cluster.nodes]
    return sorted(common, key=order.index)
