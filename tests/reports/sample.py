"""Results that look like measured ones, from seeded random numbers."""

import random
from collections.abc import Sequence
from functools import cache
from typing import Any

from raybench.documents.run.benchmark import BenchmarkResult
from raybench.documents.run.cluster import ClusterInfo, NodeInfo
from raybench.documents.run.point import Point
from raybench.documents.run.result import RunResult

FACTORS = {"all_reduce": 2.0, "all_gather": 1.0, "reduce_scatter": 1.0, "all_to_all": 1.0, "broadcast": 1.0}
SIZES = tuple(8 * 2**power for power in range(25))


def launches(
    seconds: float, *, noise: float = 0.02, shape: tuple[int, int, int] = (1, 5, 20), seed: int = 1
) -> tuple[tuple[tuple[float, ...], ...], ...]:
    """Samples [launch][block][iteration], log-normal around ``seconds``."""
    source = random.Random(seed)
    launch_count, block_count, iterations = shape
    return tuple(
        tuple(tuple(seconds * source.lognormvariate(0, noise) for _ in range(iterations)) for _ in range(block_count))
        for _ in range(launch_count)
    )


def point(message_bytes: int = 65536, *, samples: Any = None, seconds: float = 1e-3, **changes: Any) -> Point:
    values: dict[str, Any] = {
        "message_bytes": message_bytes,
        "element_count": message_bytes // 4,
        "bus_factor": 1.0,
        "launches": samples if samples is not None else launches(seconds),
        "rank_seconds": (seconds,) * 4,
        "verified": True,
        "wrong_elements": 0,
    }
    return Point(**(values | changes))


def link_seconds(message_bytes: int, *, latency: float = 20e-6, gb_per_second: float = 24.0) -> float:
    """Latency plus size over bandwidth."""
    return latency + message_bytes / gb_per_second / 1e9


def sweep(
    name: str = "all_reduce",
    *,
    sizes: tuple[int, ...] = SIZES,
    in_place: bool = False,
    gb_per_second: float = 24.0,
    shape: tuple[int, int, int] = (1, 5, 20),
    noise: float = 0.02,
    **changes: Any,
) -> BenchmarkResult:
    factor = FACTORS.get(name, 1.0) * 0.875
    values: dict[str, Any] = {
        "name": name,
        "kind": "collective",
        "parameters": {"dtype": "float32", "reduce_op": "sum", "root": None, "in_place": in_place},
        "status": "complete",
    }
    points = changes.get("points")
    values["points"] = sweep_points(sizes, in_place, gb_per_second, shape, noise, factor) if points is None else points
    return BenchmarkResult(**(values | changes))


@cache
def sweep_points(
    sizes: tuple[int, ...],
    in_place: bool,
    gb_per_second: float,
    shape: tuple[int, int, int],
    noise: float,
    factor: float,
) -> tuple[Point, ...]:
    """Shared between tests: a point keeps its interval once it was derived, which takes 30 ms."""
    return tuple(
        point(
            size,
            samples=launches(
                link_seconds(size, gb_per_second=gb_per_second), noise=noise, shape=shape, seed=size % 9973 + in_place
            ),
            bus_factor=factor,
        )
        for size in sizes
    )


def pairs(
    ranks: int = 4,
    *,
    per_node: int = 2,
    slow: Sequence[tuple[int, int]] = (),
    message_bytes: int = 2**26,
    **changes: Any,
) -> BenchmarkResult:
    def pair(source: int, destination: int) -> Point:
        speed = 200.0 if source // per_node == destination // per_node else 24.0
        speed *= 0.3 if (source, destination) in slow else 1.0
        seconds = link_seconds(message_bytes, latency=5e-6, gb_per_second=speed)
        samples = launches(seconds, shape=(1, 5, 4), seed=source * 1000 + destination)
        return point(message_bytes, samples=samples, source_rank=source, destination_rank=destination)

    points = tuple(pair(source, other) for source in range(ranks) for other in range(ranks) if source != other)
    values: dict[str, Any] = {
        "name": "p2p",
        "kind": "p2p",
        "parameters": {"dtype": "float32"},
        "status": "complete",
        "points": points,
    }
    return BenchmarkResult(**(values | changes))


def cluster(nodes: int = 2, per_node: int = 2, **changes: Any) -> ClusterInfo:
    values: dict[str, Any] = {
        "nodes": tuple(
            NodeInfo(
                name=f"node-{node}",
                address=f"10.0.0.{node + 1}",
                ranks=tuple(range(node * per_node, (node + 1) * per_node)),
                gpu_count=per_node,
                facts={"python": "3.11.7", "torch": "2.9.0", "nccl": "2.28.3", "driver": "580.95", "niceness": 0},
            )
            for node in range(nodes)
        ),
        "world_size": nodes * per_node,
        "backend": "nccl",
        "emulated": False,
    }
    return ClusterInfo(**(values | changes))


def run_result(*benchmarks: BenchmarkResult, **changes: Any) -> RunResult:
    values: dict[str, Any] = {
        "run_id": "20261121-014334-a1b2",
        "status": "complete",
        "started_at": "2026-11-21T01:43:34+00:00",
        "finished_at": "2026-11-21T01:44:12+00:00",
        "cluster": cluster(),
        "versions": {"raybench": "0.1.0", "torch": "2.9.0", "nccl": "2.28.3"},
        "variables": {"NCCL_DEBUG": "INFO", "NCCL_IB_HCA": "mlx5_0"},
        "config": {"sizes": "8:128M:2", "iters": 20},
        "benchmarks": benchmarks or (sweep(), sweep(in_place=True), pairs()),
        "timings": {"total": 38.2, "start": 3.1},
    }
    return RunResult(**(values | changes))
