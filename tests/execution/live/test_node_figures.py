"""What agents read, as live series of trackers: levels of GPUs and hosts, an interval apart."""

from diagnostics.agent.messages import Reading
from raybench.execution.live.node_figures import INTERVAL_SECONDS, MOST_VALUES, NodeFigures
from raybench.trackers.base import Figures

GPU = {"gpu/0/utilization_percent": 91.0, "gpu/0/memory_used_bytes": 7e10}
HOST = {"host/memory/available_bytes": 2e11, "host/cpu/busy_seconds": 400.0}


def told(nodes: NodeFigures, now: float, values: dict[str, float], machine: str = "gpu-a") -> Figures | None:
    return nodes.take(machine, Reading(monotonic_seconds=7.0, source="gpus", values=values), now, 1.8e9 + now)


def test_the_last_levels_are_told_an_interval_apart() -> None:
    nodes = NodeFigures(started=100.0)
    assert told(nodes, 101.0, GPU) is None
    assert told(nodes, 103.0, HOST) is None
    figures = told(nodes, 101.0 + INTERVAL_SECONDS, {"gpu/0/utilization_percent": 12.0})
    assert figures is not None
    assert (figures.group, figures.axis, figures.position, figures.at) == ("node.gpu-a", "seconds", 6, 1.8e9 + 106)
    assert figures.named() == {
        "node.gpu-a/gpu/0/utilization_percent": 12.0,
        "node.gpu-a/gpu/0/memory_used_bytes": 7e10,
        "node.gpu-a/host/memory/available_bytes": 2e11,
    }
    later = told(nodes, 101.0 + 2 * INTERVAL_SECONDS, {"gpu/0/utilization_percent": 55.0})
    assert later is not None
    assert later.values == {"gpu/0/utilization_percent": 55.0}  # what was not read since is missing, not repeated


def test_counters_other_groups_and_what_nobody_knows_are_left_out() -> None:
    nodes = NodeFigures(started=0.0)
    values = {"host/cpu/busy_seconds": 1.0, "port/mlx5_0:1/up": 1.0, "gpu/0/no_such": 1.0, "damaged": 1.0}
    assert told(nodes, 0.0, values) is None
    assert told(nodes, 60.0, values) is None


def test_machines_are_apart_and_bounded() -> None:
    nodes = NodeFigures(started=0.0)
    many = {f"gpu/{index}/power_watts": 700.0 for index in range(MOST_VALUES + 50)}
    assert told(nodes, 0.0, many, "gpu a/../b") is None
    assert told(nodes, 9.0, GPU, "gpu-b") is None
    figures = told(nodes, 9.0, many, "gpu a/../b")
    assert figures is not None
    assert (figures.group, len(figures.values)) == ("node.gpu-a-..-b", MOST_VALUES)
