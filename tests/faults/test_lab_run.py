"""``raybench run`` over four nodes with networks of their own: figures known beforehand, and nodes that fail."""

import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.lab.cluster import Lab
from tests.lab.node import Node

pytestmark = [pytest.mark.lab, pytest.mark.cluster]
TIMEOUT = 12.0
GRACE = 15.0
PAYLOAD = 1448 / 1514  # of what tbf counts, at an MTU of 1500
ENTRY = "from raybench.cli import main; main()"


def command(lab: Lab, folder: Path, *options: str) -> list[str]:
    place = ["--address", str(lab.ray_address), "--nodes", "4", "--output-dir", str(folder), "--backend", "gloo"]
    return ["python", "-c", ENTRY, "run", *place, "--quiet", *options]


def result_in(folder: Path) -> dict[str, Any]:
    (run,) = folder.glob("*")
    result: dict[str, Any] = json.loads((run / "result.json").read_text())
    return result


def measured(lab: Lab, name: str, *options: str) -> dict[str, Any]:
    folder = lab.folder.shared / name
    done = lab.nodes[0].run(command(lab, folder, *options), timeout=120)
    assert done.returncode == 0, done.stderr[-3000:]
    return result_in(folder)


def test_one_rank_a_node_in_the_order_of_their_names(ray_lab: Lab) -> None:
    result = measured(ray_lab, "plain", "--suite", "all_reduce,all_to_all", "--sizes", "1K,64K")
    cluster = result["cluster"]
    assert (result["status"], cluster["emulated"], cluster["world_size"]) == ("complete", False, 4)
    assert [(node["name"], node["ranks"]) for node in cluster["nodes"]] == [(f"node{n}", [n - 1]) for n in range(1, 5)]
    assert len({node["address"] for node in cluster["nodes"]}) == 4
    assert all(point["verified"] for benchmark in result["benchmarks"] for point in benchmark["points"])


def test_a_shaped_link_is_measured_within_a_tenth_of_its_rate(ray_lab: Lab) -> None:
    ray_lab.shape(ray_lab.nodes[2], "200mbit")
    try:
        options = ["--suite", "send_recv,broadcast", "--sizes", "8M", "--iters", "1", "--warmup", "1"]
        result = measured(ray_lab, "shaped", *options)
    finally:
        ray_lab.shape(ray_lab.nodes[2], None)
    expected = 200e6 / 8 / 1e9 * PAYLOAD
    for benchmark in result["benchmarks"]:
        assert benchmark["points"][0]["busbw_gb_per_s"] == pytest.approx(expected, rel=0.10), benchmark["name"]


def test_the_slow_node_stands_out_in_the_matrix(ray_lab: Lab) -> None:
    ray_lab.shape(ray_lab.nodes[1], "100mbit")
    try:
        options = ["--suite", "p2p_matrix", "--p2p-size", "1M", "--blocks", "5", "--iters", "1"]
        result = measured(ray_lab, "matrix", *options)
    finally:
        ray_lab.shape(ray_lab.nodes[1], None)
    (matrix,) = result["benchmarks"]
    speeds = {(one["source_rank"], one["destination_rank"]): one["busbw_gb_per_s"] for one in matrix["points"]}
    assert len(speeds) == 12
    slow = [speed for pair, speed in speeds.items() if 1 in pair]
    assert max(slow) * 2 < min(speed for pair, speed in speeds.items() if 1 not in pair)


def test_fewer_nodes_than_asked_for_says_which_exist(ray_lab: Lab) -> None:
    folder = ray_lab.folder.shared / "few"
    done = ray_lab.nodes[0].run(
        [
            "python",
            "-c",
            ENTRY,
            "run",
            "--address",
            str(ray_lab.ray_address),
            "--nodes",
            "5",
            "--output-dir",
            str(folder),
        ],
        timeout=60,
    )
    assert done.returncode == 2
    assert all(f"node{number} (10.88." in done.stderr for number in range(1, 5))
    assert list(folder.glob("*")) == []


def rank_process(node: Node) -> Any:
    """The forked rank of a node: the rank host's child."""
    hosts = [one for one in node.processes() if "rank_host" in " ".join(one.command) + str(one.command)]
    parents = {one.pid for one in hosts}
    (rank,) = [one for one in hosts if one.parent_pid in parents]
    return rank


def broken(lab: Lab, name: str, break_it: Callable[[], None]) -> tuple[dict[str, Any], float]:
    """The result of a long run that is broken after its first point, and the seconds from there to its end."""
    folder = lab.folder.shared / name
    options = ["--suite", "all_reduce", "--sizes", "1K:999K:+1K", "--iters", "60", "--timeout", str(TIMEOUT)]
    with lab.nodes[0].popen(command(lab, folder, *options), stdout=subprocess.DEVNULL) as run:
        deadline = time.monotonic() + 60
        while not any(path.read_text().count("\n") for path in folder.glob("*/samples.jsonl")):
            assert run.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.1)
        begun = time.monotonic()
        break_it()
        assert run.wait(TIMEOUT + GRACE + 10) == 3
        seconds = time.monotonic() - begun
    print(f"{name}: {seconds:.1f} s from fault to exit")
    assert seconds < TIMEOUT + GRACE
    result = result_in(folder)
    assert result["status"] == "partial"
    assert result["benchmarks"][0]["points"]
    return result, seconds


def test_a_stopped_rank_is_named(ray_lab: Lab) -> None:
    node = ray_lab.nodes[1]
    result, _ = broken(ray_lab, "stopped", lambda: node.signal(rank_process(node), signal.SIGSTOP))
    finding = result["findings"][0]
    assert (finding["rule"], finding["ranks"], finding["hosts"]) == ("rank-stopped", [1], ["node2"])
    assert "all_reduce float32" in finding["step"]
    assert "iteration" in finding["step"]
    assert not any(ray_lab.leftover_processes().values())


def test_a_node_that_loses_power_is_named(ray_lab: Lab) -> None:
    """The last test of this module: the node does not come back."""
    result, _ = broken(ray_lab, "dead", ray_lab.nodes[3].kill)
    finding = result["findings"][0]
    assert (finding["rule"], finding["ranks"], finding["hosts"]) == ("node-lost", [3], ["node4"])
    assert result["cluster"]["dropped"][0]["node"] == "node4"
    assert "all_reduce float32" in finding["step"]
    assert not any(ray_lab.leftover_processes().values())
