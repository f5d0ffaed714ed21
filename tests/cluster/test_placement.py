"""The plan of a run: which nodes, in which order, with which ranks; and what is said when there are too few."""

from typing import Any

import pytest

from raybench.cluster.placement import Candidate, candidates_of, device_index, plan_of
from raybench.errors import ClusterUnavailableError, UsageError


def ray_node(name: str, address: str = "10.0.0.1", gpus: int = 0, alive: bool = True, **more: Any) -> dict[str, Any]:
    """One entry as ``ray.nodes()`` of Ray 2.60 gives it."""
    resources = {"CPU": 8.0, "memory": 1e9} | ({"GPU": float(gpus)} if gpus else {})
    return {
        "NodeID": f"id-{name}-{address}",
        "Alive": alive,
        "NodeName": name,
        "NodeManagerAddress": address,
        "NodeManagerHostname": more.get("hostname", f"host-of-{name}"),
        "Resources": resources if alive else {},
    }


def nodes(*gpu_counts: int) -> tuple[Candidate, ...]:
    return candidates_of(
        [ray_node(f"node-{index + 1}", f"10.0.0.{index + 1}", count) for index, count in enumerate(gpu_counts)]
    )


def test_nodes_are_in_the_order_that_a_person_counts() -> None:
    found = candidates_of([ray_node("node10"), ray_node("node9"), ray_node("node2"), ray_node("a1")])
    assert [node.name for node in found] == ["a1", "node2", "node9", "node10"]


def test_a_dead_node_is_no_candidate() -> None:
    assert [node.name for node in candidates_of([ray_node("a"), ray_node("b", alive=False)])] == ["a"]


def test_a_node_without_a_name_of_its_own_has_its_hosts() -> None:
    (found,) = candidates_of([ray_node("10.0.0.5", "10.0.0.5", hostname="gpu-17")])
    assert found.name == "gpu-17"


def test_ranks_of_a_node_are_adjacent() -> None:
    plan = plan_of(nodes(8, 8, 8), nodes=3, ranks_per_node=None, backend=None)
    assert plan.backend == "nccl"
    assert plan.world_size == 24
    assert plan.ranks_of(1) == tuple(range(8, 16))
    assert [plan.node_of(rank).name for rank in (0, 7, 8, 23)] == ["node-1", "node-1", "node-2", "node-3"]
    assert plan.bundles == [{"CPU": 1.0, "GPU": 8.0}] * 3


def test_the_node_with_the_fewest_gpus_decides() -> None:
    assert plan_of(nodes(8, 4), nodes=None, ranks_per_node=None, backend=None).ranks_per_node == 4


def test_without_gpus_there_is_one_gloo_rank_a_node() -> None:
    plan = plan_of(nodes(0, 0), nodes=None, ranks_per_node=None, backend=None)
    assert (plan.backend, plan.world_size) == ("gloo", 2)
    assert plan.bundles == [{"CPU": 1.0}] * 2
    assert plan_of(nodes(0, 0), nodes=2, ranks_per_node=4, backend=None).world_size == 8


def test_nodes_without_gpus_take_no_part_in_nccl() -> None:
    plan = plan_of(nodes(0, 8, 8), nodes=2, ranks_per_node=8, backend=None)
    assert [node.name for node in plan.nodes] == ["node-2", "node-3"]


def test_gloo_on_request_uses_no_gpus() -> None:
    plan = plan_of(nodes(8, 8), nodes=2, ranks_per_node=None, backend="gloo")
    assert plan.bundles == [{"CPU": 1.0}] * 2


@pytest.mark.parametrize(("asked", "backend"), [(3, None), (2, "nccl")])
def test_too_few_nodes_names_those_that_exist(asked: int, backend: str | None) -> None:
    with pytest.raises(ClusterUnavailableError, match=rf"{asked} nodes.*node-1 \(10.0.0.1.*node-2") as raised:
        plan_of(nodes(0, 0), nodes=asked, ranks_per_node=None, backend=backend)
    assert raised.value.exit_code == 2


def test_exactly_enough_nodes_are_enough() -> None:
    assert len(plan_of(nodes(0, 0), nodes=2, ranks_per_node=None, backend=None).nodes) == 2


def test_too_few_gpus_on_a_node_names_it() -> None:
    with pytest.raises(ClusterUnavailableError, match=r"8 GPUs on each.*node-2") as raised:
        plan_of(nodes(8, 4), nodes=2, ranks_per_node=8, backend=None)
    assert "node-1 (" not in str(raised.value)


def test_an_empty_cluster_is_said_to_be_empty() -> None:
    with pytest.raises(ClusterUnavailableError, match="exist: none"):
        plan_of((), nodes=None, ranks_per_node=None, backend=None)


@pytest.mark.parametrize(
    ("granted", "visible", "index"),
    [("3", None, 3), ("2", "3,2,1,0", 1), ("7", "4, 5, 6, 7", 3), ("GPU-b", "GPU-a,GPU-b", 1), ("0", "0", 0)],
)
def test_a_granted_gpu_is_found_among_those_that_processes_see(granted: str, visible: str | None, index: int) -> None:
    assert device_index(granted, visible) == index


def test_a_gpu_that_is_not_visible_is_refused() -> None:
    with pytest.raises(UsageError, match=r"GPU 2.*'0,1'"):
        device_index("2", "0,1")
