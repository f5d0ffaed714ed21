"""Help costs neither torch nor Ray nor Ansible, and no more time than a person notices."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.command import raybench

HEAVY = ["torch", "ray", "ansible_runner", "ansible", "paramiko", "numpy", "matplotlib", "jinja2", "rich", "yaml"]
PROBE = """
import sys
from pathlib import Path
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


def test_an_estimate_imports_neither_results_nor_benchmarks() -> None:
    needless = [*(name for name in HEAVY if name != "rich"), "raybench.benchmarks", "raybench.documents.run"]
    probe = PROBE.format(arguments=["estimate"], heavy=[*needless, "raybench.installation"])
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


INTERRUPTED_IMPORT = "import os, signal, time\n{how}\ntime.sleep(200)\n"


@pytest.mark.parametrize(
    ("module", "how"),  # of the command line, and of the command
    [("click", "os.kill(os.getpid(), signal.SIGINT)"), ("waits", "exec('os.kill(os.getpid(), signal.SIGINT)')")],
)
def test_ctrl_c_in_the_middle_of_an_import_is_one_line(tmp_path: Path, module: str, how: str) -> None:
    """``exec``, of which dataclasses and named tuples are made: Python would kill itself at its end."""
    (tmp_path / f"{module}.py").write_text(INTERRUPTED_IMPORT.format(how=how))
    start = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); sys.argv = ['raybench', 'agent']\n"
        "from raybench.__main__ import main\n"
    )
    if module != "click":
        start += f"import raybench.cli; raybench.cli.COMMANDS['agent'] = ({module!r}, '')\n"
    done = subprocess.run(
        [sys.executable, "-c", f"{start}main()"], capture_output=True, text=True, check=False, timeout=90
    )
    assert (done.returncode, done.stderr) == (3, "\nraybench: stopped\n")  # below ^C


def test_where_ctrl_c_is_ignored_it_stays_so() -> None:
    """As in the background of a script."""
    probe = (
        "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); sys.argv = ['raybench', '--version']\n"
        "from raybench.__main__ import main\n"
        "import raybench.cli; raybench.cli._run_command = lambda: os.kill(os.getpid(), signal.SIGINT) or 0\n"
        "main()"
    )
    assert subprocess.run([sys.executable, "-c", probe], check=False, timeout=90).returncode == 0
