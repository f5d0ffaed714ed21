"""Looks at a real process: stopped by a signal, going on, ended."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from raybench.execution.ranks.stopped_looks import (
    LOOKS_PER_SECOND,
    MOST_LOOKS_PER_SECOND,
    StoppedLooks,
    seconds_to_next_look,
)


@pytest.fixture
def sleeper() -> Iterator["subprocess.Popen[bytes]"]:
    child = subprocess.Popen(["sleep", "60"])
    yield child
    child.kill()
    child.wait()


def send(child: "subprocess.Popen[bytes]", number: int, states: str) -> None:
    os.kill(child.pid, number)
    deadline = time.monotonic() + 60
    while Path(f"/proc/{child.pid}/stat").read_text().rpartition(") ")[2][0] not in states:
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_a_process_that_is_stopped_twice_has_stopped_twice_however_long(sleeper: "subprocess.Popen[bytes]") -> None:
    looks = StoppedLooks(sleeper.pid)
    looks.look()
    for _ in range(2):
        send(sleeper, signal.SIGSTOP, "T")
        looks.look()
        looks.look()
        send(sleeper, signal.SIGCONT, "SR")
        looks.look()
    assert (looks.looks, looks.stopped, looks.stops) == (7, 4, 2)
    sleeper.kill()
    sleeper.wait()
    looks.look()
    assert looks.looks == 7
    looks.close()


def test_a_process_that_is_gone_is_not_looked_at() -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    looks = StoppedLooks(child.pid)
    looks.look()
    assert (looks.looks, looks.stops) == (0, 0)
    looks.close()


def test_many_ranks_are_looked_at_less_often_and_never_at_even_times() -> None:
    for ranks, mean in ((1, 1 / LOOKS_PER_SECOND), (80, 80 / MOST_LOOKS_PER_SECOND)):
        waits = [seconds_to_next_look(ranks) for _ in range(300)]
        assert sum(waits) / len(waits) == pytest.approx(mean, rel=0.1)
        assert max(waits) > 1.2 * min(waits)
