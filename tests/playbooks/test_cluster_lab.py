"""A Ray cluster over two lab hosts by real SSH and Ansible, beside somebody else's Ray, from up to down.

Up, found by runs, no secret shown; parts that fall out are brought back; down; hostile values; without a dead host. One
lab serves all tests, in this order, since each cluster costs seconds; each does what it needs where it is run alone.
"""

import contextlib
import json
import os
import re
import signal
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.lab.node import Node
from tests.playbooks.foreign_ray import ForeignRay, foreign_ray
from tests.playbooks.lab_cluster import LabController, by_name, commands, lab_hosts, supervisor, wait_until

pytestmark = [pytest.mark.lab, pytest.mark.cluster, pytest.mark.timeout(900)]
MARK = "/run/before"  # older than what a test made
NOTHING: dict[str, list[str]] = {"node1": [], "node2": []}
DEAD = {"node3": {"ansible_host": "10.88.0.200"}}  # in the inventory; nobody has its address


@pytest.fixture(scope="module")
def controller() -> Iterator[LabController]:
    with lab_hosts(2) as controller:
        for node in controller.lab.nodes:
            node.run(["touch", MARK], check=True)
        yield controller


@pytest.fixture(scope="module")
def foreign(controller: LabController) -> Iterator[ForeignRay]:
    with foreign_ray(controller.lab.nodes[0]) as foreign:
        yield foreign


def places_of(token: str, controller: LabController) -> set[str]:
    """Process arguments, environments and files of nodes that hold the token, and files that others may read."""
    found = set()
    for node in controller.lab.nodes:
        for process in node.processes():
            for kind in ("cmdline", "environ"):
                with contextlib.suppress(OSError):  # it may end while we look
                    if token.encode() in Path(f"/proc/{process.pid}/{kind}").read_bytes():
                        found.add(f"{node.hostname} {kind} {process.command}")
        script = (
            "find /var/lib/raybench /var/log /var/tmp /tmp /run /dev/shm /etc /root/.ansible /root/.ray -xdev -type f"
            f" -newer {MARK} -exec grep -lsF {token} {{}} + | xargs -r stat -c '%a %n'"
        )
        found |= {f"{node.hostname} {line}" for line in node.run(["sh", "-c", script]).stdout.splitlines()}
    return found


def test_up_makes_a_cluster_that_a_run_finds_and_a_second_up_changes_nothing(
    controller: LabController, foreign: ForeignRay
) -> None:
    report = controller.cluster("up", "-i", controller.inventory)
    assert [(row["name"], row["role"], row["alive"], row["cpus"]) for row in report["nodes"]] == [
        ("node1", "head", True, 2),
        ("node2", "worker", True, 2),
    ]
    assert (report["address"], report["status"]) == ("10.88.0.1:6379", "successful")
    pids = [supervisor(node).pid for node in controller.lab.nodes]

    token = (controller.state / "token").read_text()
    assert re.fullmatch("[0-9a-f]{64}", token)
    assert stat.S_IMODE((controller.state / "token").stat().st_mode) == 0o600
    assert stat.S_IMODE((controller.state / "cluster.json").stat().st_mode) == 0o600

    again = controller.playbook("cluster_up.yml", "--diff", "-vvv")
    assert again.returncode == 0, again.stdout[-3000:]
    assert re.findall(r"changed=(\d+)", again.stdout) == ["0"] * 2
    assert pids == [supervisor(node).pid for node in controller.lab.nodes]
    assert token not in again.stdout + again.stderr + json.dumps(report)
    assert places_of(token, controller) == {f"node{number} 600 /var/lib/raybench/token" for number in (1, 2)}

    assert_found_by_a_run(controller, None)  # from the machine that brought it up


def assert_found_by_a_run(controller: LabController, node: Node | None) -> None:
    """A run that is started on a node of the lab, or on its control node, finds the cluster and its two nodes."""
    folder = controller.lab.folder.shared / f"runs-{node.hostname if node else 'control'}"
    done = controller.raybench(
        *("run", "--nodes", "2", "--suite", "all_reduce", "--sizes", "1K:64K:8", "--iters", "4"),
        *("--output-dir", folder),
        node=node,
    )
    assert done.returncode == 0, done.stderr
    assert "Ray cluster brought up by raybench" in done.stderr
    assert ".cc:" not in done.stdout + done.stderr  # of Ray's own
    (path,) = folder.glob("*/result.json")
    result = json.loads(path.read_text())
    assert (result["status"], result["cluster"]["emulated"]) == ("complete", False)
    assert [one["name"] for one in result["cluster"]["nodes"]] == ["node1", "node2"]


def need_cluster(controller: LabController) -> None:
    """Bring the cluster up where no test before this one has."""
    if not controller.state.exists():
        controller.cluster("up", "-i", controller.inventory)


