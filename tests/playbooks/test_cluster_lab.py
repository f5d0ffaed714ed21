"""One Ray cluster over four lab hosts by real SSH and Ansible: up, found by a run, brought back, down, and no trace."""

import json
import os
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.lab.cluster import Lab
from tests.lab.fixtures import require_lab
from tests.lab.node import Node
from tests.lab.process import Process
from tests.playbooks.lab_cluster import LabController, by_name, commands, wait_until
from tests.playbooks.local import require_ansible

pytestmark = [pytest.mark.lab, pytest.mark.cluster, pytest.mark.timeout(900)]
NOTHING: dict[str, list[str]] = {"node1": [], "node2": [], "node3": [], "node4": []}
MARK = "/run/before"  # older than what a test made
FOREIGN_PORT = 7001
FOREIGN_TOKEN = "/root/foreign-token"
FOREIGN_ENVIRONMENT = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": FOREIGN_TOKEN}
GUEST = f"""
import ray
ray.init(address="10.88.0.1:{FOREIGN_PORT}", log_to_driver=False)
@ray.remote(num_cpus=0)
class Guest:
    seen = 0
    def count(self):
        self.seen += 1
        return self.seen
guest = Guest.options(name="guest", namespace="f", lifetime="detached", get_if_exists=True).remote()
print(ray.get(guest.count.remote(), timeout=100))
"""


@pytest.fixture(scope="module")
def controller() -> Iterator[LabController]:
    require_lab()
    require_ansible()
    with Lab(nodes=4) as lab:
        if lab.ssh is None:
            pytest.skip("no sshd on this machine: apt-get install openssh-server")
        controller = LabController(lab=lab)
        controller.write_inventory()
        for node in lab.nodes:
            node.run(["touch", MARK], check=True)
        yield controller


def supervisor(node: Node) -> Process:
    (found,) = [one for one in node.processes() if "supervise.py" in one.command]
    return found


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
        *((f"node{number}", "worker", True, 2) for number in (2, 3, 4)),
    ]
    assert (report["address"], report["status"]) == ("10.88.0.1:6379", "successful")
    pids = [supervisor(node).pid for node in controller.lab.nodes]

    token = (controller.state / "token").read_text()
    assert re.fullmatch("[0-9a-f]{64}", token)
    assert stat.S_IMODE((controller.state / "token").stat().st_mode) == 0o600
    assert stat.S_IMODE((controller.state / "cluster.json").stat().st_mode) == 0o600

    again = controller.playbook("cluster_up.yml", "--diff", "-vvv")
    assert again.returncode == 0, again.stdout[-3000:]
    assert re.findall(r"changed=(\d+)", again.stdout) == ["0"] * 4
    assert pids == [supervisor(node).pid for node in controller.lab.nodes]
    assert token not in again.stdout + again.stderr + json.dumps(report)
    assert places_of(token, controller) == {f"node{number} 600 /var/lib/raybench/token" for number in (1, 2, 3, 4)}

    for node in (controller.lab.nodes[2], None):  # a node of the cluster, and the machine that brought it up
        folder = controller.lab.folder.shared / f"runs-{node.hostname if node else 'control'}"
        done = controller.raybench(
            *("run", "--nodes", "4", "--suite", "all_reduce", "--sizes", "1K:64K:8", "--iters", "4"),
            *("--output-dir", folder),
            node=node,
        )
        assert done.returncode == 0, done.stderr
        assert "Ray cluster brought up by raybench" in done.stderr
        (path,) = folder.glob("*/result.json")
        result = json.loads(path.read_text())
        assert (result["status"], result["cluster"]["emulated"]) == ("complete", False)
        assert [one["name"] for one in result["cluster"]["nodes"]] == ["node1", "node2", "node3", "node4"]


