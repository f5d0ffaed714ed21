"""Runs under real launchers: torchrun of this torch, mpirun of the distribution's Open MPI; gloo ranks, and no Ray."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.processes.ports import free_port
from tests.processes.waiting import words_of

pytestmark = pytest.mark.cluster
SHORT = ("run", "--suite", "all_reduce", "--sizes", "1K,4K", "--blocks", "2", "--no-agent")
LONG = ("run", "--suite", "all_reduce", "--sizes", "1K:4M:2", "--iters", "200", "--blocks", "20", "--no-agent")
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2", sys.executable, "-P", "-m", "raybench"]
without_mpirun = pytest.mark.skipif(shutil.which("mpirun") is None, reason="apt-get install openmpi-bin")


def launch(folder: Path, *words: str, command: list[str] | None = None) -> "subprocess.Popen[str]":
    """``raybench launch torchrun`` with two ranks, or what is typed by hand. What it starts carries a mark."""
    typed = command or [sys.executable, "-P", "-m", "raybench", "launch", "torchrun", "--gpus-per-node", "2"]
    return subprocess.Popen(
        [*typed, "--", *words, "--output-dir", str(folder)],
        env={**os.environ, "RAYBENCH_TEST_MARK": str(folder), "MASTER_PORT": str(free_port())},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.fixture(autouse=True)
def _nothing_left(tmp_path: Path) -> Iterator[None]:
    yield
    deadline = time.monotonic() + 30
    while (left := marked(tmp_path)) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not left


def marked(folder: Path) -> list[psutil.Process]:
    """Processes that a launch with this folder started and that still run."""
    found = []
    for process in psutil.process_iter():
        try:
            is_ours = process.environ().get("RAYBENCH_TEST_MARK") == str(folder)
            if is_ours and process.pid != os.getpid() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


def result_in(folder: Path) -> dict[str, Any]:
    (path,) = folder.glob("*/result.json")
    result: dict[str, Any] = json.loads(path.read_text())
    return result


def measuring(folder: Path) -> bool:
    """Whether a point has been kept."""
    return any(path.stat().st_size for path in folder.glob("*/samples.jsonl"))


def wait_until(condition: Callable[[], Any], seconds: float = 120.0) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.05)
    return found


def rank_tasks(folder: Path) -> list[psutil.Process]:
    """The processes that the launcher started, by rank."""
    found = [one for one in marked(folder) if {"rank", "launch"} <= set(words_of(one.pid))]
    ranks = [one for one in found if {"RANK", "OMPI_COMM_WORLD_RANK"} & set(one.environ())]
    return sorted(ranks, key=lambda one: one.environ().get("RANK") or one.environ()["OMPI_COMM_WORLD_RANK"])


def test_torchrun_gives_the_documents_and_the_report_of_a_run(tmp_path: Path) -> None:
    process = launch(tmp_path, *SHORT)
    out, errors = process.communicate(timeout=180)
    assert process.returncode == 0, errors
    assert "1 node, 2 ranks, gloo; ranks of torchrun" in errors
    assert "VERDICT: OK" in out
    result = result_in(tmp_path)
    assert (result["status"], result["cluster"]["world_size"], result["cluster"]["emulated"]) == ("complete", 2, False)
    assert [point["wrong_elements"] for point in result["benchmarks"][0]["points"]] == [0, 0]
    (folder,) = tmp_path.glob("*/")
    assert {"report.html", "result.csv", "samples.jsonl", "logs"} <= {path.name for path in folder.iterdir()}
    assert (folder / "logs" / "output-rank-1.log").is_file()


@pytest.mark.long
@without_mpirun
def test_ranks_of_mpirun_are_the_same_run(tmp_path: Path) -> None:
    process = launch(tmp_path, *SHORT, command=[*MPIRUN, "launch", "rank"])
    _, errors = process.communicate(timeout=180)
    assert process.returncode == 0, errors
    assert "ranks of mpirun (Open MPI)" in errors
    assert result_in(tmp_path)["status"] == "complete"


@pytest.mark.long
@pytest.mark.parametrize("rank", [0, 1])
def test_a_process_of_the_launcher_that_is_killed_costs_what_comes_after(tmp_path: Path, rank: int) -> None:
    process = launch(tmp_path, *LONG)
    wait_until(lambda: measuring(tmp_path))
    rank_tasks(tmp_path)[rank].kill()
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 3, errors
    wait_until(lambda: list(tmp_path.glob("*/report.html")))
    result = result_in(tmp_path)
    assert result["status"] == "partial"
    assert f"rank {rank} on" in result["findings"][0]["summary"]
    assert result["benchmarks"][0]["points"]


@pytest.mark.long
@without_mpirun
def test_a_rank_that_is_killed_under_mpirun_is_named(tmp_path: Path) -> None:
    process = launch(tmp_path, *LONG, command=[*MPIRUN, "launch", "rank"])
    wait_until(lambda: measuring(tmp_path))
    ranks = [one for one in marked(tmp_path) if one.environ().get("RANK") == "1"]
    deepest = [one for task in rank_tasks(tmp_path)[1:] for one in task.children(recursive=True)]
    (ranks or deepest)[-1].kill()
    process.communicate(timeout=120)
    assert process.returncode == 3
    wait_until(lambda: list(tmp_path.glob("*/report.html")))
    result = result_in(tmp_path)
    assert result["status"] == "partial"
    assert "rank 1 on" in result["findings"][0]["summary"]


@pytest.mark.long
def test_a_signal_ends_the_run_in_order_and_keeps_what_it_measured(tmp_path: Path) -> None:
    process = launch(tmp_path, *LONG)
    wait_until(lambda: measuring(tmp_path))
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=120)
    assert process.returncode == 3
    wait_until(lambda: list(tmp_path.glob("*/report.html")))
    assert result_in(tmp_path)["status"] == "partial"


@pytest.mark.long
def test_invalid_usage_is_exit_code_2_and_leaves_no_folder(tmp_path: Path) -> None:
    process = launch(tmp_path, *SHORT, "--gpus-per-node", "4")
    _, errors = process.communicate(timeout=180)
    assert process.returncode == 2, errors
    assert "--gpus-per-node 4 after -- is not what torchrun started: 1 nodes with 2 ranks each" in errors
    assert not list(tmp_path.glob("*/result.json"))
