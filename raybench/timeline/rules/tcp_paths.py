"""TCP paths that carried less than those between the other nodes, benchmark by benchmark."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from diagnostics.agent.series import CPU_WAITING, split_name
from diagnostics.findings import Finding
from raybench.documents.run.node_samples import SampledNode
from raybench.documents.run.verdict import Check
from raybench.finding_rules.samples import SLOW_TCP_PATHS
from raybench.peers.isolation.suspect import MOST_OPEN
from raybench.peers.tcp_paths import (
    LEAST_SECONDS,
    SLOW_PROCESSES,
    CarriedPath,
    Ends,
    PathJudgement,
    SlowPaths,
    judge_paths,
)
from raybench.timeline.link_rate import LinkRate, link_rate
from raybench.timeline.measures import Track, between, rates, track_of
from raybench.timeline.rules import processors_contended
from raybench.timeline.rules.base import NO_TIMES, Answer, is_joined_over, lacking, measured, sampled
from raybench.timeline.spans import Span, Timeline

CARRIED, CARRYING, ROUND_TRIP = "carried_bytes", "carrying_seconds", "least_round_trip_microseconds"
CHECK = "tcp paths"
LEAST_OF_LINK = 0.02  # this project's: processors limit TCP to a part of a fast link, not to so little of it
MOST_WAITING = 0.25  # of the time, some task for a processor: then TCP need not be what is slow
CROWDED_SPREAD = (
    0.05  # this project's: waiting for a processor makes paths differ, not by that much for a whole benchmark
)
MOST_PARTS = 5
LEAST_READINGS = 3  # of a part


@dataclass(frozen=True, slots=True, kw_only=True)
class _Path:
    """The counters of a node towards one address of another."""

    node: SampledNode
    ends: Ends
    carried: Track
    carrying: Track
    round_trip_seconds: float


def judge(timeline: Timeline) -> Answer:
    """A finding for each node or path that is slow in a benchmark, of that in which it is slowest."""
    cluster, nodes = timeline.result.cluster, timeline.samples.nodes
    if cluster.emulated or len(cluster.nodes) < 2:
        return Answer()  # nothing leaves the machine
    without = [node for node in nodes if not node.names("tcp", CARRIED)]
    if len(without) == len(nodes):
        return Answer(why=lacking(timeline, without, "bulk data over TCP"))
    if not timeline.spans:
        return Answer(why=NO_TIMES)
    paths = list(_paths(timeline))
    names = [node.name for node in cluster.nodes]
    found: dict[tuple[str, ...], tuple[SlowPaths, Sequence[Span]]] = {}
    whys: list[str] = []
    undecided: list[PathJudgement] = []
    for spans in _benchmarks(timeline):
        judgement = _judged(spans, paths, names)
        whys += [judgement.why] if judgement.why else []
        if judgement.undecided and (judgement.spread < CROWDED_SPREAD or not _is_crowded(timeline, spans)):
            undecided.append(judgement)
        for one in judgement.slow:
            before = found.get(one.nodes)
            if before is None or one.share < before[0].share:
                found[one.nodes] = one, spans
    busy = _with_slow_processes(timeline) if found else frozenset()
    told = [one for one in found.values() if not busy.intersection(one[0].nodes)]
    whys += [f"{', '.join(sorted(busy))} slow for another reason"] if len(told) < len(found) else []
    why = "; ".join(dict.fromkeys(whys)) if not told else ""
    return Answer(
        findings=tuple(_finding(timeline, slow, spans, paths) for slow, spans in told),
        why=why,
        checks=() if found else _open(undecided) or tuple(_beside_links(timeline, paths)),
    )


def _open(undecided: Sequence[PathJudgement]) -> tuple[Check, ...]:
    """That some paths are slow, and it is not known because of whom."""
    if not undecided:
        return ()
    whys = dict.fromkeys(one.why for one in undecided)
    hosts = tuple(dict.fromkeys(node for one in undecided for node in one.open_nodes))
    text = f"TCP carries far less on some paths than on others: {'; '.join(whys)}"
    text += f" (--isolate measures {', '.join(hosts[:MOST_OPEN])} again)" if hosts else ""
    return (Check(name=CHECK, outcome="not judged", text=text, undecided=True, hosts=hosts, rule=SLOW_TCP_PATHS.id),)


def _is_crowded(timeline: Timeline, spans: Sequence[Span]) -> bool:
    begin, end = min(span.begin for span in spans), max(span.end for span in spans)
    return any(_waits(node, begin, end) for node in timeline.samples.nodes)


def _beside_links(timeline: Timeline, paths: Sequence[_Path]) -> Iterator[Check]:
    """What is open where no path carries more than a trifle of what the links may: then all may be slow alike."""
    best: dict[str, tuple[float, float, LinkRate]] = {}
    is_crowded = False
    for spans in _benchmarks(timeline):
        begin, end = min(span.begin for span in spans), max(span.end for span in spans)
        for node in timeline.samples.nodes:
            own = [path for path in paths if path.node is node]
            carried, seconds = (
                sum(_grown(track, begin, end) for track in tracks)
                for tracks in ([path.carried for path in own], [path.carrying for path in own])
            )
            link = link_rate(node, begin, end) if is_joined_over(node, end - begin) else None
            if link is None or seconds < LEAST_SECONDS or not carried:
                continue
            is_crowded = is_crowded or _waits(node, begin, end)
            rate = max(carried / seconds / 1e9, link.most_gb_per_second)
            known = rate / link.gb_per_second, rate, link
            best[node.name] = max(best.get(node.name, known), known, key=lambda one: one[0])
    if not best or any(share >= LEAST_OF_LINK for share, _, _ in best.values()):
        return
    share, rate, link = max(best.values(), key=lambda one: one[0])
    text = f"TCP carries {rate:.2g} GB/s at most while it has bulk data on its way, {share:.1%} of {link.text}, and "
    if is_crowded:  # said all the same: what nobody asks and what nobody knows are two things to a comparison
        text += "tasks waited for processors: whether that is the network or they is not judged"
    elif len(best) < 2:
        text += "of no other node that is known: whether that is the network is not judged"
    else:
        text += "no path carries more to compare with: whether that is the network is not known"
    yield Check(name=CHECK, outcome="not judged", text=text, undecided=not is_crowded and len(best) > 1)


def _waits(node: SampledNode, begin: float, end: float) -> bool:
    """Whether tasks of a node waited for a processor, by its kernel, where that says so."""
    waiting = between(node, rates(node, CPU_WAITING), begin, end) if CPU_WAITING in node.series else []
    return bool(waiting) and sum(waiting) / len(waiting) >= MOST_WAITING


def _with_slow_processes(timeline: Timeline) -> frozenset[str]:
    """Nodes that are slow by themselves, where not all are so: then their links are not accused."""
    findings = (*timeline.result.findings, *processors_contended.judge(timeline).findings)
    busy = frozenset(host for one in findings if one.rule in SLOW_PROCESSES and one.pairs is None for host in one.hosts)
    return busy if len(busy) < len(timeline.result.cluster.nodes) else frozenset()


def _benchmarks(timeline: Timeline) -> Iterator[Sequence[Span]]:
    """The points of each benchmark, but for pairs: these take turns, and are compared with each other."""
    by_benchmark: dict[int, list[Span]] = {}
    for span in timeline.spans:
        if span.ranks is None:
            by_benchmark.setdefault(id(span.benchmark), []).append(span)
    yield from by_benchmark.values()


def _paths(timeline: Timeline) -> Iterator[_Path]:
    known = {address: one.name for one in timeline.result.cluster.nodes for address in one.addresses}
    for node in timeline.samples.nodes:
        for name in node.names("tcp", CARRIED) if len(node.nodes) == 1 else ():
            address = split_name(name).device
            busy, trip = (f"tcp/{address}/{metric}" for metric in (CARRYING, ROUND_TRIP))
            peer = known.get(address, "")
            if not peer or peer == node.nodes[0] or busy not in node.series:
                continue
            trips = node.values(trip) if trip in node.series else []
            yield _Path(
                node=node,
                ends=(node.nodes[0], peer),
                carried=track_of(node, name),
                carrying=track_of(node, busy),
                round_trip_seconds=min((value for value in trips if value is not None), default=0.0) / 1e6,
            )


def _judged(spans: Sequence[Span], paths: Sequence[_Path], names: Sequence[str]) -> PathJudgement:
    """In equal parts of the benchmark's time, as many as there are readings for."""
    begin, end = min(span.begin for span in spans), max(span.end for span in spans)
    joined = [path for path in paths if is_joined_over(path.node, end - begin)]
    resolution = max((path.node.resolution_seconds for path in joined), default=1.0)
    count = min(int((end - begin) / (LEAST_READINGS * resolution)), MOST_PARTS)
    if count < 1:
        return PathJudgement()  # over before anything could be read of it
    edges = [begin + (end - begin) * number / count for number in range(count + 1)]
    by_ends: dict[Ends, list[_Path]] = {}
    for path in joined:
        by_ends.setdefault(path.ends, []).append(path)
    carried = (_carried(ends, found, edges) for ends, found in by_ends.items())
    return judge_paths(carried, names)


