"""What a run over a few nodes says of each pair of them and of each node alone, by node. Pure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from raybench.documents.run.result import RunResult
from raybench.peers.findings import own_seconds
from raybench.peers.matrix import block_bandwidths
from raybench.stats import median

NodePair = tuple[str, str]
_GROUPS = 10  # of neighbouring samples of a rank's own work: a stall spoils one of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One measurement of a group of nodes.

    ``pairs``: GB/s by block, of the slower direction between two nodes, their names in order. ``speeds``: pieces of
    local work a second of a node's slowest rank, by group of samples. ``broke``: why the run is not complete, and
    ``blamed`` who was at fault then. ``run_id``: whose folder has it.
    """

    nodes: tuple[str, ...]
    pairs: Mapping[NodePair, tuple[float, ...]] = field(default_factory=dict)
    speeds: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    broke: str = ""
    blamed: tuple[str, ...] = ()
    seconds: float = 0.0
    run_id: str = ""


def reading_of(result: RunResult, places: Sequence[int] = (), *, accused: str | None = None) -> Reading:
    """The reading of a run. ``places``: the ranks of the ``accused`` node to look at, by their place in it; else all.

    Ranks at the same place of two nodes share a rail, so that such pairs are alike; others are left out.
    """
    node_of = {rank: node.name for node in result.cluster.nodes for rank in node.ranks}
    place_of = {rank: place for node in result.cluster.nodes for place, rank in enumerate(node.ranks)}
    ended = [one for one in result.findings if one.ended_the_run]
    broke = ended[0].summary if ended else ("" if result.status == "complete" else result.conclusion.reason)
    return Reading(
        nodes=tuple(node.name for node in result.cluster.nodes),
        pairs=_pairs(result, node_of, place_of, places),
        speeds=_speeds(result, node_of, place_of, places, accused),
        broke=broke,
        blamed=tuple(dict.fromkeys(host for one in ended for host in one.hosts)),
        seconds=result.total_seconds or 0.0,
        run_id=result.run_id,
    )


def pooled(readings: Sequence[Reading]) -> Reading:
    """Several readings of the same group as one of more samples."""
    pairs = dict.fromkeys(pair for one in readings for pair in one.pairs)
    nodes = dict.fromkeys(node for one in readings for node in one.nodes)
    return Reading(
        nodes=tuple(nodes),
        pairs={pair: tuple(block for one in readings for block in one.pairs.get(pair, ())) for pair in pairs},
        speeds={node: tuple(block for one in readings for block in one.speeds.get(node, ())) for node in nodes},
        broke=next((one.broke for one in readings if one.broke), ""),
        blamed=tuple(dict.fromkeys(node for one in readings for node in one.blamed)),
    )


def _pairs(
    result: RunResult, node_of: Mapping[int, str], place_of: Mapping[int, int], places: Sequence[int]
) -> dict[NodePair, tuple[float, ...]]:
    points = [one for benchmark in result.benchmarks for one in benchmark.points if one.source_rank is not None]
    size = max((one.message_bytes for one in points), default=0)
    directed: dict[NodePair, list[list[float]]] = {}
    for one in points:
        source, destination = one.source_rank, one.destination_rank
        if source is None or destination is None or one.message_bytes != size:
            continue
        ends, place = (node_of[source], node_of[destination]), place_of[source]
        on_rail = ends[0] != ends[1] and place == place_of[destination]
        if on_rail and (not places or place in places):
            directed.setdefault(ends, []).append(block_bandwidths(one))
    medians = {ends: tuple(map(median, zip(*blocks, strict=False))) for ends, blocks in directed.items()}
    return _slower_directions({ends: blocks for ends, blocks in medians.items() if blocks})


def _slower_directions(directed: Mapping[NodePair, tuple[float, ...]]) -> dict[NodePair, tuple[float, ...]]:
    slower: dict[NodePair, tuple[float, ...]] = {}
    for (source, destination), blocks in directed.items():
        pair = (source, destination) if source < destination else (destination, source)
        if pair not in slower or median(blocks) < median(slower[pair]):
            slower[pair] = blocks
    return slower


def _speeds(
    result: RunResult,
    node_of: Mapping[int, str],
    place_of: Mapping[int, int],
    places: Sequence[int],
    accused: str | None,
) -> dict[str, tuple[float, ...]]:
    """Of each node's slowest rank; of the accused one only the ranks at the places that are looked at."""
    slowest: dict[str, tuple[float, ...]] = {}
    for rank, samples in own_seconds(result.benchmarks).items():
        node = node_of[rank]
        skipped = node == accused and places and place_of[rank] not in places
        if skipped or len(samples) < _GROUPS:
            continue
        speeds = _group_speeds(samples)
        if node not in slowest or median(speeds) < median(slowest[node]):
            slowest[node] = speeds
    return slowest


def _group_speeds(samples: Sequence[float]) -> tuple[float, ...]:
    bounds = [len(samples) * group // _GROUPS for group in range(_GROUPS + 1)]
    return tuple((end - begin) / math.fsum(samples[begin:end]) for begin, end in pairwise(bounds))
