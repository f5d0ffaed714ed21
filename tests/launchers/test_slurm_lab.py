"""Jobs of a real Slurm: three nodes of a lab with slurmd, one with slurmctld, Ray raised by the batch script."""

import importlib.util
import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab.slurm.cluster import SlurmCluster, slurm_available, slurm_lab
from tests.lab_run import nothing_left

pytestmark = [pytest.mark.lab, pytest.mark.cluster, pytest.mark.long]
LONG_RUN = ("run", "--suite", "collectives", "--sizes", "1K:4M:2", "--iters", "40", "--blocks", "5")


@pytest.fixture(scope="module")
def cluster() -> Iterator[SlurmCluster]:
    reason = slurm_available()
    if reason is not None:
        pytest.skip(reason)
    with slurm_lab(nodes=3) as built:
        yield built


@pytest.fixture(autouse=True)
def _no_job_left(cluster: SlurmCluster) -> Iterator[None]:
    yield
    cluster.run("scancel", "--user=root")  # of a test that failed: the next one needs the nodes


def launch(cluster: SlurmCluster, *options: str, words: tuple[str, ...]) -> "subprocess.Popen[str]":
    """``raybench launch slurm`` on the controller's machine, below a folder that all nodes see."""
    command = ["python", "-P", "-m", "raybench", "launch", "slurm", *options, "--", *words]
    return cluster.nodes[0].popen(command, folder=cluster.shared, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def wait_until(condition: Callable[[], Any], seconds: float = 120.0) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.1)
    return found


def result_in(folder: Path) -> dict[str, Any]:
    (path,) = folder.glob("slurm-*/*/result.json")
    result: dict[str, Any] = json.loads(path.read_text())
    return result


def is_slurm(process: Any) -> bool:
    return any(name in process.command for name in ("slurmctld", "slurmd", "slurmscriptd", "munged"))


def clean(cluster: SlurmCluster) -> bool:
    """No process and no folder of a job on any node."""
    if not nothing_left(cluster.lab, 30.0, but=is_slurm):
        return False
    left = {node.hostname: node.run(["sh", "-c", "ls -d /tmp/rb-* 2>/dev/null"]).stdout for node in cluster.nodes}
    assert set(left.values()) == {""}, left
    return True


def test_a_run_is_submitted_followed_and_brought_back(cluster: SlurmCluster) -> None:
    words = ("run", "--suite", "all_reduce", "--sizes", "1K", "--blocks", "2")
    folders = ("--shared-folder", str(cluster.shared / "jobs"), "--output-dir", "/tmp/here")
    options = ("--nodes", "3", "--time", "10", *folders)
    process = launch(cluster, *options, words=words)
    out, errors = process.communicate(timeout=240)
    assert process.returncode == 0, errors
    assert "is submitted" in errors
    assert "RUNNING on node[1-3]" in errors
    assert "VERDICT: OK" in out
    result = result_in(cluster.shared / "jobs")
    assert result["cluster"]["world_size"] == 3
    assert [node["address"] for node in result["cluster"]["nodes"]] == ["10.88.0.1", "10.88.0.2", "10.88.0.3"]
    assert result["scheduler"] == {"name": "slurm", "job_id": "1", "node_list": "node[1-3]", "partition": "lab"}
    ranks = [rank for node in result["cluster"]["nodes"] for rank in node["facts"]["ranks"].values()]
    assert [rank["niceness"] for rank in ranks] == ["0", "0", "0"]
    here = cluster.nodes[0].run(["sh", "-c", "ls /tmp/here/slurm-1/*/report.html"]).stdout
    assert here.count("report.html") == 1
    assert clean(cluster)


@pytest.mark.parametrize("how", ["ctrl-c", "scancel"])
def test_a_job_that_is_cancelled_half_way_keeps_what_it_measured(cluster: SlurmCluster, how: str) -> None:
    folder = cluster.shared / how
    process = launch(cluster, "--nodes", "3", "--output-dir", str(folder), words=LONG_RUN)
    wait_until(lambda: any(path.stat().st_size for path in folder.glob("slurm-*/*/samples.jsonl")))
    (job,) = [path.name.removeprefix("slurm-") for path in folder.glob("slurm-*") if path.is_dir()]
    begun = time.monotonic()
    if how == "ctrl-c":
        process.send_signal(signal.SIGINT)
    else:
        cluster.run("scancel", job)
    _, errors = process.communicate(timeout=120)
    assert time.monotonic() - begun < 60
    assert process.returncode == 3, errors
    result = result_in(folder)
    assert result["status"] == "partial"
    assert result["benchmarks"][0]["points"]
    assert clean(cluster)


def test_a_time_limit_ends_the_run_in_order(cluster: SlurmCluster) -> None:
    folder = cluster.shared / "limit"
    process = launch(cluster, "--nodes", "2", "--time", "2", "--output-dir", str(folder), words=LONG_RUN)
    _, errors = process.communicate(timeout=240)
    assert process.returncode == 3, errors
    assert result_in(folder)["status"] in ("partial", "failed")
    assert clean(cluster)


def test_a_node_that_cannot_hold_ray_is_named_and_nothing_is_left(cluster: SlurmCluster) -> None:
    installed = importlib.util.find_spec("ray")
    assert installed is not None
    (ray,) = installed.submodule_search_locations or ()
    cluster.nodes[1].run(["mount", "-t", "tmpfs", "none", ray], check=True)  # as where it is not installed
    try:
        process = launch(cluster, "--nodes", "2", "--output-dir", str(cluster.shared / "bad"), words=("run",))
        _, errors = process.communicate(timeout=120)
    finally:
        cluster.nodes[1].run(["umount", ray], check=True)
    assert process.returncode == 3
    assert "Ray did not come up on 1 of 2 nodes, and nothing was measured. node2: " in errors
    assert "ray" in errors.partition("node2: ")[2]
    assert clean(cluster)
