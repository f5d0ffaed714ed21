"""A Ray cluster over lab hosts whose parts fall out: brought back, beside somebody else's Ray, without a dead host."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.lab.node import Node
from tests.lab.process import Process
from tests.playbooks.lab_cluster import LabController, by_name, commands, supervisor, three_hosts, wait_until

pytestmark = [pytest.mark.lab, pytest.mark.cluster, pytest.mark.timeout(900)]
NOTHING: dict[str, list[str]] = {"node1": [], "node2": [], "node3": []}
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
    with three_hosts() as controller:
        yield controller


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


def test_last_a_dead_host_is_named_and_an_up_that_is_stopped_can_be_taken_down(controller: LabController) -> None:
    controller.lab.nodes[2].kill()
    report = controller.cluster("up", "-i", controller.inventory, status=3)
    rows = by_name(report)
    assert "Nothing was started: node3 cannot be part of the cluster" in rows["node1"]["problem"]
    assert rows["node3"]["unreachable"]
    assert "node3" in rows["node3"]["problem"]
    assert not any(found for found in commands(controller.lab.nodes).values())

    report = controller.cluster("up", "-i", controller.inventory, "--allow-missing")
    assert [row["alive"] for row in report["nodes"]] == [True, True, False]
    report = controller.cluster("down", status=3)
    assert [row["running"] for row in report["nodes"]] == [False, False, None]
    assert (controller.state / "cluster.json").exists()  # so that node3 is tried again

    process = controller.start("cluster", "up", "-i", controller.inventory, "--allow-missing")
    head = controller.lab.nodes[0]
    assert wait_until(lambda: any("gcs_server" in one.command for one in head.processes()), 200)
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=120)
    assert process.returncode == 3, out + errors
    assert "'raybench cluster down' ends it" in errors
    controller.cluster("down", status=3)
    assert not any(found for found in commands(controller.lab.nodes).values())
