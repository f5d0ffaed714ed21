"""Findings and checks of a run from its ranks, nodes and pairs beside their peers. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from raybench.documents.benchmark import BenchmarkResult
from raybench.documents.cluster import ClusterInfo
from raybench.documents.result import RunResult
from raybench.documents.run_verdict import Check
from raybench.peers.matrix import SlowPart, judge_matrix
from raybench.peers.own_speed import SlowRank, judge_speed
from raybench.peers.patterns import SlowPairs
from raybench.units import format_bytes, format_seconds

_APART = " and without what it waited for a processor"
_EMULATED = " Emulated nodes share the processors of one machine: this is a rank's process, not a machine."
_ADVICE = {
    "node": "compare it with a good node: PCIe width and speed of its NICs (lspci -vv), firmware, ACS and IOMMU, CPU "
    "governor, other jobs; then its cables and switch ports",
    "rank": "look at this rank's GPU and NIC: clocks and power (nvidia-smi -q), PCIe slot (lspci -vv: LnkSta), other "
    "processes on its cores",
    "nic": "its pairs within the node are as good as others: look at the NIC that this rank uses, its cable "
    "and its switch port",
    "way": "both ends are good with others, so look between them: routing, the trunk or spine port that this traffic "
    "hashes to, and its error counters; within a node its PCIe or NVLink path (nvidia-smi topo -m)",
    "pairs": "look at what these pairs share: a rail or leaf switch, its uplinks and their error counters, one type of "
    "NIC, or the cabling of their nodes; a network that is oversubscribed by design, and another job on it, look the "
    "same: measure once more, then test their links alone",
}
_MOST_LISTED = 10_000  # pairs in a finding
_COMMANDS = {
    "node": ["raybench fabric run -i HOSTS", "raybench preflight"],
    "pairs": ["raybench fabric run -i HOSTS"],
    "rank": ["raybench preflight"],
}


def with_peers(result: RunResult) -> RunResult:
    """The run with a finding for each node, rank or path that is slower than its peers, and what was compared.

    A rank that is slow by itself is also slow in its pairs: that is said once.
    """
    slow, speed_checks = _speeds(result)
    parts, pair_checks = _matrices(result, {rank for finding in slow for rank in finding["ranks"]})
    return replace(
        result,
        findings=(*result.findings, *slow, *parts),
        checks=(*result.checks, *pair_checks, *speed_checks),
    )


def _speeds(result: RunResult) -> tuple[list[dict[str, Any]], list[Check]]:
    seconds = own_seconds(result.benchmarks)
    if not seconds:
        return [], []
    judgement = judge_speed(seconds, emulated=result.cluster.emulated)
    found = [_slow_rank(one, result.cluster) for one in judgement.slow]
    return found, [_check("ranks", found, judgement.not_judged)]


def _matrices(result: RunResult, explained: set[int]) -> tuple[list[dict[str, Any]], list[Check]]:
    """Of the largest size of each matrix, without what the ``explained`` ranks explain."""
    found: list[dict[str, Any]] = []
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
        found += [part for part in parts if explained.isdisjoint(part["ranks"])]
        patterns = [_slow_pairs(one, benchmark, size, cluster) for one in judgement.patterns]
        found += patterns
        checks.append(_check("pairs", [*parts, *patterns], judgement.not_judged))
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


def _check(name: str, found: Sequence[Mapping[str, Any]], not_judged: str | None) -> Check:
    if found:
        return Check(name=name, outcome="failed", text=f"slow {name}: {len(found)}")
    if not_judged:
        return Check(name=name, outcome="not judged", text=f"{name} not compared ({not_judged})")
    return Check(name=name, outcome="passed", text=f"{name} alike")


def is_crowded(cluster: ClusterInfo) -> bool:
    """Whether emulated ranks share processors: then the scheduler alone can make one of them slow."""
    processors = [count for node in cluster.nodes if (count := node.known_facts.cpu_count) is not None]
    return cluster.emulated and bool(processors) and cluster.world_size > min(processors)


def _waits_are_counted(cluster: ClusterInfo) -> bool:
    """Whether the ranks' own times are without what each waited for a processor: then no crowd is in them."""
    known = [facts for node in cluster.nodes for facts in (node.known_facts.ranks or {}).values()]
    return bool(known) and all(facts.processor_wait == "counted" for facts in known)


