"""What breaks an embedded run: each time the right name, what was measured kept, exit 3 in time, and nothing left."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.command import REPOSITORY, Command, started
from tests.faults.targets import processes_of

pytestmark = [pytest.mark.cluster, pytest.mark.timed]
_SITE = Path(__file__).parent / "site"
TIMEOUT = 12.0  # two points are measured within it; the seconds that count begin where it is over
GRACE = 15.0
SWEEP = ["run", "--address", "local", "--nodes", "2", "--suite", "quick", "--sizes", "1K:999K:+1K", "--iters", "200"]


@contextmanager
def measuring(
    timeout: float = 120.0, *, output: str | None = None, drawn: bool = False, idle: Path | None = None
) -> Iterator[Command]:
    """A run that has two points behind it and minutes to go.

    ``idle``: a file that is not there. From now on its ranks sleep for most of the time: for what takes seconds to be
    noticed, they would compute all the while.
    """
    path = os.pathsep.join([str(_SITE), str(REPOSITORY)])
    sleepy = {} if idle is None else {"PYTHONPATH": path, "RAYBENCH_TEST_FAULT": str(idle)}
    with started(*SWEEP, "--timeout", str(timeout), output=output, drawn=drawn, environment=sleepy) as command:
        command.wait_for(lambda: len(command.samples()) >= 2)
        if idle is not None:
            idle.with_name("draft").write_text("0 idle\n1 idle\n")
            idle.with_name("draft").rename(idle)
        yield command


def broken(command: Command, since: float, *, limit: float, kept: int = 2) -> dict[str, Any]:
    """The finding of a run that ended well after its fault."""
    assert command.finish(90) == 3, command.errors[-3000:]
    seconds = time.monotonic() - since
    print(f"{seconds:.1f} s from fault to exit")
    assert seconds < limit
    assert command.left_over() == {}
    assert command.left_files() == []
    result = command.result()
    (benchmark,) = result["benchmarks"]
    assert (result["status"], benchmark["status"]) == ("partial", "partial")
    measured = {one["message_bytes"] for one in command.samples()}
    assert {one["message_bytes"] for one in benchmark["points"]} == measured
    assert len(measured) >= kept
    finding: dict[str, Any] = result["findings"][0]
    assert benchmark["reason"] == finding["summary"]
    assert " ".join(finding["summary"].split())[:60] in " ".join(command.out.replace("#", " ").split())
    assert finding["step"].startswith("all_reduce float32 ")
    assert "Traceback" not in command.errors + command.out
    assert not list(command.run_folders[0].glob(".*"))
    return finding


def one_of(command: Command, words: str) -> int:
    """The youngest process of that kind."""
    return command.matching(words)[-1]


def test_a_killed_rank() -> None:
    with measuring() as command:
        pid = command.rank(1)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        finding = broken(command, time.monotonic(), limit=GRACE)
        assert (finding["rule"], finding["ranks"], finding["hosts"]) == ("rank-died", [1], ["node-2"])
        assert "SIGKILL" in finding["summary"]


def test_a_stopped_rank() -> None:
    with measuring(timeout=TIMEOUT) as command:
        pid = command.rank(0)
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        finding = broken(command, time.monotonic(), limit=TIMEOUT + GRACE)
        assert (finding["rule"], finding["ranks"], finding["hosts"]) == ("rank-stopped", [0], ["node-1"])
        phase, *where = finding["step"].split(", ")[1:]
        assert (phase, len(where)) in {
            *(("warming up", 0), ("verifying", 0), ("timing its own work", 0)),
            ("timing", 2),  # block and iteration
        }
        assert any(f"time limit of {TIMEOUT:g} s" in victim for victim in finding["victims"])


@pytest.mark.long
def test_a_rank_stopped_before_it_has_joined() -> None:
    """Four ranks take a while to join; found after --timeout, not only when the time for starting is over."""
    with started(*SWEEP, "--gpus-per-node", "2", "--timeout", str(TIMEOUT)) as command:
        pid = command.wait_for(lambda: command.rank(3))
        begun = time.monotonic()
        os.kill(pid, signal.SIGSTOP)
        assert command.finish(90) == 3
        assert time.monotonic() - begun < TIMEOUT + GRACE
        assert command.left_over() == {}
        finding = command.result()["findings"][0]
        print(f"stopped during {finding['step']}, out after {time.monotonic() - begun:.1f} s")
        assert (finding["rule"], finding["ranks"], finding["hosts"]) == ("rank-stopped", [3], ["node-2"])


@pytest.mark.long
def test_a_sweep_too_long_for_its_limit_blames_nobody() -> None:
    with measuring(timeout=TIMEOUT) as command:
        finding = broken(command, time.monotonic(), limit=TIMEOUT + GRACE)
        assert (finding["rule"], finding["ranks"], finding["hosts"]) == ("time-limit", [], [])
        assert "raise --timeout or ask for fewer --sizes" in finding["summary"]


def test_a_killed_node(tmp_path: Path) -> None:
    with measuring(idle=tmp_path / "due") as command:
        os.kill(processes_of(command).raylets[-1], signal.SIGKILL)
        finding = broken(command, time.monotonic(), limit=GRACE)
        assert finding["rule"] == "node-lost"
        assert finding["hosts"] in (["node-1"], ["node-2"])
        assert command.result()["cluster"]["dropped"][0]["node"] == finding["hosts"][0]


def test_the_process_that_holds_all_ranks_is_killed() -> None:
    with measuring() as command:
        os.kill(command.matching("raybench.execution.ranks.rank_host")[0], signal.SIGKILL)
        finding = broken(command, time.monotonic(), limit=GRACE)
        assert (finding["rule"], finding["hosts"], finding["component"]) == ("rank-host-lost", [], "rank host")


def test_a_cluster_that_vanishes(tmp_path: Path) -> None:
    with measuring(idle=tmp_path / "due") as command:
        os.kill(one_of(command, "gcs_server"), signal.SIGKILL)
        finding = broken(command, time.monotonic(), limit=8 + GRACE + 5)
        assert (finding["rule"], finding["ranks"]) == ("cluster-lost", [])


# Every day Ctrl-C twice and a SIGTERM below, and Ctrl-C once while a training goes on (test_training_faults.py).
@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_stopped_while_it_measures(number: signal.Signals) -> None:
    with measuring() as command:
        command.process.send_signal(number)
        finding = broken(command, time.monotonic(), limit=GRACE)
        assert (finding["rule"], finding["ranks"]) == ("interrupted", [])


def test_ctrl_c_twice_in_a_terminal() -> None:
    """A terminal signals every process of the foreground group."""
    with measuring() as command:
        begun = time.monotonic()
        os.killpg(command.process.pid, signal.SIGINT)
        time.sleep(0.2)
        os.killpg(command.process.pid, signal.SIGINT)
        assert broken(command, begun, limit=GRACE)["rule"] == "interrupted"


@pytest.mark.parametrize("seconds", [pytest.param(0.8, marks=pytest.mark.long), 1.6])
def test_ctrl_c_while_the_cluster_starts(seconds: float) -> None:
    with started(*SWEEP) as command:
        command.wait_for(lambda: len(command.processes()) > 1)  # before its first lines a signal ends any program
        time.sleep(max(seconds - (time.monotonic() - command.begun), 0))
        begun = time.monotonic()
        os.killpg(command.process.pid, signal.SIGINT)
        assert command.finish(60) == 3
        print(f"{time.monotonic() - begun:.1f} s from Ctrl-C to exit")
        assert time.monotonic() - begun < GRACE
        assert command.left_over() == {}
        assert "Traceback" not in command.errors + command.out


def test_a_driver_that_is_killed_leaves_nothing_running() -> None:
    with measuring() as command:
        begun = time.monotonic()
        command.process.kill()
        assert command.finish(60) == -signal.SIGKILL
        assert command.left_over(5) == {}
        print(f"{time.monotonic() - begun:.1f} s from SIGKILL to the last process")
        assert len(command.samples()) >= 2
        assert command.left_files() == []


def test_a_command_that_is_killed_while_ray_starts_its_workers_leaves_none_of_them() -> None:
    """One whose daemon has gone before it could speak to it waits for half a minute."""
    with started(*SWEEP) as command:
        command.wait_for(lambda: processes_of(command).actors)
        time.sleep(0.3)
        command.process.kill()
        begun = time.monotonic()
        assert command.left_over(5) == {}
        print(f"{time.monotonic() - begun:.1f} s from SIGKILL to the last process")
        assert command.left_files() == []


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[Path]:
    """A file system of 10 MiB for the output."""
    if os.geteuid() != 0:
        pytest.skip("a file system of its own needs root")
    mount = tmp_path / "tiny"
    mount.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=10m", "tmpfs", mount], capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {done.stderr.decode().strip()}")
    yield mount
    subprocess.run(["umount", mount], check=True)


def fill(folder: Path) -> None:
    """Take all room that is left."""
    with (folder / "filler").open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(b"x" * 4096)


def told_points(command: Command) -> int:
    """Points that the progress has said to be measured."""
    return max((int(point) for point in re.findall(r"\[ *(\d+)/\d+\]", command.errors)), default=0)


def test_a_disk_that_fills_up_in_the_middle_and_a_sigterm(tiny: Path) -> None:
    with measuring(output=str(tiny), drawn=True) as command:
        fill(tiny)
        full = told_points(command)
        command.wait_for(lambda: told_points(command) >= full + 2)
        command.process.send_signal(signal.SIGTERM)
        assert command.finish(60) == 3
        result = command.result()
        assert (result["status"], result["findings"][0]["rule"]) == ("partial", "interrupted")
        kept = [one["message_bytes"] for one in result["benchmarks"][0]["points"]]
        journal = [one["message_bytes"] for one in command.samples()]
        assert kept[: len(journal)] == journal
        assert len(kept) > len(journal) >= 2
        assert "samples.jsonl could not be written (No space left on device)" in command.errors
        assert "Traceback" not in command.errors
        assert command.left_over() == {}
