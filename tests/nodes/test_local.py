"""``raybench nodes check``: this machine judged in seconds, its exit codes, and nothing heavy in it."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from raybench.errors import UsageError
from raybench.hosts import local_probe
from raybench.services.nodes.local import LocalCheck, LocalOptions, check_here
from raybench.verdicts import NodeState
from tests.processes.waiting import come_true, has_ended

from .reports import report

HEAVY = ("ray", "torch", "ansible", "ansible_runner", "numpy", "paramiko")


@pytest.mark.parametrize(
    ("state", "caller", "code", "word"),
    [
        ("healthy", "admin", 0, "OK: raybench: healthy ("),
        ("degraded", "admin", 0, "WARNING: raybench: degraded: gpu-temperature: GPU 1: 91 C"),
        ("drain", "admin", 1, "ERROR: raybench: drain: gpu-rows: GPU 3"),
        ("unknown", "admin", 3, "UNKNOWN: raybench: unknown: gpu-ecc"),
        ("healthy", "prolog", 0, "OK"),
        ("degraded", "prolog", 0, "WARNING"),
        ("drain", "prolog", 1, "ERROR"),
        ("unknown", "prolog", 0, "UNKNOWN"),
    ],
)
def test_the_exit_code_of_each_state(state: NodeState, caller: str, code: int, word: str) -> None:
    found = LocalCheck(report=report({"me": state}), seconds=0.4, caller=caller)  # type: ignore[arg-type]
    assert (found.exit_code, found.line.startswith(word)) == (code, True), found.line


@pytest.mark.timed
def test_this_machine_is_judged_within_seconds_and_without_what_is_heavy(tmp_path: Path) -> None:
    code = (
        "import sys; from raybench.services.nodes.local import LocalOptions, check_here\n"
        "found = check_here(LocalOptions())\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], found.state, found.seconds)"
    )
    begun = time.monotonic()
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.startswith("[] ")
    assert time.monotonic() - begun < 10


def test_a_probe_that_hangs_is_ended_and_the_node_is_unknown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    left = tmp_path / "child"
    hang = (
        f"import subprocess, time; p = subprocess.Popen(['sleep', '600']); open({str(left)!r}, 'w').write(str(p.pid))"
    )
    monkeypatch.setattr(local_probe, "_PROGRAM", f"{hang}; time.sleep(600)")
    found = check_here(LocalOptions(limit_seconds=4.0))
    assert (found.state, found.exit_code) == ("unknown", 3)
    assert found.seconds < 60
    assert "did not end within 4 s" in found.line
    assert come_true(lambda: has_ended(int(left.read_text()))), "what the probe started is still there"


@pytest.mark.parametrize("program", ["raise SystemExit(3)", "print('x')", "print('{}')", 'print(\'{"packed": "x"}\')'])
def test_a_probe_that_breaks_leaves_the_node_unknown(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    monkeypatch.setattr(local_probe, "_PROGRAM", program)
    found = check_here(LocalOptions(limit_seconds=5.0))
    assert (found.state, found.exit_code) == ("unknown", 3)


def test_checks_that_are_none_are_refused_before_anything_is_probed() -> None:
    for wrong in (LocalOptions(only=["gpu-nothing"]), LocalOptions(expect=["gpu_cuont=8"])):
        with pytest.raises(UsageError):
            check_here(wrong)


def test_the_command_prints_a_line_and_json(tmp_path: Path) -> None:
    words = [sys.executable, "-P", "-c", "from raybench.cli import main; main()", "nodes", "check", "--json"]
    environment = os.environ | {"SLURMD_NODENAME": "n77"}
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)
    (host,) = json.loads(done.stdout)["hosts"]
    assert host["host"] == "n77"
    assert done.returncode == {"healthy": 0, "degraded": 0, "drain": 1, "unknown": 3}[host["node"]["state"]]
