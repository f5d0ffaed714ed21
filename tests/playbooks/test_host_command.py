"""Programs that modules of ours run on a host: their end, their limit, and what they leave behind."""

import os
import sys
import time
from pathlib import Path

import psutil
import pytest
from module_utils.raybench_configure.host import Host
from module_utils.raybench_host.command import FAILED, MISSING, TIMEOUT, run
from module_utils.raybench_host.files import replace_file
from module_utils.raybench_host.process import start_ticks

# Prints, then leaves a child of another session that keeps its output open.
_DAEMON = """
import os, sys, time
print("begun", flush=True)
if os.fork() == 0:
    os.setsid()
    time.sleep({seconds})
"""


def test_what_a_program_says_and_how_it_ends() -> None:
    script = "echo out; echo error >&2; exit 3"
    ended = run(["sh", "-c", script], 10, os.environ)
    assert (ended.status, ended.said, ended.errors, ended.problem) == (3, "out\n", b"error\n", "")
    assert run(["sh", "-c", script], 10, os.environ, together=True).said == "out\nerror\n"
    missing = run(["no-such-program"], 10, os.environ)
    assert (missing.status, missing.problem, missing.reason) == (None, MISSING, "no-such-program is not installed")


def test_a_program_that_cannot_be_started_is_no_missing_one(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text("#!/no/such/interpreter\n")
    broken.chmod(0o755)
    assert run([str(broken)], 10, os.environ).problem == FAILED


@pytest.mark.parametrize("caller", ["run", "configure"])
def test_a_daemon_that_keeps_the_output_open_holds_nobody_past_the_limit(caller: str, tmp_path: Path) -> None:
    program = tmp_path / "python"
    program.symlink_to(sys.executable)
    words = [str(program), "-c", _DAEMON.format(seconds=60)]
    begun = time.monotonic()
    if caller == "run":
        ended = run(words, 4.0, os.environ)
        assert (ended.problem, ended.said) == (TIMEOUT, "begun\n")
    else:
        assert Host().run(*words, seconds=4.0).status == 124
    assert time.monotonic() - begun < 40


def test_what_a_program_started_ends_with_it(tmp_path: Path) -> None:
    marker = tmp_path / "pid"
    assert run(["sh", "-c", f"sleep 60 & echo $! > {marker}; wait"], 3.0, os.environ).problem == TIMEOUT
    child = int(marker.read_text())
    end = time.monotonic() + 60
    while start_ticks(child) is not None and time.monotonic() < end:
        time.sleep(0.02)
    assert start_ticks(child) is None


def test_a_process_is_told_from_a_later_one_of_its_number() -> None:
    own = start_ticks(os.getpid())
    assert own is not None
    created = psutil.Process().create_time() - psutil.boot_time()
    assert abs(own / os.sysconf("SC_CLK_TCK") - created) < 1.5
    assert start_ticks(2**22 + 1) is None


def test_a_file_is_replaced_whole_and_for_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "state"
    path.write_text("old")
    replace_file(str(path), "new")
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("new", 0o600)
    assert list(tmp_path.iterdir()) == [path]
