"""Trainings whose samples show what is wrong: memory that is kept, and GPUs that wait for data. Real ranks and agents.

The GPUs are a stand-in of NVML's; their ranks compute on processors, and are judged as if they had those GPUs.
"""

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import pytest

from raybench.documents.run.node_samples import FILE, NodeSamples
from raybench.documents.run.result import RunResult
from raybench.finding_rules.samples import GPU_WAITS, MEMORY_GROWS
from raybench.timeline.judging import with_samples
from tests.command import REPOSITORY, Command, started

pytestmark = [pytest.mark.cluster, pytest.mark.long]
_SITE = Path(__file__).parent / "site"
_TRAIN = ("train", "--address", "local", "--nodes", "1", "--gpus-per-node", "3", "--backend", "gloo", "--model", "mlp")


def trained(tmp_path: Path, actions: str, steps: int) -> dict[str, Any]:
    """The result of a training in which ranks do so from its first steps on, beside GPUs that are busy 55 %."""
    due = tmp_path / "due"
    environment = {
        "PYTHONPATH": os.pathsep.join([str(_SITE), str(REPOSITORY)]),
        "RAYBENCH_TEST_FAULT": str(due),
        "RAYBENCH_TEST_AGENT": "gpus55",
    }
    options = ("--steps", str(steps), "--overlap-steps", "0", "--output-dir", str(tmp_path / "runs"))
    with started(*_TRAIN, *options, environment=environment, output=str(tmp_path / "runs")) as command:
        command.wait_for(lambda: len(command.samples()) >= 1)
        (tmp_path / "draft").write_text(actions)
        (tmp_path / "draft").rename(due)
        assert command.finish(240) in (0, 1), command.errors[-3000:]
        return told(command)


def told(command: Command) -> dict[str, Any]:
    (folder,) = command.run_folders
    found = json.loads((folder / "result.json").read_text())
    found["judged as on GPUs"] = as_on_gpus(folder)
    return found


def as_on_gpus(folder: Path) -> list[str]:
    """Rules of what is found where the points say that they were computed on a GPU."""
    content = json.loads((folder / "result.json").read_text())
    for point in (point for benchmark in content["benchmarks"] for point in benchmark["points"]):
        point["facts"]["gpu"] = "NVIDIA H100 80GB HBM3"
    judged = with_samples(RunResult.of_json(content, "it"), NodeSamples.read(folder / FILE, "samples"))
    return [dataclasses.asdict(one)["rule"] for one in judged.findings]


def test_memory_that_grows_step_by_step_is_of_its_rank_and_what_settles_is_nobodys(tmp_path: Path) -> None:
    result = trained(tmp_path, "0 steady\n1 leak\n2 settle\n", steps=1400)
    (one,) = [one for one in result["findings"] if one["rule"] == MEMORY_GROWS.id]
    assert one["ranks"] == [1]
    assert "memory of rank 1 grows by" in one["summary"]
    assert GPU_WAITS.id not in result["judged as on GPUs"], "busy 55 %, but not for want of data"


def test_gpus_that_wait_for_data_are_told_with_both_figures(tmp_path: Path) -> None:
    result = trained(tmp_path, "0 data\n1 data\n2 data\n", steps=1000)
    assert [one["rule"] for one in result["findings"] if one["rule"] == MEMORY_GROWS.id] == []
    assert GPU_WAITS.id in result["judged as on GPUs"]
