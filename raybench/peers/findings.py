"""Findings and checks of a run from its ranks, nodes and pairs beside their peers. Pure."""

from collections.abc import Sequence
from dataclasses import replace as replaced

from msgspec.structs import replace

from diagnostics.findings import Finding, MeasuredPairs, Recommendation
from raybench.documents.run.benchmark import BenchmarkResult
from raybench.documents.run.cluster import TCP_BACKENDS, ClusterInfo
from raybench.documents.run.result import RunResult
from raybench.documents.run.verdict import Check
from raybench.finding_rules.peers import SLOW_NODE, SLOW_PAIRS, SLOW_RANK, SLOW_WAY
from raybench.peers.matrix import SlowPart, judge_matrix
from raybench.peers.own_speed import SlowRank, judge_speed, slow_rank_text
from raybench.peers.patterns import SlowPairs
from raybench.units import format_bytes

_APART = " and without what it waited for a processor"
_EMULATED = " Emulated nodes share the processors of one machine: this is a rank's process, not a machine."
_MOST_LISTED = 10_000  # pairs in a finding
_RULE_OF = {"node": SLOW_NODE, "rank": SLOW_RANK, "way": SLOW_WAY}


def with_peers(result: RunResult) -> RunResult:
    """The run with a finding for each node, rank or path that is slower than its peers, and what was compared.

    A rank that is slow by itself is also slow in its pairs: that is said once.
    """
    slow, speed_checks = _speeds(result)
    parts, pair_checks = _matrices(result, {rank for finding in slow for rank in finding.ranks})
    return replace(
        result,
        findings=(*result.findings, *slow, *parts),
        checks=(*result.checks, *pair_checks, *speed_checks),
    )


def _speeds(result: RunResult) -> tuple[list[Finding], list[Check]]:
    seconds = own_seconds(result.benchmarks)
    if not seconds:
        return [], []
    judgement = judge_speed(seconds, emulated=result.cluster.emulated)
    found = [_slow_rank(one, result.cluster) for one in judgement.slow]
    undecided = judgement.undecided and not result.cluster.emulated  # there the scheduler alone can do that
    hosts = () if judgement.open_rank is None else (result.cluster.node_of_rank(judgement.open_rank).name,)
    check = _check("ranks", found, judgement.not_judged)
    return found, [_left_open(check, hosts, SLOW_RANK.id) if undecided else check]


def _matrices(result: RunResult, explained: set[int]) -> tuple[list[Finding], list[Check]]:
    """Of the largest size of each matrix, without what the ``explained`` ranks explain."""
    found: list[Finding] = []
    checks: list[Check] = []
    names, cluster = {rank: node.name for node in result.cluster.nodes for rank in node.ranks}, result.cluster
    for benchmark in result.benchmarks:
        points = [point for point in benchmark.points if point.source_rank is not None and point.samples_seconds]
        if not points:
            continue
        size = max(point.message_bytes for point in points)
        largest = [point for point in points if point.message_bytes == size]
        judgement = judge_matrix(largest, names, cluster.world_size, emulated=cluster.emulated)
        parts = [_slow_part(part, benchmark, size, cluster) for part in judgement.slow]
        found += [part for part in parts if explained.isdisjoint(part.ranks)]
        patterns = [_slow_pairs(one, benchmark, size, cluster) for one in judgement.patterns]
        found += patterns
        check = _check("pairs", [*parts, *patterns], judgement.not_judged)
        checks.append(_left_open(check, judgement.open_nodes, SLOW_NODE.id) if judgement.undecided else check)
    return found, checks


def own_seconds(benchmarks: Sequence[BenchmarkResult]) -> dict[int, list[float]]:
    """Samples of each rank's own work, of all points in their order."""
    seconds: dict[int, list[float]] = {}
    for benchmark in benchmarks:
        for point in benchmark.points:
            ranks = point.ranks or range(len(point.own_seconds))
            for rank, samples in zip(ranks, point.own_seconds, strict=False):
                seconds.setdefault(rank, []).extend(samples)
    return seconds


def _check(name: str, found: Sequence[Finding], not_judged: str | None) -> Check:
    if found:
        return Check(name=name, outcome="failed", text=f"slow {name}: {len(found)}")
    if not_judged:
        return Check(name=name, outcome="not judged", text=f"{name} not compared ({not_judged})")
    return Check(name=name, outcome="passed", text=f"{name} alike")


def _left_open(check: Check, hosts: tuple[str, ...], rule: str) -> Check:
    """``rule``: of the finding that one of these nodes would have."""
    return replace(check, undecided=True, hosts=hosts, rule=rule)


def is_crowded(cluster: ClusterInfo) -> bool:
    """Whether emulated ranks share processors: then the scheduler alone can make one of them slow."""
    processors = [count for node in cluster.nodes if (count := node.known_facts.cpu_count) is not None]
    return cluster.emulated and bool(processors) and cluster.world_size > min(processors)


