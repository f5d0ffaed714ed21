"""What breaks an embedded run: each time the right name, what was measured kept, exit 3 in time, and nothing left."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.command import Command, started

pytestmark = pytest.mark.cluster
TIMEOUT = 12.0
GRACE = 15.0
SWEEP = ["run", "--address", "local", "--nodes", "2", "--suite", "all_reduce", "--timeout", str(TIMEOUT)]
LONG = [*SWEEP, "--sizes", "1K:999K:+1K", "--iters", "200"]  # some minutes


@contextmanager
def measuring(*extra: str, points: int = 3) -> Iterator[Command]:
    """A run that has some points behind it and minutes to go."""
    with started(*(extra or LONG)) as command:
        command.wait_for(lambda: len(command.samples()) >= points)
        yield command


def assert_kept_and_gone(command: Command, *, kept: int = 3, seconds: float, limit: float = TIMEOUT + GRACE) -> None:
    print(f"{seconds:.1f} s from fault to exit")
    assert seconds < limit
    assert command.left_over() == {}
    result = command.result()
    (benchmark,) = result["benchmarks"]
    assert (result["status"], benchmark["status"]) == ("partial", "partial")
    assert len(benchmark["points"]) >= kept
    assert {one["message_bytes"] for one in benchmark["points"]} == {one["message_bytes"] for one in command.samples()}
    assert benchmark["reason"]
    assert "Traceback" not in command.errors + command.out


def end(command: Command, since: float) -> float:
    assert command.finish(90) == 3, command.errors[-3000:]
    return time.monotonic() - since


def test_a_killed_rank_is_named() -> None:
    with measuring() as command:
        pid = command.rank(1)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        seconds = end(command, time.monotonic())
        assert_kept_and_gone(command, seconds=seconds)
        finding = command.result()["findings"][0]
        assert (finding["rule"], finding["ranks"], finding["hosts"]) == ("rank-died", [1], ["node-2"])
        assert "SIGKILL" in finding["summary"]
        assert "all_reduce float32" in finding["step"]
        assert "rank 1 on node node-2" in command.out
        assert command.left_files() == []


def test_a_stopped_rank_is_named_with_its_step() -> None:
    with measuring() as command:
        pid = command.rank(0)
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        seconds = end(command, time.monotonic())
        assert_kept_and_gone(command, seconds=seconds)
        finding = command.result()["findings"][0]
        assert (finding["rule"], finding["ranks"], finding["hosts"]) == ("rank-stopped", [0], ["node-1"])
        assert "all_reduce float32" in finding["step"]
        assert "iteration" in finding["step"]
        assert "rank 0 on node node-1" in command.out
        assert command.left_files() == []
