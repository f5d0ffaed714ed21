"""What a user gets wrong: one clear message each, exit 2, no traceback, and no folder left behind."""

import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from raybench.execution.ray_cluster.found_cluster import find_running
from tests.command import answer, raybench, started


def refused(*arguments: str, environment: dict[str, str] | None = None, forked: bool = False) -> str:
    """The message of a run that must be refused. ``forked``: of one that need not import everything anew."""
    with started("run", *arguments, environment=environment, forked=forked) as command:
        status = command.finish(60)
        assert status == 2, command.errors
        assert command.out == ""
        assert "Traceback" not in command.errors
        lines = [line for line in command.errors.splitlines() if line]
        assert len(lines) == 1 or lines[0].startswith("Usage:"), lines
        assert command.run_folders == []
        assert command.left_over() == {}
        assert command.left_files() == []
    return lines[-1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--sizes", "8:1:2"], "the sizes '8:1:2' end (1 B) below their beginning (8 B); swap the two"),
        (["--sizes", "8:8G:1"], "does not grow"),
        (["--nodes", "0"], "--nodes is 0; it must be at least 1"),
        (["--nodes", "100000"], "100000 emulated nodes do not fit on this machine: at most "),
        (["--nodes", "two"], "'two' is not a valid integer"),
        (["--suite", "all_reduse"], "there is no suite or benchmark 'all_reduse'; did you mean 'all_reduce'"),
        (["--op", "mean"], "--op 'mean' is not known; there are: sum"),
        (["--dtype", "float31"], "--dtype 'float31' is not known"),
        (["--backend", "mpi"], "--backend 'mpi' is not known; there are: nccl, gloo"),
        (["--env", "NCCL_ALGO"], "--env 'NCCL_ALGO' is not NAME=VALUE"),
        (["--env", "LD_PRELOAD=/x.so"], "--env LD_PRELOAD cannot be set: the loader reads it when a process starts"),
        (["--env", "RANK=3"], "--env RANK cannot be set: raybench numbers the ranks"),
        (["--timeout", "nan"], "--timeout is nan"),
        (["--address", "ray://head:10001"], "Ray Client cannot place ranks on nodes; give HOST:PORT of the head"),
        (["--address", "127.0.0.1:1"], "no Ray cluster answers at '127.0.0.1:1' ([Errno 111] Connection refused)"),
        (["--address", "nonsense"], "no Ray cluster answers at 'nonsense' (it is not HOST:PORT)"),
        (["--address", "no-such-host.invalid:6379"], "no Ray cluster answers at 'no-such-host.invalid:6379'"),
        (["--address", "127.0.0.1:99999"], "no Ray cluster answers at '127.0.0.1:99999'"),
        (["--config", "/nowhere/run.yml"], "the configuration file /nowhere/run.yml cannot be read"),
        (["--config", "/dev/null"], "must hold 'key: value' lines"),
        (["--baseline", "/nowhere/result.json"], "the baseline /nowhere/result.json cannot be read: No such file"),
        (["--baseline", "/dev/null"], "the baseline /dev/null is no JSON"),
        (["--no-such-option"], "No such option"),
    ],
)
def test_wrong_options_are_refused(arguments: list[str], message: str) -> None:
    assert message in refused(*arguments, forked=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("node: 4\n", "has an unknown key 'node'; did you mean 'nodes'?"),
        ("nodes: [\n", "is not YAML"),
        ("nodes: four\n", "Expected `int | null`, got `str`"),
        ("sizes: 8:1:2\n", "swap the two"),
    ],
)
def test_wrong_files_are_refused_by_name(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "run.yml"
    path.write_text(text)
    said = refused("--config", str(path), forked=True)
    assert message in said
    assert str(path) in said


_TOO_LONG = "a" * 5000


@pytest.mark.parametrize(
    "arguments",
    [
        ("show", _TOO_LONG),
        ("compare", _TOO_LONG, _TOO_LONG),
        ("history", _TOO_LONG),
        ("estimate", "--gpu", "H100", "--model", f"{_TOO_LONG}/x"),
        ("estimate", "--gpu", "H100", "--result", _TOO_LONG),
    ],
    ids=lambda arguments: " ".join(arguments[:2])[:20],
)
def test_a_path_longer_than_any_is_refused_without_a_traceback(arguments: tuple[str, ...]) -> None:
    done = answer(*arguments)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("preflight", "-i", _TOO_LONG), "-i 'aaa"),
        (("preflight", f"--inventory={_TOO_LONG}"), "--inventory 'aaa"),
        (("diagnose", _TOO_LONG), "'aaa"),
    ],
)
def test_a_path_longer_than_any_is_told_with_its_option_and_what_to_give(
    arguments: tuple[str, ...], named: str
) -> None:
    said = answer(*arguments).stderr
    assert said.startswith(f"raybench: {named}")
    assert said.endswith("' is longer than the name of any file; give the path of a file\n")


def test_an_output_folder_that_cannot_be_written_is_refused() -> None:
    done = raybench("run", "--output-dir", "/dev/null/runs")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("raybench: the output folder /dev/null/runs/")
    assert "choose another with --output-dir" in done.stderr


def test_an_address_in_the_environment_is_one_that_was_asked_for() -> None:
    said = refused("--address", "auto", environment={"RAY_ADDRESS": "127.0.0.1:1"})
    assert "no Ray cluster answers at '127.0.0.1:1', which RAY_ADDRESS names ([Errno 111] Connection refused)" in said


def test_ray_client_in_the_environment_is_refused() -> None:
    said = refused(environment={"RAY_ADDRESS": "ray://head:10001"})
    assert "RAY_ADDRESS is 'ray://head:10001': Ray Client cannot place ranks on nodes. Give HOST:PORT" in said


@pytest.mark.parametrize("named", ["auto", "local", "", " "])
def test_words_of_rays_in_the_environment_are_no_addresses(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, named: str
) -> None:
    """``auto`` is the cluster of this machine, here none; ``local`` a new one."""
    monkeypatch.setenv("RAY_ADDRESS", named)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert find_running() is None


@pytest.mark.parametrize(("named", "meant"), [("auto", True), ("local", False)])
def test_auto_in_the_environment_is_the_cluster_of_this_machine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, not_ray: int, named: str, meant: bool
) -> None:
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "ray_current_cluster").write_text(f"127.0.0.1:{not_ray}")
    monkeypatch.setenv("RAY_ADDRESS", named)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    found = find_running()
    assert (found and found.address) == (f"127.0.0.1:{not_ray}" if meant else None)


@pytest.mark.cluster
@pytest.mark.long  # every day before a cluster is started, by the same code: test_newcomer.py
def test_a_root_that_no_rank_has_is_refused() -> None:
    said = refused("--address", "local", "--nodes", "2", "--suite", "broadcast", "--root", "2")
    assert "--root is 2, and the run has ranks 0 to 1" in said


@pytest.mark.cluster
def test_more_gpus_than_there_are_is_refused_with_the_nodes_that_exist() -> None:
    said = refused("--address", "local", "--nodes", "1", "--backend", "nccl", "--gpus-per-node", "512")
    assert "node-1 (" in said


@pytest.fixture
def not_ray() -> Iterator[int]:
    """A port that accepts connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.mark.timed
def test_a_port_that_is_not_rays_is_refused_in_time(not_ray: int) -> None:
    begun = time.monotonic()
    said = refused("--address", f"127.0.0.1:{not_ray}")
    assert f"what listens at '127.0.0.1:{not_ray}' is not the head of a Ray cluster" in said
    assert "it says nothing within 5 s" in said
    assert time.monotonic() - begun < 15
