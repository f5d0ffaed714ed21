"""``python -m tests.lab``: it says how to get in, its commands work, and Ctrl-C takes the lab down."""

import os
import shlex
import signal
import subprocess
import sys

import pytest

from .cluster import Lab
from .fixtures import require_lab
from .requirement import lab_available

COMMAND = [sys.executable, "-m", Lab.__module__.rpartition(".")[0]]
ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}


@pytest.mark.lab
def test_the_printed_command_enters_the_node_until_ctrl_c() -> None:
    require_lab()
    with subprocess.Popen([*COMMAND, "up", "1"], env=ENVIRONMENT, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        lines: list[str] = []
        while not lines or not lines[-1].startswith("Ctrl-C"):
            lines.append(holder.stdout.readline())
            assert lines[-1], "the command ended early"
        enter = lines[lines.index("node1 10.88.0.1\n") + 1]
        inside = subprocess.run([*shlex.split(enter), "-c", "hostname"], capture_output=True, text=True, check=True)
        holder.send_signal(signal.SIGINT)
        assert holder.stdout.read() == "taken down\n"
    assert (inside.stdout, holder.returncode) == ("node1\n", 0)


@pytest.mark.lab
def test_no_nodes_are_refused_with_one_line() -> None:
    done = subprocess.run([*COMMAND, "up", "0"], env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "a lab has 1 to 250 nodes, not 0\n")


def test_an_ordinary_user_is_told_that_root_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    lab_available.cache_clear()
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "needs root" in str(lab_available())
    lab_available.cache_clear()
