"""What ends a training early: its timed steps are kept, said to be a part, and enter no comparison."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from raybench.documents.diagnosis import Diagnosis
from raybench.documents.run.result import RunResult
from raybench.documents.study.plan import Trial
from raybench.studies.trial import trial_result
from tests.command import Command, started

pytestmark = pytest.mark.cluster
ASKED = 100_000
TINY = ["--sequence-length", "8", "--batch-size", "1", "--warmup-steps", "1", "--steps", str(ASKED)]


@contextmanager
def training(*options: str) -> Iterator[Command]:
    """A training that has told some steps of each rank, and has hours to go."""
    with started("train", "--address", "local", "--nodes", "2", *TINY, *options, drawn=False) as command:
        command.wait_for(lambda: {rank for line in command.samples() for rank in line["ranks"]} == {"0", "1"})
        yield command


def kept(command: Command, rule: str) -> dict[str, Any]:
    """The point of a run that ended well after its fault."""
    assert command.finish(60) == 3, command.errors[-3000:]
    assert command.left_over() == {}
    assert [name for name in command.left_files() if not name.startswith("torchinductor")] == []  # torch's own cache
    assert "Traceback" not in command.errors + command.out
    result = command.result()
    (benchmark,) = result["benchmarks"]
    assert (result["status"], benchmark["status"]) == ("partial", "partial")
    assert result["findings"][0]["rule"] == rule
    (point,) = benchmark["points"]
    assert_partial(point, command.samples())
    assert "ddp tiny (partial)" in command.out
    assert f"{point['steps']} of {ASKED} timed steps" in " ".join(command.out.split())
    trial = Trial(block=0, variant="a", number=0)
    outcome = trial_result(trial, RunResult.of_json(result, "the result"), Diagnosis(), "run")
    assert (outcome.status, outcome.measured) == ("partial", ())
    return point


def assert_partial(point: dict[str, Any], journal: list[dict[str, Any]]) -> None:
    told = [sum(len(line["ranks"][rank]["losses"]) for line in journal if rank in line["ranks"]) for rank in "01"]
    assert 0 < min(told) <= point["steps"] < point["steps_asked"] == ASKED
    assert len(point["samples_seconds"]) == len(point["loss"]["steps"]) == point["steps"]
    assert sum(point["samples_seconds"]) == pytest.approx(point["rank_seconds"][0] * point["steps"], rel=0.05)
    assert (point["complete"], point["verified"], point["overhead"]) == (False, None, None)
    assert point["reference"]["reason"] == "the run ended before the check"
    assert "not measured" in point["communication"]["remarks"][0]


@pytest.mark.timed
def test_ctrl_c_keeps_the_steps() -> None:
    with training() as command:
        begun = time.monotonic()
        command.process.send_signal(signal.SIGINT)
        kept(command, "interrupted")
        seconds = time.monotonic() - begun
        print(f"{seconds:.1f} s from Ctrl-C to the end of all checks")
        assert seconds < 15


@pytest.mark.long  # every day Ctrl-C keeps them, and a killed rank is named: test_embedded_faults.py
def test_a_killed_rank_leaves_the_steps_that_all_ranks_did() -> None:
    with training() as command:
        pid = command.rank(1)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        kept(command, "rank-died")


@pytest.mark.long  # in CI a real Ctrl-C ends one the same way
def test_a_time_limit_keeps_the_steps() -> None:
    with training("--timeout", "5") as command:
        kept(command, "time-limit")
        assert "raise --timeout or ask for fewer --steps" in " ".join(command.out.replace("#", " ").split())
