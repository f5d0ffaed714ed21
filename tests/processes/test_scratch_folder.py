"""What is left of runs that were killed is swept by the next start, and nothing that anybody still has."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from raybench.processes.scratch_folder import scratch_folder, sweep
from tests.security.ordinary_user import given, needs_root

OWNER = """
import sys, tempfile, time
from raybench.hosts import playbook
from raybench.processes.scratch_folder import scratch_folder
playbook._LONGEST_PARENT, tempfile.tempdir = 200, sys.argv[1]  # pytest's folders have long paths
with playbook._private_folder() as private:
    print(private if sys.argv[2] == "playbook" else scratch_folder(sys.argv[1]), flush=True)
    time.sleep(60)
"""


@contextmanager
def owner(parent: Path, of: str = "run") -> Iterator[tuple["subprocess.Popen[str]", Path]]:
    command = [sys.executable, "-P", "-c", OWNER, str(parent), of]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, Path(process.stdout.readline().strip())
        finally:
            process.kill()


def aged(folder: Path) -> Path:
    """The folder, as one of an hour ago."""
    then = time.time() - 3600
    os.utime(folder, (then, then))
    return folder


@pytest.mark.parametrize("of", ["run", "playbook"])
def test_the_folder_of_a_killed_owner_is_swept_by_the_next_start(tmp_path: Path, of: str) -> None:
    with owner(tmp_path, of) as (process, folder):
        (folder / "c").mkdir()
        (folder / "c" / "socket").touch()
        assert sweep(tmp_path) == []
        aged(folder)
        assert sweep(tmp_path) == []  # old, and its owner lives
        process.send_signal(signal.SIGKILL)
        process.wait()
        new = scratch_folder(str(tmp_path))
        assert not folder.exists()
        assert new.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_was_only_just_made_is_left_alone(tmp_path: Path) -> None:
    with owner(tmp_path) as (process, folder):
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert sweep(tmp_path) == []
        assert folder.exists()


def test_what_is_not_known_to_be_ours_is_left_alone(tmp_path: Path) -> None:
    """No lock file, a link to somewhere else, a name that is another's."""
    (tmp_path / "raybench-kept").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / ".owner").touch()
    aged(tmp_path / "elsewhere")
    (tmp_path / "raybench-link").symlink_to("elsewhere")
    aged(tmp_path / "raybench-kept")
    assert sweep(tmp_path) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["elsewhere", "raybench-kept", "raybench-link"]


@needs_root
@pytest.mark.parametrize("whole", [True, False])
def test_what_somebody_else_has_is_left_alone(tmp_path: Path, whole: bool) -> None:
    folder = tmp_path / "raybench-other"
    folder.mkdir()
    (folder / ".owner").touch()
    given(folder)
    if whole:
        given(folder / ".owner")
    aged(folder)
    assert sweep(tmp_path) == []
