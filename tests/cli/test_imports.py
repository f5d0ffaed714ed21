"""Help costs neither torch nor Ray nor Ansible, and no more time than a person notices."""

import subprocess
import sys

import pytest

from tests.command import raybench

HEAVY = ["torch", "ray", "ansible_runner", "ansible", "paramiko", "numpy", "matplotlib", "jinja2", "rich", "yaml"]
PROBE = """
import sys
sys.argv = ["raybench", *{arguments}]
try:
    from raybench.cli import main
    main()
except SystemExit as end:
    assert end.code in (0, None), end.code
print("IMPORTED", *(name for name in {heavy} if name in sys.modules))
"""


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["run", "--help"], ["--version"]])
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    probe = PROBE.format(arguments=arguments, heavy=HEAVY)
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1].split() == ["IMPORTED"]


def test_the_probe_sees_what_is_imported() -> None:
    probe = PROBE.format(arguments=["--version"], heavy=[*HEAVY, "click"])
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1].split() == ["IMPORTED", "click"]


def test_help_lists_commands_examples_and_exit_codes() -> None:
    done = raybench("--help")
    assert done.returncode == 0
    assert "run" in done.stdout
    assert "Exit codes: 0 clean" in " ".join(done.stdout.split())
    run = raybench("run", "--help")
    assert "--sizes" in run.stdout
    assert "raybench run --nodes 2" in run.stdout


def test_python_m_raybench_is_raybench() -> None:
    done = subprocess.run([sys.executable, "-m", "raybench", "--version"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("raybench, version ")
    assert subprocess.run([sys.executable, "-m", "raybench"], capture_output=True, check=False).returncode == 2


def test_nothing_asked_is_wrong_use_and_an_unknown_command_too() -> None:
    assert raybench().returncode == 2
    done = raybench("measure")
    assert (done.returncode, done.stdout) == (2, "")
    assert "No such command 'measure'" in done.stderr
