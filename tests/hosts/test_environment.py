"""The environment that every host gets: locked versions, raybench's wheel, and its build from a folder of wheels."""

import hashlib
import json
import subprocess
import sys
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

from raybench import __version__
from raybench.errors import UsageError
from raybench.hosts.environment import locked_versions, write_environment, write_wheel
from tests.playbooks.modules import call_module


def test_the_lock_has_the_public_versions_of_what_is_installed_and_all_that_it_needs() -> None:
    pytest.importorskip("ray")
    versions = locked_versions(("ray", "numpy"))
    assert (versions["ray"], versions["numpy"]) == (version("ray"), version("numpy"))
    assert "msgpack" in versions  # which Ray needs
    assert not any("+" in one for one in locked_versions(("torch",)).values())
    with pytest.raises(UsageError, match="no-such-thing is not installed on this machine"):
        locked_versions(("no-such-thing",))


def test_the_wheel_is_the_same_each_time_and_pip_installs_a_raybench_that_runs(tmp_path: Path) -> None:
    for name in ("a", "b", "site"):
        (tmp_path / name).mkdir()
    first, second = write_wheel(tmp_path / "a"), write_wheel(tmp_path / "b")
    assert hashlib.sha256(first.read_bytes()).digest() == hashlib.sha256(second.read_bytes()).digest()
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target"]
    subprocess.run([*pip, str(tmp_path / "site"), str(first)], check=True, timeout=300)
    words = [sys.executable, "-c", "import raybench; print(raybench.__version__, raybench.__file__)"]
    done = subprocess.run(
        words,
        env={"PYTHONPATH": str(tmp_path / "site")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.split() == [__version__, str(tmp_path / "site" / "raybench" / "__init__.py")]


def tiny_wheel(folder: Path, release: str) -> None:
    info = f"tinypart-{release}.dist-info"
    files = {
        "tinypart.py": f"RELEASE = {release!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: tinypart\nVersion: {release}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    with zipfile.ZipFile(folder / f"tinypart-{release}-py3-none-any.whl", "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)
        wheel.writestr(f"{info}/RECORD", "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"]))


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_host_without_an_index_builds_from_wheels_the_locked_version_once(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    told = write_environment(tmp_path / "environment")
    (tmp_path / "environment" / "lock.txt").write_text("tinypart==1.5\n")
    (tmp_path / "wheels").mkdir()
    for release in ("1.4", "1.5", "2.0"):
        tiny_wheel(tmp_path / "wheels", release)
    arguments = {
        "folder": str(tmp_path),
        "wheel": told["wheel"],
        "roots": ["tinypart"],
        "digest": told["digest"],
        "minor": told["minor"],
        "wheels": str(tmp_path / "wheels"),
    }
    made = call_module("raybench_environment", arguments)
    assert made["changed"], made
    words = [
        made["python"],
        "-c",
        "import tinypart, raybench, json; print(json.dumps([tinypart.RELEASE, raybench.__file__]))",
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60, env={}, cwd="/")
    release, where = json.loads(done.stdout)
    assert release == "1.5"
    assert str(tmp_path.resolve()) in str(Path(where).resolve())
    assert call_module("raybench_environment", arguments)["changed"] is False

    refused = call_module("raybench_environment", arguments | {"roots": ["tinypart", "absent"]})
    assert "absent" in refused["msg"]
    assert "raybench_wheelhouse" in refused["msg"]
    assert call_module("raybench_environment", arguments)["changed"] is False  # what was there still is
    refused = call_module("raybench_environment", arguments | {"requirements": ["--index-url=http://elsewhere"]})
    assert "is not a package" in refused["msg"]
    refused = call_module("raybench_environment", arguments | {"minor": "3.1"})
    assert "there is no Python 3.1 here" in refused["msg"]
