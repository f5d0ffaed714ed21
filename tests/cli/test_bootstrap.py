"""The set-up script, with interpreters that only say what they were asked: what it installs, and where it runs."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command import REPOSITORY

FAKE_PYTHON = """#!/bin/sh
case "$*" in
*metadata*) cat "{folder}/torch" ;;
*version_info*print*|*print*version_info*) echo 3.12 ;;
*"-m pip"*) echo "$*" >>"{folder}/pip"; case "$*" in *"+cpu"*"!="*) ;; *"!="*) echo 2.13.0 >"{folder}/torch" ;; esac ;;
*"-m pytest"*) pwd ;;
esac
"""


class Checkout:
    """A checkout with a finished CPU set-up of fakes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "the checkout"
        (self.path / ".ci").mkdir(parents=True)
        for name in (".ci/bootstrap", "pyproject.toml", "constraints.txt"):
            shutil.copy(REPOSITORY / name, self.path / name)
        binaries = self.path / ".venv" / "bin"
        binaries.mkdir(parents=True)
        for name, text in {
            "python": FAKE_PYTHON.format(folder=folder),
            "raybench": '#!/bin/sh\npwd\necho "$*"\n',
        }.items():
            (binaries / name).write_text(text)
            (binaries / name).chmod(0o755)
        (folder / "torch").write_text("2.13.0+cpu\n")

    def call(self, *words: str, **settings: str) -> "subprocess.CompletedProcess[str]":
        """Call the script, with an empty environment, from a directory elsewhere."""
        return subprocess.run(
            ["sh", str(self.path / ".ci" / "bootstrap"), *words],
            capture_output=True,
            text=True,
            check=False,
            cwd=self.folder,
            env=settings,
        )

    def installed(self) -> list[str]:
        """What pip was asked for since the last call of this."""
        log = self.folder / "pip"
        words = [line.split()[-1] for line in log.read_text().splitlines()] if log.exists() else []
        log.unlink(missing_ok=True)
        return words


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_the_run_is_where_the_user_is(checkout: Checkout) -> None:
    done = checkout.call("run", "--nodes", "2")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [str(checkout.folder), "run --nodes 2"]


def test_tests_run_in_the_checkout(checkout: Checkout) -> None:
    assert checkout.call("test").stdout.splitlines() == [str(checkout.path)]


def test_what_is_ready_is_not_installed_again(checkout: Checkout) -> None:
    checkout.call("test")
    assert checkout.installed() == [".[all,dev]"]
    for words in (["run"], ["test"], []):
        assert checkout.call(*words).returncode == 0
    assert checkout.installed() == []


def test_another_build_of_torch_is_really_installed_and_kept(checkout: Checkout) -> None:
    checkout.call("test")
    checkout.installed()
    assert checkout.call("run", RAYBENCH_TORCH="cuda").returncode == 0
    assert checkout.installed() == ["torch==2.13.0,!=2.13.0+cpu", ".[all]"]
    checkout.call("run", RAYBENCH_TORCH="cuda")
    checkout.call("run")
    assert checkout.installed() == []
    checkout.call("test", RAYBENCH_TORCH="cpu")
    assert checkout.installed() == ["torch==2.13.0+cpu", ".[all,dev]"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"PYTHON": "/no/such/python"}, "PYTHON=/no/such/python is not there"),
        ({"PYTHON": "/bin/false"}, "PYTHON=/bin/false is not a working Python 3.11 to 3.14"),
        ({"RAYBENCH_TORCH": "rocm"}, "RAYBENCH_TORCH is 'rocm'; it may be cpu or cuda"),
    ],
)
@pytest.mark.parametrize("ready", [True, False])
def test_a_setting_that_does_not_work_is_refused(
    checkout: Checkout, settings: dict[str, str], message: str, ready: bool
) -> None:
    if ready:
        checkout.call()
    else:
        shutil.rmtree(checkout.path / ".venv")
    done = checkout.call("run", **settings)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr


def test_an_interpreter_of_another_version_than_the_environment_is_refused(checkout: Checkout) -> None:
    if sys.version_info[:2] == (3, 12):
        pytest.skip("the environment's fake says 3.12 too")
    done = checkout.call("run", PYTHON=sys.executable, PATH=os.environ["PATH"])
    assert done.returncode == 2
    assert "has Python 3.12, not that of" in done.stderr