@pytest.mark.long
def test_what_fell_out_is_brought_back_and_a_run_that_is_stopped_leaves_a_foreign_actor_alone(
    controller: LabController, foreign: ForeignRay
) -> None:
    need_cluster(controller)
    head, worker = controller.lab.nodes
    assert_found_by_a_run(controller, worker)
    worker.signal(supervisor(worker), signal.SIGKILL)
    report = controller.cluster("up")  # with the inventory that is on record
    assert {row["name"]: row["changed"] for row in report["nodes"]} == {"node1": False, "node2": True}
    assert all(row["alive"] for row in report["nodes"])
    visits = foreign.visits()
    run = controller.start("run", "--suite", "quick", "--sizes", "1K:900K:+1K", "--output-dir", "/tmp/runs", node=head)
    assert wait_until(lambda: bool(head.run(["sh", "-c", "cat /tmp/runs/*/samples.jsonl"]).stdout), 120)
    run.send_signal(signal.SIGINT)
    assert run.communicate(timeout=90) is not None
    assert run.returncode == 3
    assert foreign.visits() == visits + 1


def test_down_leaves_nothing_but_the_foreign_ray_and_a_part_of_it_leaves_the_record(
    controller: LabController, foreign: ForeignRay
) -> None:
    need_cluster(controller)
    head = controller.lab.nodes[0]
    visits = foreign.visits()
    part = controller.playbook("cluster_down.yml", "--limit", "node2")
    assert part.returncode == 0, part.stdout[-3000:]
    assert {path.name for path in controller.state.iterdir()} >= {"cluster.json", "token"}  # the others go on
    ours = commands(controller.lab.nodes, but=foreign.owns)
    assert any("gcs_server" in command for command in ours["node1"])
    assert ours["node2"] == []
    report = controller.cluster("down")
    assert [(row["name"], row["running"], row["changed"], row["problem"]) for row in report["nodes"]] == [
        ("node1", False, True, ""),
        ("node2", False, False, ""),
    ]
    assert commands(controller.lab.nodes, but=foreign.owns) == NOTHING
    assert not list(controller.state.glob("cluster.json")) + list(controller.state.glob("token"))
    assert head.run(["ls", "/var/lib/raybench"]).stdout.split() == ["lock", "ray.log", "s", "supervise.py"]
    assert foreign.visits() == visits + 1
    assert controller.cluster("down", "-i", controller.inventory)["nodes"][0]["changed"] is False


def test_hostile_values_are_refused_or_stay_words(controller: LabController, foreign: ForeignRay) -> None:
    controller.write_inventory(
        ray_node_options=["--labels=a=$(touch /tmp/pwned)"],
        ray_node_environment={"A B": "x"},
    )
    report = controller.cluster("up", "-i", controller.inventory, "--limit", "node1", status=3)
    assert "'A B', which cannot be a variable" in by_name(report)["node1"]["problem"]
    controller.write_inventory(ray_node_options=["--labels=$(touch /tmp/pwned)", "; touch /tmp/pwned"])
    report = controller.cluster("up", "-i", controller.inventory, "--limit", "node1", status=3)
    assert "Ray did not start" in by_name(report)["node1"]["problem"]
    controller.write_inventory(ansible_host="node1; touch /tmp/pwned")
    done = controller.raybench("cluster", "up", "-i", controller.inventory)
    assert done.returncode == 2
    assert "is refused" in done.stderr
    controller.write_inventory()
    assert_nothing_was_called(controller.lab.nodes)
    assert commands(controller.lab.nodes, but=foreign.owns) == NOTHING


def assert_nothing_was_called(nodes: Sequence[Node]) -> None:
    """No hostile value was a command anywhere."""
    assert [node.run(["ls", "/tmp"]).stdout.count("pwned") for node in nodes] == [0] * len(nodes)
    assert not Path("/tmp/pwned").exists()
    assert not Path(os.curdir, "pwned").exists()


def test_last_a_dead_host_and_one_without_python_are_named_and_nothing_is_started(
    controller: LabController, foreign: ForeignRay
) -> None:
    living = controller.lab.nodes
    controller.write_inventory({"node2": {"raybench_python": "/bin/sh -c 'touch /tmp/pwned' #"}, **DEAD})
    rows = by_name(controller.cluster("up", "-i", controller.inventory, status=3))
    controller.write_inventory()
    said = r"Nothing was started: (node2, node3|node3, node2) cannot be part of the cluster"
    assert re.search(said, rows["node1"]["problem"])
    assert "there is no Python at" in rows["node2"]["problem"]
    assert rows["node3"]["unreachable"]
    assert "10.88.0.200" in rows["node3"]["problem"]
    assert_nothing_was_called(living)
    assert not any(commands(living, but=foreign.owns).values())


@pytest.mark.long
def test_last_a_cluster_without_its_dead_host_comes_up_and_an_up_that_is_stopped_can_be_taken_down(
    controller: LabController, foreign: ForeignRay
) -> None:
    living = controller.lab.nodes
    head = living[0]
    controller.write_inventory(DEAD)
    report = controller.cluster("up", "-i", controller.inventory, "--allow-missing")
    assert [row["alive"] for row in report["nodes"]] == [True, True, False]
    report = controller.cluster("down", status=3)
    assert [row["running"] for row in report["nodes"]] == [False, False, None]
    assert (controller.state / "cluster.json").exists()  # so that node3 is tried again

    process = controller.start("cluster", "up", "-i", controller.inventory, "--allow-missing")
    assert wait_until(lambda: "gcs_server" in " ".join(commands([head], but=foreign.owns)["node1"]), 200)
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=120)
    assert process.returncode == 3, out + errors
    assert "'raybench cluster down' ends it" in errors
    controller.cluster("down", status=3)
    assert not any(commands(living, but=foreign.owns).values())
