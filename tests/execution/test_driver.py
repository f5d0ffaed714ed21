"""The command's end of a driver: it ends what a run started, and nothing else; a signal costs no result."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import pytest

from raybench.cli import measure
from raybench.config import RunConfig
from raybench.execution import driver as driver_module
from raybench.execution import supervisor
from raybench.execution.account import Account
from raybench.execution.driver import Driver
from raybench.execution.ranks import prestarted_rank_host
from tests.processes.waiting import has_ended

# A process of its own, since it adopts what is left below it from then on.
BYSTANDER = """
import subprocess, sys, time
from pathlib import Path
from raybench.execution import driver
from raybench.execution.record import RunRecord
from raybench.config import RunConfig

bystander = subprocess.Popen(["sleep", "60"])
left = 'import subprocess; print(subprocess.Popen(["sleep", "61"], start_new_session=True, stdout=-3).pid)'

def drive(*_):
    own = subprocess.run([sys.executable, "-c", left], stdout=subprocess.PIPE, text=True).stdout
    (Path(sys.argv[1]) / "own").write_text(own)

driver._drive = drive
started = driver.start_driver(RunRecord(config=RunConfig(), run_id="a"), None, Path(sys.argv[1]))
while started.status is None:
    started._waited()
    time.sleep(0.01)
started.end()
print(bystander.poll())
bystander.kill()
"""


def test_what_was_below_the_command_before_the_run_is_not_ended(tmp_path: Path) -> None:
    """``monitor & exec raybench run``: the monitor is a child of the command, and none of its own."""
    done = subprocess.run(
        [sys.executable, "-c", BYSTANDER, str(tmp_path)], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == ["None"]
    assert has_ended(int((tmp_path / "own").read_text()))


# Its daemon ends while the command looks for what is left, as one that is killed does on a busy machine.
WORKER_OF_A_DYING_DAEMON = """
import subprocess, sys, time
from multiprocessing import Pipe
from pathlib import Path
import psutil
from raybench.execution import driver

driver.ctypes.CDLL(None).prctl(36, 1)
code = "sleep 61 >/dev/null 2>&1 & echo $!; wait"
daemon = subprocess.Popen(["sh", "-c", code], stdout=subprocess.PIPE, text=True)
worker = psutil.Process(int(daemon.stdout.readline()))
ended = driver.Driver(pid=0, connection=Pipe()[0], workplace=Path(), spared=None, status=0)

def once(real):
    def look(*words, **options):
        found = list(real(*words, **options))
        if daemon.returncode is None:
            daemon.kill()
            daemon.returncode = -9  # not collected: a zombie, as of a daemon of Ray
            while worker.ppid() == daemon.pid:
                time.sleep(0.001)
        return found
    return look

psutil.process_iter, psutil.Process.children = once(psutil.process_iter), once(psutil.Process.children)
ended.end()
print(worker.is_running() and worker.status() != "zombie")
worker.kill()
"""


def test_a_worker_whose_daemon_ends_while_what_is_left_is_looked_for_is_ended() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WORKER_OF_A_DYING_DAEMON], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == ["False"]


@pytest.mark.parametrize("ignored", [True, False])
def test_how_children_end_is_known_where_sigchld_was_ignored_before(ignored: bool) -> None:
    code = """
import signal, subprocess, sys
from raybench import cli
cli._run_command = lambda: subprocess.run([sys.executable, "-c", "raise SystemExit(7)"]).returncode
cli.main()
"""
    before = signal.SIG_IGN if ignored else signal.SIG_DFL
    done = subprocess.run(
        [sys.executable, "-c", code], preexec_fn=lambda: signal.signal(signal.SIGCHLD, before), check=False, timeout=60
    )
    assert done.returncode == 7


class Watching:
    """A run that is over at once."""

    def __init__(self, *, account: Account, **_: Any) -> None:
        self.record = account.record

    def watch(self) -> None:
        """Nothing."""


def test_a_signal_while_what_was_started_is_ended_does_not_cost_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextlib.contextmanager
    def host(_folder: Path) -> Iterator[None]:
        yield
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)

    here, _ = Pipe()
    fake = Driver(pid=1, connection=here, workplace=tmp_path, spared=None)
    monkeypatch.setattr(prestarted_rank_host, "prestarted_rank_host", host)
    monkeypatch.setattr(driver_module, "start_driver", lambda *_: fake)
    monkeypatch.setattr(supervisor, "Supervisor", Watching)
    try:
        code = measure.measure(RunConfig(output_dir=str(tmp_path)), as_json=False, quiet=True)
    except KeyboardInterrupt:  # it would end the tests, too
        pytest.fail("the result is lost")
    (result,) = tmp_path.glob("*/result.json")
    assert (code, json.loads(result.read_text())["status"]) == (3, "failed")
