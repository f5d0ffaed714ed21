"""Runs over four nodes that differ: right figures, a slow node that stands out, and guests who leave others alone."""

import os
import signal
import subprocess
import time

import pytest

from tests.lab.cluster import Lab
from tests.lab.process import Process
from tests.lab_run import LabRun, lab_run, nothing_left
from tests.result_contract import read_result

pytestmark = [pytest.mark.lab, pytest.mark.cluster]
PAYLOAD_SHARE = 1448 / 1514  # of an Ethernet frame, with TCP timestamps
RATE_BITS = 200e6
ENDLESS = ("--suite", "quick", "--sizes", "1K:900K:+1K", "--timeout", "60")
FOREIGN = """
import sys, time
import ray
ray.init(address="auto", log_to_driver=False)
@ray.remote(num_cpus=1)
class Guest:
    def count(self):
        self.seen = getattr(self, "seen", 0) + 1
        return self.seen
guest = Guest.remote()
print(ray.get(guest.count.remote()), flush=True)
for _ in sys.stdin:
    print(ray.get(guest.count.remote()), flush=True)
"""


@pytest.mark.long
@pytest.mark.parametrize("nodes", [4, 2])
def test_one_cluster_runs_on_all_its_nodes_and_then_on_some(ray_lab: Lab, nodes: int) -> None:
    with lab_run(ray_lab, "--nodes", str(nodes), "--suite", "quick", "--sizes", "1K:64K:8", "--iters", "4") as run:
        assert run.finish(60) == 0, run.errors
        assert_told_of_nodes(run, nodes)
    assert nothing_left(ray_lab, 5)


def assert_told_of_nodes(run: LabRun, nodes: int) -> None:
    """The result has every node with its address, rank, facts and traffic, and each rank's output."""
    (path,) = run.folder.glob("runs/*/result.json")
    result = read_result(path.read_bytes())
    assert [(node.name, node.address, node.ranks) for node in result.cluster.nodes] == [
        (f"node{number}", f"10.88.0.{number}", [number - 1]) for number in range(1, nodes + 1)
    ]
    early = [node.facts["early_rank_host"] for node in result.cluster.nodes]
    assert early == [True, *[False] * (nodes - 1)]
    assert not result.cluster.emulated
    assert "EMULATED" not in run.out
    logs = {log.name for log in path.parent.joinpath("logs").iterdir()}
    assert {f"output-rank-{rank}.log" for rank in range(nodes)} <= logs
    for node in result.cluster.nodes:
        (facts,) = node.facts["ranks"].values()
        assert facts["niceness"] == str(os.nice(0))
        moved = node.facts["traffic"]["eth0"]
        assert min(moved.values()) > 64 * 1024 * 4 * 5  # of the largest size alone: 5 blocks of 4 operations


def test_fewer_nodes_than_asked_for_is_wrong_use_and_names_those_that_exist(ray_lab: Lab) -> None:
    with lab_run(ray_lab, "--nodes", "5") as run:
        assert run.finish(30) == 2
        assert run.out == ""
        (line,) = run.errors.splitlines()
        assert "5 nodes were asked for and the cluster has 4" in line
        assert all(f"node{number} (10.88.0.{number}" in line for number in range(1, 5))
        assert list(run.folder.glob("runs/*")) == []
    assert nothing_left(ray_lab, 5)


def test_a_shaped_link_is_measured_and_its_node_stands_out(ray_lab: Lab) -> None:
    slow = 2
    ray_lab.shape(ray_lab.nodes[slow], f"{RATE_BITS / 1e6:.0f}mbit")
    try:
        with lab_run(
            ray_lab, "--suite", "p2p_matrix", "--p2p-size", "2M", "--iters", "2", "--blocks", "5"
        ) as run:  # fmt: skip
            assert run.finish(90) == 1, run.errors
            assert_told_of_nodes(run, 4)
    finally:
        ray_lab.shape(ray_lab.nodes[slow], None)
    known = RATE_BITS / 8 * PAYLOAD_SHARE / 1e9
    matrix = next(one for one in run.result()["benchmarks"] if one["name"] == "p2p_matrix")
    pairs = {(one["source_rank"], one["destination_rank"]): one["algbw_gb_per_s"] for one in matrix["points"]}
    assert len(pairs) == 12
    for pair, measured in pairs.items():
        if slow in pair:
            assert measured == pytest.approx(known, rel=0.1), pair
        else:
            assert measured > 3 * known, pair
    findings = run.result()["findings"]
    said = [(one["rule"], one["hosts"], one["severity"]) for one in findings]
    assert said == [("slow-node", ["node3"], "critical")], [one["summary"] for one in findings]
    assert "VERDICT: CRITICAL: node node3" in run.out


