"""Bandwidth and latency for estimates out of a run's result.json: alpha and beta measured instead of assumed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from raybench.errors import UsageError
from raybench.result_parts import check_result

_SMALL_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredLinks:
    """``bus_gb_per_s``: the best all_reduce over all ranks; ``latency_seconds``: its smallest message, None without.

    ``nodes`` and ``ranks`` are those it was measured on; ``basis`` says so.
    """

    bus_gb_per_s: float
    latency_seconds: float | None
    nodes: int
    ranks: int
    basis: str


def measured_links(result: Mapping[str, Any]) -> MeasuredLinks:
    """What a run (``raybench.result/1``) measured with all_reduce.

    Raises UsageError where it has none, and msgspec.ValidationError where the result is damaged.
    """
    check_result(result)
    points = _all_reduce_points(result.get("benchmarks") or ())
    if not points:
        raise UsageError("this result has no measured all_reduce; run 'raybench run --suite all_reduce' first")
    cluster = result["cluster"]
    fastest = max(points, key=lambda point: float(point["busbw_gb_per_s"]))
    smallest = min(points, key=lambda point: int(point["message_bytes"]))
    is_small = smallest["message_bytes"] <= _SMALL_BYTES
    nodes, ranks = len(cluster["nodes"]), int(cluster["world_size"])
    emulated = ", EMULATED nodes" if cluster.get("emulated") else ""
    return MeasuredLinks(
        bus_gb_per_s=float(fastest["busbw_gb_per_s"]),
        latency_seconds=float(smallest["seconds"]["median"]) if is_small else None,
        nodes=nodes,
        ranks=ranks,
        basis=f"measured by run {result.get('run_id', '?')}: {ranks} ranks on {nodes} node(s){emulated}",
    )


def _all_reduce_points(benchmarks: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [
        point
        for benchmark in benchmarks
        if benchmark.get("name") == "all_reduce"
        for point in benchmark.get("points") or ()
        if point.get("busbw_gb_per_s") and not point.get("wrong_elements")
    ]