def _carried(ends: Ends, paths: Sequence[_Path], edges: Sequence[float]) -> CarriedPath:
    """By all addresses of the peer."""
    return CarriedPath(
        ends=ends,
        parts=tuple(
            (
                sum(_grown(path.carried, begin, end) for path in paths),
                sum(_grown(path.carrying, begin, end) for path in paths),
            )
            for begin, end in pairwise(edges)
        ),
        round_trip_seconds=min(path.round_trip_seconds for path in paths),
    )


def _grown(track: Track, begin: float, end: float) -> float:
    """Between the first and the last reading within a time: nothing of what was before or after."""
    first, last = bisect_left(track.seconds, begin), bisect_right(track.seconds, end) - 1
    return track.totals[last] - track.totals[first] if last > first else 0.0


def _finding(timeline: Timeline, slow: SlowPaths, spans: Sequence[Span], paths: Sequence[_Path]) -> Finding:
    span = max(spans, key=lambda one: one.end - one.begin)
    shown = [path for path in paths if path.ends in slow.paths]
    is_node = len(slow.nodes) == 1
    who = slow.nodes[0] if is_node else f"the path between {slow.nodes[0]} and {slow.nodes[1]}"
    side = "" if is_node else " Which of the two ends, or what is between them, cannot be told by this run."
    of_nodes = [one for one in timeline.result.cluster.nodes if one.name in slow.nodes]
    evidence = [
        sampled(path.node, f"tcp/{address}/{metric}", spans[0].begin, spans[-1].end)
        for path in shown[:2]
        for address in _addresses(timeline, path)
        for metric in (CARRIED, CARRYING)
    ]
    return SLOW_TCP_PATHS.finding(
        severity="critical",
        confidence="likely",
        summary=f"{who}: {slow.text}, during {spans[0].benchmark.name}",
        explanation=f"Bytes acknowledged over the time with data on its way, {slow.share:.2f} of what its peers reach; "
        f"the other ranks wait for it in every collective.{side}",
        ranks=tuple(rank for one in of_nodes for rank in one.ranks),
        hosts=slow.nodes,
        evidence=(*evidence, measured(span, slow.text)),
        recommendations=SLOW_TCP_PATHS.advise(node=" and ".join(slow.nodes)),
    )


def _addresses(timeline: Timeline, path: _Path) -> list[str]:
    known: Mapping[str, tuple[str, ...]] = {one.name: one.addresses for one in timeline.result.cluster.nodes}
    return [one for one in known[path.ends[1]] if f"tcp/{one}/{CARRIED}" in path.node.series]