# Every day a run that ends in order is followed by others: the cable's below, and those of emulated nodes.
@pytest.mark.parametrize("how", [pytest.param("ctrl-c", marks=pytest.mark.long), "killed"])
def test_a_foreign_actor_survives_our_run_and_its_abort(ray_lab: Lab, how: str) -> None:
    other_job = ray_lab.nodes[1].popen(
        ["python", "-c", FOREIGN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )

    def foreign(process: Process) -> bool:
        return "ray::Guest" in process.command or " -c " in process.command

    with other_job:  # on one of the two nodes that the runs take
        assert other_job.stdin is not None
        assert other_job.stdout is not None
        assert other_job.stdout.readline() == "1\n"
        with lab_run(ray_lab, *ENDLESS, "--nodes", "2") as run:
            run.wait_for_points(1)
            if how == "ctrl-c":
                stopped_in_order(run)
            else:
                killed(run)
        assert nothing_left(ray_lab, 10, but=foreign)
        other_job.stdin.write("again\n")
        other_job.stdin.flush()
        assert other_job.stdout.readline() == "2\n"
        other_job.stdin.close()
    assert nothing_left(ray_lab, 5)
    assert not list(ray_lab.folder.shared.glob("raybench-*"))


def stopped_in_order(run: LabRun) -> None:
    run.process.send_signal(signal.SIGINT)
    begun = time.monotonic()
    assert run.finish(20) == 3
    assert time.monotonic() - begun < 15
    assert run.result()["findings"][0]["rule"] == "interrupted"


def killed(run: LabRun) -> None:
    """The command itself, not the escort that the lab has for it."""
    ours = [one for one in run.lab.nodes[0].leftover_processes() if "raybench.cli" in one.command]
    (command,) = [one for one in ours if one.parent_pid not in {other.pid for other in ours}]
    run.lab.nodes[0].signal(command, signal.SIGKILL)
    assert run.finish(60) == -signal.SIGKILL


@pytest.mark.long  # every day a stopped rank of emulated nodes: test_embedded_faults.py
def test_a_stopped_rank_is_named_with_its_node_and_step(ray_lab: Lab) -> None:
    with lab_run(
        ray_lab, "--nodes", "3", "--suite", "quick", "--sizes", "1K:900K:+1K", "--iters", "50", "--timeout", "10"
    ) as run:
        run.wait_for_points(2)
        node = ray_lab.nodes[2]
        node.signal(run.rank(node, 2), signal.SIGSTOP)
        begun = time.monotonic()
        assert run.finish(60) == 3
        seconds = time.monotonic() - begun
    print(f"{seconds:.1f} s from SIGSTOP to exit")
    assert seconds < 10 + 15
    result = run.result()
    finding = result["findings"][0]
    assert (result["status"], finding["rule"]) == ("partial", "rank-stopped")
    assert (finding["ranks"], finding["hosts"]) == ([2], ["node3"])
    assert finding["step"].startswith("all_reduce float32 ")
    assert "rank 2 on node node3" in run.out
    assert len(result["benchmarks"][0]["points"]) == len(run.samples()) >= 2
    assert nothing_left(ray_lab, 5)


@pytest.mark.timed
def test_last_a_node_whose_cable_is_pulled_is_lost_and_alone_keeps_its_ranks(ray_lab: Lab) -> None:
    """Nobody can tell it to end them; its node actor does when its lease is over (execution/test_node_actor.py)."""
    with lab_run(ray_lab, *ENDLESS, "--iters", "50", "--nodes", "3") as run:
        run.wait_for_points(2)
        ray_lab.nodes[2].unplug()
        begun = time.monotonic()
        assert run.finish(60) == 3
        seconds = time.monotonic() - begun
    print(f"{seconds:.1f} s from unplugging to exit")
    assert seconds < 25
    finding = run.result()["findings"][0]
    assert (finding["rule"], finding["ranks"], finding["hosts"]) == ("node-lost", [2], ["node3"])
    assert "node node3" in run.out
    assert nothing_left(ray_lab, 5, but=lambda process: process in ray_lab.nodes[2].processes())
