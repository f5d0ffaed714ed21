"""Slow links of four nodes, measured again with healthy partners; a node at fault is dropped, a path is not."""

import json
from typing import Any

import pytest

from tests.lab.cluster import Lab
from tests.lab_run import LabRun, lab_run, nothing_left

pytestmark = [pytest.mark.lab, pytest.mark.cluster, pytest.mark.long]
SHORT = ("--suite", "p2p_matrix", "--p2p-size", "256K", "--iters", "2", "--no-agent")
SLOW = "50mbit"


def results(run: LabRun) -> list[dict[str, Any]]:
    """Every run of the command, in order."""
    paths = sorted(run.folder.glob("runs/*/result.json"), key=lambda path: path.stat().st_ctime)
    return sorted((json.loads(path.read_text()) for path in paths), key=lambda one: "continued" in one)


def test_a_shaped_node_is_confirmed_and_the_run_goes_on_without_it(ray_lab: Lab) -> None:
    ray_lab.shape(ray_lab.nodes[2], SLOW)
    try:
        with lab_run(ray_lab, *SHORT, "--continue-without", "--nodes", "4") as run:
            assert run.finish(240) == 1, run.errors
    finally:
        ray_lab.shape(ray_lab.nodes[2], None)
    first, second = results(run)
    (suspect,) = first["isolation"]["suspects"]
    assert (suspect["name"], suspect["outcome"], suspect["rules"]) == ("node3", "confirmed", ["slow-node"]), suspect
    assert suspect["figure"] < 0.3 * suspect["partners_figure"]
    assert [group["with_suspect"] for group in suspect["groups"]][-1] is False
    assert first["cluster"]["world_size"] == 4
    assert [node["name"] for node in second["cluster"]["nodes"]] == ["node1", "node2", "node4"]
    assert (second["status"], second["cluster"]["world_size"], second["verdict"]) == ("complete", 3, "critical")
    assert [one["node"] for one in second["cluster"]["dropped"]] == ["node3"]
    assert second["continued"]["first_run_id"] == first["run_id"]
    assert "CONTINUED WITHOUT node3: 3 of 4 nodes" in run.out
    assert nothing_left(ray_lab, 5)


COLLECTIVES = ("--suite", "all_reduce", "--sizes", "256K:512K:2", "--iters", "4", "--blocks", "5")


def test_a_shaped_node_of_a_run_of_collectives_alone_is_confirmed_and_dropped(ray_lab: Lab) -> None:
    ray_lab.shape(ray_lab.nodes[1], "20mbit")
    try:
        with lab_run(ray_lab, *COLLECTIVES, "--p2p-size", "256K", "--continue-without", "--nodes", "4") as run:
            assert run.finish(240) == 1, run.errors
    finally:
        ray_lab.shape(ray_lab.nodes[1], None)
    first, second = results(run)
    suspects = first["isolation"]["suspects"]  # where a healthy path is acknowledged late, who stands out beside it too
    told = {one["name"]: (one["outcome"], one["rules"]) for one in suspects}
    assert told["node2"] == ("confirmed", ["slow-tcp-paths"]), suspects
    others = [one for one in suspects if one["name"] != "node2"]
    assert all(one["is_open"] and one["outcome"] in ("not confirmed", "unknown") for one in others), told
    assert [one["node"] for one in second["cluster"]["dropped"]] == ["node2"]
    assert second["status"] == "complete"
    assert "CONTINUED WITHOUT node2: 3 of 4 nodes" in run.out
    assert nothing_left(ray_lab, 5)


def test_a_shaped_path_between_two_nodes_is_told_and_neither_is_dropped(ray_lab: Lab) -> None:
    one, other = ray_lab.nodes[1], ray_lab.nodes[2]
    for here, there in ((one, other), (other, one)):
        ray_lab.shape_way(here, there, SLOW)
    try:
        with lab_run(ray_lab, *SHORT, "--continue-without", "--nodes", "4") as run:
            assert run.finish(240) == 1, run.errors
    finally:
        for here in (one, other):
            ray_lab.shape(here, None)
    (result,) = results(run)
    (suspect,) = result["isolation"]["suspects"]
    told = (suspect["name"], suspect["outcome"], suspect["slow_with"])
    assert told == ("the path between node2 and node3", "path", ["node2", "node3"]), suspect
    assert result["cluster"]["dropped"] == []
    assert "continued" not in result
    assert nothing_left(ray_lab, 5)
