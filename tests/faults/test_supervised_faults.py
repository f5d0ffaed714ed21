"""What holds or ends the driver, or what it starts, before and while it measures: the right part named, in time."""

import os
import signal
import time
from typing import Any

import pytest

from tests.command import Command, started
from tests.faults.targets import processes_of

pytestmark = [pytest.mark.cluster, pytest.mark.timed]
TIMEOUT = 15.0
SWEEP = ["run", "--address", "local", "--nodes", "2", "--suite", "quick", "--sizes", "1K:999K:+1K", "--iters", "200"]


def broken(command: Command, since: float) -> dict[str, Any]:
    """The first finding of a run that ended in time after its fault, and left nothing."""
    assert command.finish(120) == 3, command.errors[-3000:]
    seconds = time.monotonic() - since
    print(f"{seconds:.1f} s from fault to exit")
    assert seconds < TIMEOUT + 15
    assert command.left_over() == {}
    assert command.left_files() == []
    assert "Traceback" not in command.errors + command.out
    finding: dict[str, Any] = command.result()["findings"][0]
    return finding


@pytest.mark.parametrize(
    ("target", "number", "expected"),
    [
        ("raylet 1", signal.SIGSTOP, ("node-lost", ["node-1"], "raylet")),  # Ray holds the driver's lock meanwhile
        pytest.param("rank_host", signal.SIGKILL, ("rank-host-lost", [], "rank host"), marks=pytest.mark.long),
    ],
)
def test_while_the_cluster_starts(target: str, number: signal.Signals, expected: tuple[str, list[str], str]) -> None:
    with started(*SWEEP, "--timeout", str(TIMEOUT), drawn=False) as command:
        pid = command.wait_for(lambda: processes_of(command).gcs and processes_of(command).pid_of(target))
        begun = time.monotonic()
        os.kill(pid, number)
        finding = broken(command, begun)
        assert (finding["rule"], finding["hosts"], finding["component"]) == expected
        assert str(pid) in finding["summary"]


def test_a_driver_that_is_killed_while_it_measures_loses_no_point() -> None:
    with started(*SWEEP, "--timeout", "120", drawn=False) as command:
        command.wait_for(lambda: len(command.samples()) >= 2)
        driver = processes_of(command).driver
        assert driver is not None
        begun = time.monotonic()
        os.kill(driver, signal.SIGKILL)
        finding = broken(command, begun)
        assert (finding["rule"], finding["hosts"], finding["component"]) == ("driver-lost", [], "driver")
        assert "SIGKILL" in finding["summary"]
        measured = {one["message_bytes"] for one in command.samples()}
        assert {one["message_bytes"] for one in command.result()["benchmarks"][0]["points"]} >= measured
