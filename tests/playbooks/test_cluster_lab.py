"""One Ray cluster over three lab hosts by real SSH and Ansible: up, found by a run, no secret shown, and down."""

import json
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.playbooks.lab_cluster import LabController, by_name, commands, supervisor, three_hosts

pytestmark = [pytest.mark.lab, pytest.mark.cluster, pytest.mark.timeout(900)]
MARK = "/run/before"  # older than what a test made


@pytest.fixture(scope="module")
def controller() -> Iterator[LabController]:
    with three_hosts() as controller:
        for node in controller.lab.nodes:
            node.run(["touch", MARK], check=True)
        yield controller


def places_of(token: str, controller: LabController) -> set[str]:
    """Process arguments, environments and files of nodes that hold the token, and files that others may read."""
    found = set()
    for node in controller.lab.nodes:
        for process in node.processes():
            for kind in ("cmdline", "environ"):
                if token.encode() in Path(f"/proc/{process.pid}/{kind}").read_bytes():
                    found.add(f"{node.hostname} {kind} {process.command}")
        script = (
            "find /var/lib/raybench /var/log /var/tmp /tmp /run /dev/shm /etc /root/.ansible /root/.ray -xdev -type f"
            f" -newer {MARK} -exec grep -lsF {token} {{}} + | xargs -r stat -c '%a %n'"
        )
        found |= {f"{node.hostname} {line}" for line in node.run(["sh", "-c", script]).stdout.splitlines()}
    return found


def test_up_makes_a_cluster_that_a_run_finds_and_a_second_up_changes_nothing(controller: LabController) -> None:
    report = controller.cluster("up", "-i", controller.inventory)
    assert [(row["name"], row["role"], row["alive"], row["cpus"]) for row in report["nodes"]] == [
        ("node1", "head", True, 2),
        *((f"node{number}", "worker", True, 2) for number in (2, 3)),
    ]
    assert (report["address"], report["status"]) == ("10.88.0.1:6379", "successful")
    pids = [supervisor(node).pid for node in controller.lab.nodes]

    token = (controller.state / "token").read_text()
    assert re.fullmatch("[0-9a-f]{64}", token)
    assert stat.S_IMODE((controller.state / "token").stat().st_mode) == 0o600
    assert stat.S_IMODE((controller.state / "cluster.json").stat().st_mode) == 0o600

    again = controller.playbook("cluster_up.yml", "--diff", "-vvv")
    assert again.returncode == 0, again.stdout[-3000:]
    assert re.findall(r"changed=(\d+)", again.stdout) == ["0"] * 3
    assert pids == [supervisor(node).pid for node in controller.lab.nodes]
    assert token not in again.stdout + again.stderr + json.dumps(report)
    assert places_of(token, controller) == {f"node{number} 600 /var/lib/raybench/token" for number in (1, 2, 3)}

    for node in (controller.lab.nodes[2], None):  # a node of the cluster, and the machine that brought it up
        folder = controller.lab.folder.shared / f"runs-{node.hostname if node else 'control'}"
        done = controller.raybench(
            *("run", "--nodes", "3", "--suite", "all_reduce", "--sizes", "1K:64K:8", "--iters", "4"),
            *("--output-dir", folder),
            node=node,
        )
        assert done.returncode == 0, done.stderr
        assert "Ray cluster brought up by raybench" in done.stderr
        assert ".cc:" not in done.stdout + done.stderr  # of Ray's own
        (path,) = folder.glob("*/result.json")
        result = json.loads(path.read_text())
        assert (result["status"], result["cluster"]["emulated"]) == ("complete", False)
        assert [one["name"] for one in result["cluster"]["nodes"]] == ["node1", "node2", "node3"]


@pytest.mark.alone  # Ray's own limit of 30 s for the head's answer is met beside other tests
def test_a_control_machine_that_nodes_cannot_reach_or_without_the_token_is_refused(controller: LabController) -> None:
    if not controller.state.exists():  # where this test is run alone
        controller.cluster("up", "-i", controller.inventory)
    scratch = controller.lab.folder.shared / "t"
    scratch.mkdir()
    run = ("run", "--suite", "all_reduce", "--sizes", "1K", "--output-dir", scratch / "runs")
    token = controller.state / "token"
    content = token.read_text()
    token.write_text("")
    lost = controller.raybench(*run, environment={"TMPDIR": str(scratch)})
    token.write_text(content)
    rules = controller.lab.folder.shared / "rules.nft"
    rules.write_text(_CLOSED)
    if controller.lab.control.run(["nft", "-f", rules]).returncode == 0:
        try:
            closed = controller.raybench(*run, environment={"TMPDIR": str(scratch)})
        finally:
            controller.lab.control.run(["nft", "delete", "table", "inet", "closed"], check=True)
        assert "open connections to" in closed.stderr
        assert (closed.returncode, len(closed.stderr.splitlines())) == (2, 1), closed.stderr
    assert "its token is missing: RAY_AUTH_TOKEN_PATH names" in lost.stderr
    assert (lost.returncode, len(lost.stderr.splitlines())) == (2, 1), lost.stderr
    assert [path.name for path in scratch.rglob("*")] == ["runs"]


_CLOSED = """table inet closed {
 chain input {
  type filter hook input priority 0; policy accept;
  ct state established,related accept
  iifname "br0" ct state new drop
 }
}
"""


def test_down_leaves_nothing_and_a_part_of_it_leaves_the_record(controller: LabController) -> None:
    if not controller.state.exists():  # where this test is run alone
        controller.cluster("up", "-i", controller.inventory)
    part = controller.playbook("cluster_down.yml", "--limit", "node2")
    assert part.returncode == 0, part.stdout[-3000:]
    assert {path.name for path in controller.state.iterdir()} >= {"cluster.json", "token"}  # the others go on
    report = controller.cluster("down")
    assert {(row["running"], row["problem"]) for row in report["nodes"]} == {(False, "")}
    assert not list(controller.state.glob("cluster.json")) + list(controller.state.glob("token"))
    assert not any(found for found in commands(controller.lab.nodes).values())


def test_hostile_values_are_refused_or_stay_words(controller: LabController) -> None:
    controller.write_inventory(
        ray_node_options=["--labels=a=$(touch /tmp/pwned)"],
        ray_node_environment={"A B": "x"},
    )
    report = controller.cluster("up", "-i", controller.inventory, "--limit", "node1", status=3)
    assert "'A B', which cannot be a variable" in by_name(report)["node1"]["problem"]
    controller.write_inventory(ray_node_options=["--labels=$(touch /tmp/pwned)", "; touch /tmp/pwned"])
    report = controller.cluster("up", "-i", controller.inventory, "--limit", "node1", status=3)
    assert "Ray did not start" in by_name(report)["node1"]["problem"]
    controller.write_inventory(raybench_python="/bin/sh -c 'touch /tmp/pwned' #")
    report = controller.cluster("up", "-i", controller.inventory, "--limit", "node1", status=3)
    assert "there is no Python at" in by_name(report)["node1"]["problem"]
    controller.write_inventory(ansible_host="node1; touch /tmp/pwned")
    done = controller.raybench("cluster", "up", "-i", controller.inventory)
    assert done.returncode == 2
    assert "is refused" in done.stderr
    controller.write_inventory()
    assert controller.lab.nodes[0].run(["ls", "/tmp"]).stdout.count("pwned") == 0
    assert not Path("/tmp/pwned").exists()
    assert not Path(os.curdir, "pwned").exists()
    assert not any(found for found in commands(controller.lab.nodes).values())
