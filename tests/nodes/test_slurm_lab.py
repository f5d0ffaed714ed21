"""A real Slurm of three nodes: a bad one is drained by the verdict of a real preflight, and only that one."""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from raybench.nodes.mark import is_marked
from tests.conftest import REPOSITORY
from tests.lab.node import Node
from tests.lab.slurm.cluster import SlurmCluster, slurm_available, slurm_lab
from tests.playbooks.preflight_lab import lab_inventory, write_inventory

pytestmark = [pytest.mark.lab, pytest.mark.cluster, pytest.mark.long]
_SKIP = ("--skip", "host-log,software")  # nodes of a lab share the kernel's log with whatever else runs on the machine
# That of docs/nodes.md, with this checkout for what is installed.
_PROLOG = """#!/bin/sh
said=$(PYTHONPATH={folder} timeout 30 {python} -P -m raybench nodes check --prolog --skip software,host-log 2>&1)
echo "$said" >>/tmp/prolog.out
case "$said" in "ERROR: raybench: drain"*) exit 1 ;; esac
exit 0
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[SlurmCluster]:
    reason = slurm_available()
    if reason is not None:
        pytest.skip(reason)
    with slurm_lab(nodes=3) as built:
        yield built


@pytest.fixture(autouse=True)
def _all_idle(cluster: SlurmCluster) -> Iterator[None]:
    yield
    for node in cluster.nodes:
        node.run(["sh", "-c", "umount /dev/shm 2>/dev/null; true"])
        if cluster.node_state(node.hostname).startswith("drain"):
            cluster.run("scontrol", "update", f"NodeName={node.hostname}", "State=RESUME")


def break_node(node: Node) -> None:
    """No room in /dev/shm: NCCL fails at the first collective."""
    node.run(["mount", "-t", "tmpfs", "-o", "size=1M", "none", "/dev/shm"], check=True)


def mend_node(node: Node) -> None:
    node.run(["umount", "/dev/shm"], check=True)


def reason(cluster: SlurmCluster, node: str) -> str:
    return cluster.run("sinfo", "-h", "-N", "-n", node, "-o", "%E").stdout.strip()


def preflight(cluster: SlurmCluster, name: str) -> Path:
    """A real preflight over ssh, and its folder, which the controller sees."""
    lab, folder = cluster.lab, cluster.shared / name
    hosts = write_inventory(lab.folder.path / "hosts.yml", lab_inventory(lab))
    words: list[str | Path] = [
        "python",
        "-P",
        "-m",
        "raybench",
        "preflight",
        "-i",
        hosts,
        *_SKIP,
        "--output-dir",
        folder,
    ]
    environment = {"ANSIBLE_SSH_ARGS": "-o ControlMaster=no", "TMPDIR": str(cluster.shared)}
    done = lab.control.run(words, folder=REPOSITORY, timeout=200, environment=environment)
    assert done.returncode in {0, 1}, done.stderr
    (made,) = folder.glob("preflight-*")
    return made


def nodes(cluster: SlurmCluster, *words: str | Path) -> CompletedProcess[str]:
    return cluster.nodes[0].run(["python", "-P", "-m", "raybench", "nodes", *words], folder=REPOSITORY, timeout=120)


def test_a_bad_node_is_drained_and_resumed_and_nobody_elses_is_touched(cluster: SlurmCluster) -> None:
    cluster.run("scontrol", "update", "NodeName=node3", "State=DRAIN", "Reason=raybench: new board, wait")
    break_node(cluster.nodes[1])
    bad = preflight(cluster, "bad")
    dry = nodes(cluster, "slurm", bad)
    assert dry.returncode == 1, dry.stderr
    assert "scontrol update NodeName=node2 State=DRAIN" in dry.stdout
    assert [cluster.node_state(f"node{number}") for number in (1, 2, 3)] == ["idle", "idle", "drained"]
    done = nodes(cluster, "slurm", bad, "--apply", "--json")
    assert done.returncode == 1, done.stderr
    actions = {one["node"]: one for one in json.loads(done.stdout)["actions"]}
    assert {name: (one["step"], one["done"]) for name, one in actions.items()} == {
        "node1": ("none", None), "node2": ("drain", True), "node3": ("none", None)
    }  # fmt: skip
    assert [cluster.node_state(f"node{number}") for number in (1, 2, 3)] == ["idle", "drained", "drained"]
    assert is_marked("node2", reason(cluster, "node2"))
    assert "host-shm" in reason(cluster, "node2")
    again = nodes(cluster, "slurm", bad, "--apply")
    assert "raybench drained it already" in again.stdout

    mend_node(cluster.nodes[1])
    good = preflight(cluster, "good")
    done = nodes(cluster, "slurm", good, "--apply")
    assert done.returncode == 0, (done.stdout, done.stderr)
    states = [cluster.node_state(f"node{number}") for number in (1, 2, 3)]
    assert [state.rstrip("*") for state in states] == ["idle", "idle", "drained"]
    assert reason(cluster, "node3") == "raybench: new board, wait"


def test_a_reason_that_an_administrator_changed_keeps_the_node_drained(cluster: SlurmCluster) -> None:
    break_node(cluster.nodes[1])
    bad = preflight(cluster, "bad2")
    assert nodes(cluster, "slurm", bad, "--apply").returncode == 1
    changed = f"{reason(cluster, 'node2')} ask the vendor"
    cluster.run("scontrol", "update", "NodeName=node2", f"Reason={changed}")
    mend_node(cluster.nodes[1])
    done = nodes(cluster, "slurm", preflight(cluster, "good2"), "--apply")
    assert "left so" in done.stdout
    assert cluster.node_state("node2") == "drained"


def test_too_many_are_not_drained_and_an_old_report_is_not_applied(cluster: SlurmCluster) -> None:
    for node in cluster.nodes[1:]:
        break_node(node)
    bad = preflight(cluster, "bad3")
    done = nodes(cluster, "slurm", bad, "--apply")
    assert (done.returncode, "2 nodes would be drained, of 3" in done.stderr) == (3, True)
    old = nodes(cluster, "slurm", bad, "--apply", "--max-age", "0.0001")
    assert (old.returncode, "min old" in old.stderr) == (2, True)
    assert {cluster.node_state(node.hostname).rstrip("*") for node in cluster.nodes} == {"idle"}


def test_a_node_drains_and_resumes_itself_as_a_health_check(cluster: SlurmCluster) -> None:
    node = cluster.nodes[1]
    words = ["python", "-P", "-m", "raybench", "nodes", "check", "--slurm", "--apply", *_SKIP]
    break_node(node)
    begun = time.monotonic()
    done = node.run(words, folder=REPOSITORY, timeout=60)
    assert time.monotonic() - begun < 10
    assert (done.returncode, done.stdout.startswith("ERROR: raybench: drain: host-shm")) == (1, True), done.stderr
    assert cluster.node_state("node2") == "drained"
    mend_node(node)
    done = node.run(words, folder=REPOSITORY, timeout=60)
    assert (done.returncode, done.stdout.startswith("OK: raybench: healthy")) == (0, True), done.stderr
    assert cluster.node_state("node2").rstrip("*") == "idle"


def test_a_prolog_keeps_a_job_from_a_bad_node(cluster: SlurmCluster) -> None:
    script = cluster.shared / "prolog"
    script.write_text(_PROLOG.format(folder=REPOSITORY, python=sys.executable))
    script.chmod(0o755)
    for node in cluster.nodes:
        node.run(["sh", "-c", f"echo Prolog={script} >>/etc/slurm/slurm.conf"], check=True)
    cluster.run("scontrol", "reconfigure")
    wait_idle(cluster)
    good = cluster.submit("--nodelist=node1", "--wrap=true")
    cluster.wait_for_job(good, ["COMPLETED"], seconds=60.0)
    assert "OK: raybench: healthy" in cluster.nodes[0].run(["cat", "/tmp/prolog.out"]).stdout
    break_node(cluster.nodes[1])
    bad = cluster.submit("--nodelist=node2", f"--wrap=touch {cluster.shared}/ran")
    deadline = time.monotonic() + 60
    while not cluster.node_state("node2").startswith("drain"):
        assert time.monotonic() < deadline, cluster.nodes[1].run(["cat", "/tmp/prolog.out"]).stdout
        time.sleep(0.2)
    assert reason(cluster, "node2") == "Prolog error"
    assert "ERROR: raybench: drain: host-shm" in cluster.nodes[1].run(["cat", "/tmp/prolog.out"]).stdout
    assert not (cluster.shared / "ran").exists()
    cluster.run("scancel", bad)


def wait_idle(cluster: SlurmCluster, seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while {cluster.node_state(node.hostname) for node in cluster.nodes} != {"idle"}:
        assert time.monotonic() < deadline
        time.sleep(0.2)
