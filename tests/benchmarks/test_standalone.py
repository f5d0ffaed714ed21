"""The plan under torchrun: the same code as under Ray, without Ray."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from raybench.benchmarks.events import (
    BenchmarkFinished,
    BenchmarkStarted,
    Event,
    PointMeasured,
    RankFailed,
)
from raybench.benchmarks.machine_use import MachineSeconds
from raybench.benchmarks.spec import BenchmarkSpec, RankSamples
from raybench.benchmarks.standalone import SCHEMA, result_of

PLAN = (BenchmarkSpec(name="all_reduce", kind="collective", sizes=(1024,)),)


def run(*options: str, ranks: int = 2) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    command += ["-m", "raybench.benchmarks.standalone", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_runs_a_plan_and_gathers_every_rank(tmp_path: Path) -> None:
    output = tmp_path / "points.json"
    done = run("--suite=all_reduce,p2p_matrix", "--sizes=1K,64K", "--iters=2", "--blocks=3", f"--output={output}")
    assert done.returncode == 0, done.stderr
    result = json.loads(output.read_text())
    assert (result["schema"], result["status"], result["world_size"]) == (SCHEMA, "complete", 2)
    assert sorted(result["ranks"]) == ["0", "1"]
    reduce, matrix = result["benchmarks"]
    assert [point["message_bytes"] for point in reduce["points"]] == [1024, 65536]
    assert all(point["verified"] and point["wrong_elements"] == 0 for point in reduce["points"])
    (launch,) = reduce["launches"][0]
    assert [len(block) for block in launch] == [2, 2, 2]
    pairs = {(point["source_rank"], point["destination_rank"]) for point in matrix["points"]}
    assert pairs == {(0, 1), (1, 0)}


@pytest.mark.long  # every day in ranks that no torchrun starts: tests/benchmarks/messages/test_gloo_ranks.py
def test_what_the_backend_lacks_is_skipped(tmp_path: Path) -> None:
    output = tmp_path / "points.json"
    done = run("--suite=all_reduce,p2p_matrix", "--op=avg", "--sizes=1K", f"--output={output}", ranks=1)
    assert done.returncode == 0, done.stderr
    results = json.loads(output.read_text())["benchmarks"]
    assert results[1]["status"] == "skipped"
    assert "two ranks" in results[1]["reason"]


def test_an_unknown_benchmark_is_wrong_use(tmp_path: Path) -> None:
    place = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1"}  # as torchrun gives it
    place |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    command = [sys.executable, "-m", "raybench.benchmarks.standalone", "--suite=nonsense"]
    command += [f"--output={tmp_path / 'points.json'}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=os.environ | place)
    assert done.returncode == 2
    assert "there is no suite or benchmark 'nonsense'" in done.stderr


def test_outside_torchrun_it_says_how_to_start_it(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
    command = [sys.executable, "-m", "raybench.benchmarks.standalone", f"--output={tmp_path / 'points.json'}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)
    assert done.returncode == 2
    assert "start this with torchrun" in done.stderr


def samples(contributors: int = 2, wrong: int = 0) -> RankSamples:
    return RankSamples(
        message_bytes=1024,
        element_count=256,
        bus_factor=1.0,
        stamps=((0.1, 0.2),),
        wrong_elements=wrong,
        verified=True,
        contributors=contributors,
    )


def events(rank: int, wrong: int = 0) -> list[Event]:
    return [
        BenchmarkStarted(rank=rank, benchmark=0),
        PointMeasured(rank=rank, benchmark=0, samples=samples(wrong=wrong)),
        BenchmarkFinished(rank=rank, benchmark=0),
    ]


def test_wrong_elements_fail_the_result() -> None:
    result = result_of([*events(0), *events(1, wrong=3)], PLAN)
    assert result["status"] == "failed"
    assert result["benchmarks"][0]["points"][0]["wrong_elements"] == 3


def test_what_the_machine_did_meanwhile_is_kept() -> None:
    machine = MachineSeconds(seconds=2.0, processors=2, busy=3.8, stolen=0.2)
    said = [*events(0)[:2], BenchmarkFinished(rank=0, benchmark=0, machine=machine), *events(1)]
    (kept,) = result_of(said, PLAN)["benchmarks"][0]["machine_use"]
    assert (kept["rank"], kept["stolen_seconds"], kept["waiting_seconds"]) == (0, 0.2, None)


def test_a_point_that_a_rank_did_not_measure_is_no_point() -> None:
    failed = RankFailed(rank=1, benchmark=0, error="RuntimeError: gone", traceback="")
    result = result_of([*events(0), failed], PLAN)
    assert result["status"] == "failed"
    assert result["errors"] == {"1": "RuntimeError: gone"}
    assert result["benchmarks"][0]["points"] == []


@pytest.mark.parametrize("rank", [0, 1])
def test_order_of_ranks_does_not_matter(rank: int) -> None:
    assert result_of([*events(rank), *events(1 - rank)], PLAN) == result_of([*events(0), *events(1)], PLAN)