def _waits_are_counted(cluster: ClusterInfo) -> bool:
    """Whether the ranks' own times are without what each waited for a processor: then no crowd is in them."""
    known = [facts for node in cluster.nodes for facts in (node.known_facts.ranks or {}).values()]
    return bool(known) and all(facts.processor_wait == "counted" for facts in known)


def _slow_rank(one: SlowRank, cluster: ClusterInfo) -> Finding:
    node = cluster.node_of_rank(one.rank).name
    known = _waits_are_counted(cluster)
    by_crowd, apart = is_crowded(cluster) and not known, _APART if known and cluster.backend in TCP_BACKENDS else ""
    return SLOW_RANK.finding(
        severity="warning" if by_crowd else one.severity,
        confidence="likely",
        summary=f"{slow_rank_text(one, node)}{_label(cluster, crowded=by_crowd)}",
        explanation=f"Without any communication{apart}, in {len(one.share.rounds)} groups of samples over the "
        f"whole run; 95 % interval {one.share.low:.2f} to {one.share.high:.2f}. The others wait for it in every "
        f"collective."
        f"{_EMULATED if cluster.emulated else ''}",
        ranks=(one.rank,),
        hosts=(node,),
        recommendations=_recommended(SLOW_RANK.advise()[:1], cluster),
    )


def _slow_part(part: SlowPart, benchmark: BenchmarkResult, size: int, cluster: ClusterInfo) -> Finding:
    figures = f"{part.gb_per_s:.3g} GB/s, its peers {part.peers_gb_per_s:.3g}"
    where = "between nodes" if part.between else "within the node"
    beside = "" if part.kind == "way" else " at the same time"
    rule = _RULE_OF[part.kind]
    of_a_nic = part.kind == "rank" and part.good_within
    return rule.finding(
        severity="warning" if is_crowded(cluster) else part.severity,
        confidence="likely",
        summary=f"{_subject(part)} {_reaches(part)} {part.share.value:.2f} of its peers' bandwidth {where}: "
        f"{figures}{_label(cluster, crowded=is_crowded(cluster))}",
        explanation=f"{benchmark.name} with {format_bytes(size)} messages, beside pairs of the same kind{beside}; "
        f"95 % interval {part.share.low:.2f} to {part.share.high:.2f}.{_EMULATED if cluster.emulated else ''}",
        ranks=part.ranks,
        hosts=part.nodes,
        pairs=MeasuredPairs(
            benchmark=benchmark.name, message_bytes=size, between_nodes=part.between, direction=part.direction
        ),
        recommendations=_recommended(rule.advise()[1:] if of_a_nic else rule.advise()[:1], cluster),
    )


def _slow_pairs(one: SlowPairs, benchmark: BenchmarkResult, size: int, cluster: ClusterInfo) -> Finding:
    (source, destination), ranks = one.pairs[0], sorted({rank for pair in one.pairs for rank in pair})
    ends = [f"rank {rank} ({cluster.node_of_rank(rank).name})" for rank in (source, destination)]
    return SLOW_PAIRS.finding(
        severity=one.severity,
        confidence="likely",
        summary=one.text,
        explanation=f"{benchmark.name} with {format_bytes(size)} messages; each is below the fastest tenth of the "
        f"pairs that are built alike, in all of its blocks. The slowest: {ends[0]} to {ends[1]}.",
        ranks=tuple(ranks),
        hosts=tuple(dict.fromkeys(cluster.node_of_rank(rank).name for rank in ranks)),
        pairs=MeasuredPairs(
            benchmark=benchmark.name,
            message_bytes=size,
            between_nodes=one.between,
            direction="",
            listed=one.pairs[:_MOST_LISTED],
        ),
        recommendations=_recommended(SLOW_PAIRS.advise(), cluster),
    )


def _label(cluster: ClusterInfo, *, crowded: bool) -> str:
    if crowded:
        return f" (emulated: {cluster.world_size} ranks share this machine's processors)"
    return " (emulated)" if cluster.emulated else ""


def _subject(part: SlowPart) -> str:
    if part.kind == "node":
        return f"node {part.nodes[0]}"
    if part.kind == "rank":
        return f"rank {part.ranks[0]} ({part.nodes[0]})"
    nodes = part.nodes * (3 - len(part.nodes))  # both ranks may be of one node
    one, other = (f"rank {rank} ({node})" for rank, node in zip(part.ranks, nodes, strict=True))
    return f"the path from {one} to {other}" if part.direction else f"the path between {one} and {other}"


def _reaches(part: SlowPart) -> str:
    """With the direction where only one is slow, which tells inbound from outbound paths."""
    if part.kind == "way" or not part.direction:
        return "reaches"
    return "sends at" if part.direction == "sends" else "receives at"


def _recommended(advice: tuple[Recommendation, ...], cluster: ClusterInfo) -> tuple[Recommendation, ...]:
    """Without the commands for machines where there are none."""
    return tuple(replaced(one, commands=()) for one in advice) if cluster.emulated else advice