def _slow_rank(one: SlowRank, cluster: ClusterInfo) -> dict[str, Any]:
    node = cluster.node_of_rank(one.rank).name
    known = _waits_are_counted(cluster)
    by_crowd, apart = is_crowded(cluster) and not known, _APART if known and cluster.backend == "gloo" else ""
    seen = f"{format_seconds(one.own_seconds)} for work that takes the others {format_seconds(one.others_seconds)}"
    return {
        "rule": "slow-rank",
        "severity": "warning" if by_crowd else one.severity,
        "confidence": "likely",
        "summary": f"rank {one.rank} ({node}) works at {one.share.value:.2f} of the others' speed: {seen}"
        f"{_label(cluster, crowded=by_crowd)}",
        "explanation": f"Without any communication{apart}, in {len(one.share.rounds)} groups of samples over the "
        f"whole run; 95 % interval {one.share.low:.2f} to {one.share.high:.2f}. The others wait for it in every "
        f"collective."
        f"{_EMULATED if cluster.emulated else ''}",
        "ranks": [one.rank],
        "hosts": [node],
        "evidence": [],
        "recommendations": [_recommendation("rank", cluster)],
    }


def _slow_part(part: SlowPart, benchmark: BenchmarkResult, size: int, cluster: ClusterInfo) -> dict[str, Any]:
    figures = f"{part.gb_per_s:.3g} GB/s, its peers {part.peers_gb_per_s:.3g}"
    where = "between nodes" if part.between else "within the node"
    beside = "" if part.kind == "way" else " at the same time"
    return {
        "rule": f"slow-{part.kind}",
        "severity": "warning" if is_crowded(cluster) else part.severity,
        "confidence": "likely",
        "summary": f"{_subject(part)} {_reaches(part)} {part.share.value:.2f} of its peers' bandwidth {where}: "
        f"{figures}{_label(cluster, crowded=is_crowded(cluster))}",
        "explanation": f"{benchmark.name} with {format_bytes(size)} messages, beside pairs of the same kind{beside}; "
        f"95 % interval {part.share.low:.2f} to {part.share.high:.2f}.{_EMULATED if cluster.emulated else ''}",
        "ranks": list(part.ranks),
        "hosts": list(part.nodes),
        "pairs": {
            "benchmark": benchmark.name,
            "message_bytes": size,
            "between_nodes": part.between,
            "direction": part.direction,
        },
        "evidence": [],
        "recommendations": [_recommendation("nic" if part.kind == "rank" and part.good_within else part.kind, cluster)],
    }


def _slow_pairs(one: SlowPairs, benchmark: BenchmarkResult, size: int, cluster: ClusterInfo) -> dict[str, Any]:
    (source, destination), ranks = one.pairs[0], sorted({rank for pair in one.pairs for rank in pair})
    ends = [f"rank {rank} ({cluster.node_of_rank(rank).name})" for rank in (source, destination)]
    return {
        "rule": "slow-pairs",
        "severity": one.severity,
        "confidence": "likely",
        "summary": one.text,
        "explanation": f"{benchmark.name} with {format_bytes(size)} messages; each is below the fastest tenth of the "
        f"pairs that are built alike, in all of its blocks. The slowest: {ends[0]} to {ends[1]}.",
        "ranks": ranks,
        "hosts": list(dict.fromkeys(cluster.node_of_rank(rank).name for rank in ranks)),
        "pairs": {
            "benchmark": benchmark.name,
            "message_bytes": size,
            "between_nodes": one.between,
            "direction": "",
            "listed": [list(pair) for pair in one.pairs[:_MOST_LISTED]],
        },
        "evidence": [],
        "recommendations": [_recommendation("pairs", cluster)],
    }


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


def _recommendation(kind: str, cluster: ClusterInfo) -> dict[str, Any]:
    commands = [] if cluster.emulated else _COMMANDS.get(kind, [])
    return {"action": f"check-slow-{kind}", "text": _ADVICE[kind], "commands": commands, "link": None}
