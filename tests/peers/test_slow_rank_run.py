"""A real rank that is stopped for part of the time, and the run that names it."""

import contextlib
import os
import re
import signal
import time

import pytest

from tests.command import Command, started

pytestmark = pytest.mark.alone
PERIOD_SECONDS, SHARE = 0.1, 0.5


def slow_down(command: Command, rank: int) -> None:
    """Let a rank run for half of every 100 ms, until the run ends."""
    pid = command.wait_for(lambda: command.rank(rank), 60)
    with contextlib.suppress(ProcessLookupError):
        while command.process.poll() is None:
            os.kill(pid, signal.SIGSTOP)
            time.sleep(PERIOD_SECONDS * (1 - SHARE))
            os.kill(pid, signal.SIGCONT)
            time.sleep(PERIOD_SECONDS * SHARE)


def test_a_rank_at_half_its_speed_ends_the_run_with_1_and_its_name() -> None:
    arguments = ("run", "--nodes", "2", "--address", "local", "--suite", "all_reduce", "--sizes", "64K:1M:4", "-q")
    with started(*arguments, drawn=False) as command:
        slow_down(command, 1)
        assert command.finish() == 1, command.errors
        # while the run went on; it is slowed by signals that stop it, which a look may find as well
        assert re.search(r"WARNING: rank 1 \(node-2\) (works at 0\.|stands still again and again)", command.errors)
        result = command.result()
        (finding,) = [one for one in result["findings"] if one["rule"] == "slow-rank"]
        assert (finding["ranks"], finding["hosts"], finding["severity"]) == ([1], ["node-2"], "critical")
        assert (result["status"], result["verdict"]) == ("complete", "critical")
        assert command.out.splitlines()[-1].startswith("# VERDICT: CRITICAL: rank 1 (node-2) works at 0.")
