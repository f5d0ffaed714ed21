"""Nodes in a stable order, as many as asked for or a message that names those that exist, and ranks adjacent."""

import random
from typing import Any

import pytest

from raybench.errors import ClusterUnavailableError, UsageError
from raybench.execution.placement import Candidate, candidates_of, device_index, plan_of


def ray_node(name: str, address: str = "10.0.0.1", *, alive: bool = True, gpus: int = 0, **more: Any) -> dict[str, Any]:
    resources = {"CPU": 4.0, **({"GPU": float(gpus)} if gpus else {})}
    node = {"NodeID": f"id-{name}-{address}", "NodeName": name, "NodeManagerAddress": address, "Alive": alive}
    return node | {"Resources": resources} | more


def candidates(*gpus: int) -> tuple[Candidate, ...]:
    return candidates_of([ray_node(f"node{index}", f"10.0.0.{index}", gpus=count) for index, count in enumerate(gpus)])


def test_order_counts_numbers_as_numbers_and_does_not_hang_on_rays() -> None:
    nodes = [ray_node(f"node{number}", f"10.0.0.{number}") for number in (1, 2, 3, 9, 10, 11, 100)]
    expected = [node["NodeName"] for node in nodes]
    for seed in range(5):
        random.Random(seed).shuffle(nodes)
        assert [node.name for node in candidates_of(nodes)] == expected


def test_equal_names_go_by_address_and_then_id() -> None:
    nodes = [ray_node("gpu", "10.0.0.10"), ray_node("gpu", "10.0.0.9"), ray_node("gpu", "10.0.0.9", NodeID="a")]
    assert [(one.address, one.node_id) for one in candidates_of(nodes)] == [
        ("10.0.0.9", "a"), ("10.0.0.9", "id-gpu-10.0.0.9"), ("10.0.0.10", "id-gpu-10.0.0.10")
    ]  # fmt: skip


def test_dead_nodes_are_no_candidates() -> None:
    assert [one.name for one in candidates_of([ray_node("a"), ray_node("b", alive=False)])] == ["a"]


@pytest.mark.parametrize("name", ["", "10.0.0.1", None])
def test_a_node_without_a_name_goes_by_its_host_name(name: str | None) -> None:
    assert candidates_of([ray_node("x", NodeName=name, NodeManagerHostname="host7")])[0].name == "host7"


def test_names_with_and_without_numbers_can_be_ordered() -> None:
    nodes = [ray_node(name) for name in ("b", "10", "a1b", "a", "a1", "2")]
    assert [one.name for one in candidates_of(nodes)] == ["2", "10", "a", "a1", "a1b", "b"]


def test_ranks_of_a_node_are_adjacent() -> None:
    plan = plan_of(candidates(4, 4, 4), nodes=2, ranks_per_node=None, backend=None)
    assert (plan.backend, plan.ranks_per_node, plan.world_size) == ("nccl", 4, 8)
    assert [plan.ranks_of(index) for index in range(2)] == [(0, 1, 2, 3), (4, 5, 6, 7)]
    assert [plan.node_of(rank).name for rank in range(8)] == ["node0"] * 4 + ["node1"] * 4
    assert plan.bundles == [{"CPU": 1.0, "GPU": 4.0}] * 2


def test_the_node_with_the_fewest_gpus_decides() -> None:
    assert plan_of(candidates(8, 2, 4), nodes=None, ranks_per_node=None, backend=None).ranks_per_node == 2


def test_without_gpus_it_is_gloo_with_a_rank_a_node() -> None:
    plan = plan_of(candidates(0, 0), nodes=None, ranks_per_node=None, backend=None)
    assert (plan.backend, plan.ranks_per_node, plan.bundles) == ("gloo", 1, [{"CPU": 1.0}] * 2)


def test_nodes_without_gpus_take_no_part_in_nccl_and_do_in_gloo() -> None:
    assert [one.name for one in plan_of(candidates(0, 2, 2), nodes=None, ranks_per_node=None, backend=None).nodes] == [
        "node1", "node2"
    ]  # fmt: skip
    assert len(plan_of(candidates(0, 2, 2), nodes=3, ranks_per_node=3, backend="gloo").nodes) == 3


def test_too_few_nodes_names_those_that_exist() -> None:
    with pytest.raises(ClusterUnavailableError) as caught:
        plan_of(candidates(0, 0), nodes=3, ranks_per_node=None, backend=None)
    text = str(caught.value)
    assert "3 nodes were asked for and the cluster has 2" in text
    assert "node0 (10.0.0.0, 0 GPUs, 4 CPUs)" in text
    assert "node1" in text
    assert caught.value.exit_code == 2


def test_too_few_nodes_with_gpus_names_the_others_too() -> None:
    with pytest.raises(ClusterUnavailableError, match=r"2 nodes with GPUs were asked .* has 1.*node0.*node1"):
        plan_of(candidates(0, 2), nodes=2, ranks_per_node=None, backend="nccl")


def test_nccl_without_any_gpu_and_no_nodes_at_all() -> None:
    with pytest.raises(
        ClusterUnavailableError, match=r"needs a GPU for every rank, and no node has one: .*--backend gloo"
    ):
        plan_of(candidates(0), nodes=None, ranks_per_node=None, backend="nccl")
    with pytest.raises(ClusterUnavailableError, match="exist: none"):
        plan_of((), nodes=None, ranks_per_node=None, backend=None)


def test_too_few_gpus_names_the_node() -> None:
    with pytest.raises(ClusterUnavailableError, match="4 GPUs on each node were asked for; fewer are on: node1 "):
        plan_of(candidates(4, 2), nodes=2, ranks_per_node=4, backend=None)
    assert plan_of(candidates(4, 2), nodes=1, ranks_per_node=4, backend=None).world_size == 4


@pytest.mark.parametrize(
    ("gpu_id", "visible", "index"),
    [("0", None, 0), ("7", None, 7), ("4", "4,5,6,7", 0), ("7", "4,5,6,7", 3), ("2", " 3, 2 ", 1),
     ("GPU-b", "GPU-a,GPU-b", 1),
     ("MIG-1", "MIG-0,MIG-1,", 1)],
)  # fmt: skip
def test_a_granted_gpu_is_found_among_the_visible(gpu_id: str, visible: str | None, index: int) -> None:
    assert device_index(gpu_id, visible) == index


@pytest.mark.parametrize(("gpu_id", "visible"), [("0", "4,5"), ("0", ""), ("GPU-c", "GPU-a,GPU-b"), ("1", "10,11")])
def test_a_gpu_that_is_not_visible_is_refused(gpu_id: str, visible: str) -> None:
    with pytest.raises(UsageError, match=f"granted GPU {gpu_id}"):
        device_index(gpu_id, visible)