@contextmanager
def foreign_ray(head: Node) -> Iterator[None]:
    """Somebody else's Ray on a node: its own token, and Ray's own folder and client port."""
    head.run(["sh", "-c", f"umask 077; printf %064d 7 > {FOREIGN_TOKEN}"], check=True)
    foreign = head.popen(
        [
            *(sys.executable, "-m", "ray.scripts.scripts", "start", "--head", f"--port={FOREIGN_PORT}", "--block"),
            *("--node-ip-address=10.88.0.1", "--include-dashboard=false", "--num-cpus=1", "--disable-usage-stats"),
            *("--object-store-memory=80000000", "--include-log-monitor=false"),
            *("--min-worker-port=0", "--max-worker-port=0"),
        ],
        environment=FOREIGN_ENVIRONMENT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
        assert foreign.poll() is None
    finally:
        foreign.terminate()
        foreign.wait(60)


def test_what_fell_out_is_brought_back_and_a_foreign_ray_on_the_same_host_survives(controller: LabController) -> None:
    with foreign_ray(controller.lab.nodes[0]):
        _bring_back_abort_and_take_down(controller)
    assert wait_until(lambda: commands(controller.lab.nodes) == NOTHING, 60)


def _bring_back_abort_and_take_down(controller: LabController) -> None:
    head = controller.lab.nodes[0]
    if not controller.state.exists():  # where this test is run alone
        controller.cluster("up", "-i", controller.inventory)
    worker = controller.lab.nodes[1]
    worker.signal(supervisor(worker), signal.SIGKILL)
    report = controller.cluster("up")  # with the inventory that is on record
    assert {row["name"]: row["changed"] for row in report["nodes"]} == {
        "node1": False,
        "node2": True,
        "node3": False,
        "node4": False,
    }
    assert all(row["alive"] for row in report["nodes"])
    guest = [sys.executable, "-c", GUEST]
    assert head.run(guest, environment=FOREIGN_ENVIRONMENT, timeout=120).stdout == "1\n"

    run = controller.start("run", "--suite", "quick", "--sizes", "1K:900K:+1K", "--output-dir", "/tmp/runs", node=head)
    assert wait_until(lambda: bool(head.run(["sh", "-c", "cat /tmp/runs/*/samples.jsonl"]).stdout), 120)
    run.send_signal(signal.SIGINT)
    assert run.communicate(timeout=90) is not None
    assert run.returncode == 3
    assert head.run(guest, environment=FOREIGN_ENVIRONMENT, timeout=120).stdout == "2\n"

    foreign: set[int] = set()

    def is_foreign(process: Process) -> bool:
        """Its ray start and what is below: Ray's titles have overwritten the environment that would tell."""
        if f"--port={FOREIGN_PORT}" in process.command or process.parent_pid in foreign:
            foreign.add(process.pid)
        return process.pid in foreign

    ours = commands([head], but=is_foreign)["node1"]
    assert any("gcs_server" in command for command in ours)
    report = controller.cluster("down")
    assert {(row["running"], row["changed"], row["problem"]) for row in report["nodes"]} == {(False, True, "")}
    assert commands(controller.lab.nodes, but=is_foreign) == NOTHING
    assert not list(controller.state.glob("cluster.json")) + list(controller.state.glob("token"))
    assert head.run(["ls", "/var/lib/raybench"]).stdout.split() == ["lock", "ray.log", "s", "supervise.py"]
    assert head.run(guest, environment=FOREIGN_ENVIRONMENT, timeout=120).stdout == "3\n"
    assert controller.cluster("down", "-i", controller.inventory)["nodes"][0]["changed"] is False


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
    assert commands(controller.lab.nodes) == NOTHING


def test_last_a_dead_host_is_named_and_an_up_that_is_stopped_can_be_taken_down(controller: LabController) -> None:
    controller.lab.nodes[3].kill()
    report = controller.cluster("up", "-i", controller.inventory, status=3)
    rows = by_name(report)
    assert "Nothing was started: node4 cannot be part of the cluster" in rows["node1"]["problem"]
    assert rows["node4"]["unreachable"]
    assert "node4" in rows["node4"]["problem"]
    assert not any(found for found in commands(controller.lab.nodes).values())

    report = controller.cluster("up", "-i", controller.inventory, "--allow-missing")
    assert [row["alive"] for row in report["nodes"]] == [True, True, True, False]
    report = controller.cluster("down", status=3)
    assert [row["running"] for row in report["nodes"]] == [False, False, False, None]
    assert (controller.state / "cluster.json").exists()  # so that node4 is tried again

    process = controller.start("cluster", "up", "-i", controller.inventory, "--allow-missing")
    head = controller.lab.nodes[0]
    assert wait_until(lambda: any("gcs_server" in one.command for one in head.processes()), 200)
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=120)
    assert process.returncode == 3, out + errors
    assert "'raybench cluster down' ends it" in errors
    controller.cluster("down", status=3)
    assert not any(found for found in commands(controller.lab.nodes).values())
