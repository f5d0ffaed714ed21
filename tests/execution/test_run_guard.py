"""What is left of a run whose command is killed: nothing, of its own; and nobody else's process is touched."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from raybench.processes.owned_processes import MARK

# A process of its own: what it starts has left it, its session and its group by the time that it ends.
COMMAND = """
import os, signal, subprocess, sys, time
from pathlib import Path
from raybench.execution import run_guard

folder, how = Path(sys.argv[1]), sys.argv[2]
run_guard.say_farewell = lambda *group: (folder / "farewell").write_text(" ".join(map(str, group)))
(folder / "place").mkdir()
started = "import subprocess as s; print(s.Popen(['sleep', '60'], start_new_session=True, stdout=-3, stderr=-3).pid)"
with run_guard.run_guard(folder / "place") as guard:
    (folder / "guard").write_text(str(guard.pid))
    (folder / "orphan").write_text(subprocess.check_output([sys.executable, "-c", started], text=True))
    if "warm" in how:
        guard.node_actors_outlive("192.0.2.1:6379", "raybench-warm", 2)
    if "through" in how:
        guard.node_actors_may_stay()
    if "stopped" in how:
        os.kill(guard.pid, signal.SIGSTOP)
    if "killed" in how:
        os.kill(os.getpid(), signal.SIGKILL)
print(sorted(os.listdir(folder)), os.environ.get(run_guard.MARK))
"""


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@dataclass(kw_only=True)
class Case:
    """A command that has ended."""

    folder: Path
    printed: str

    @property
    def orphan(self) -> int:
        """A process that it started and that is below nobody."""
        return int((self.folder / "orphan").read_text())

    @property
    def guard(self) -> int:
        """Its guard."""
        return int((self.folder / "guard").read_text())

    def gone_within(self, seconds: float) -> bool:
        """Whether the guard has done its work by then."""
        deadline = time.monotonic() + seconds
        while runs(self.guard) and time.monotonic() < deadline:
            time.sleep(0.02)
        return not runs(self.guard)


@pytest.fixture
def case(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Case]:
    done = subprocess.run([sys.executable, "-c", COMMAND, tmp_path, request.param], capture_output=True, check=False)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    found = Case(folder=tmp_path, printed=done.stdout.decode())
    yield found
    if runs(found.orphan):
        os.kill(found.orphan, signal.SIGKILL)


@pytest.fixture
def bystander() -> Iterator[int]:
    """Of another command, which runs on."""
    with subprocess.Popen(["sleep", "600"], env=os.environ | {MARK: "0" * 32}) as process:
        yield process.pid
        process.kill()


@pytest.mark.parametrize("case", ["killed"], indirect=True)
def test_what_a_killed_command_started_ends_with_its_folder(bystander: int, case: Case) -> None:
    assert case.gone_within(60)
    assert (runs(case.orphan), (case.folder / "place").exists(), runs(bystander)) == (False, False, True)
    assert not (case.folder / "farewell").exists()


@pytest.mark.parametrize("case", ["killed warm"], indirect=True)
def test_node_actors_that_outlive_the_driver_end_with_a_killed_command(case: Case) -> None:
    assert case.gone_within(60)
    assert (case.folder / "farewell").read_text() == "192.0.2.1:6379 raybench-warm 2"


@pytest.mark.parametrize("case", ["killed warm through"], indirect=True)
def test_node_actors_of_a_run_that_is_through_stay_warm(case: Case) -> None:
    assert case.gone_within(60)
    assert not (case.folder / "farewell").exists()


@pytest.mark.parametrize("case", ["warm", "warm stopped"], indirect=True)
def test_a_guard_does_nothing_where_the_command_ends_by_itself(case: Case) -> None:
    assert case.printed.split("] ") == ["['guard', 'orphan', 'place'", "None\n"]
    assert (runs(case.guard), runs(case.orphan)) == (False, True)
