"""The record of raybench's own cluster: which one ``auto`` takes, and records that are not trusted."""

import json
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from raybench.errors import ClusterUnavailableError, UsageError
from raybench.execution.ray_cluster.found_cluster import find_running
from raybench.hosts import own_cluster
from raybench.hosts.own_cluster import controlled_cluster, controller_folder, recorded_cluster


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(own_cluster, "node_folder", lambda: tmp_path / "node")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    path = tmp_path / "raybench" / "cluster" / "cluster.json"
    path.parent.mkdir(parents=True)
    return path


@pytest.fixture
def not_ray() -> Iterator[int]:
    """A port that accepts connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def write(path: Path, **changed: object) -> None:
    content = {"schema": "raybench.cluster/1", "address": "127.0.0.1:1", "token_path": "/x/token", "hosts": ["a"]}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content | changed))
    path.chmod(0o600)


def test_no_record_is_no_cluster(record: Path) -> None:
    assert recorded_cluster() is None
    assert find_running() is None
    assert record.parent == controller_folder()


def test_a_record_names_the_cluster_and_its_token(record: Path) -> None:
    write(record)
    found = recorded_cluster()
    assert found is not None
    assert (found.address, found.hosts) == ("127.0.0.1:1", ("a",))
    assert found.variables == {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": "/x/token"}


def test_a_cluster_that_never_came_up_has_no_address_and_is_not_taken(record: Path) -> None:
    write(record, address="")
    assert recorded_cluster() is None
    assert controlled_cluster() is not None
    write(record.parents[2] / "node" / "cluster.json", address="127.0.0.1:2")
    found = recorded_cluster()
    assert found is not None
    assert found.address == "127.0.0.1:2"


def test_an_own_cluster_that_is_gone_is_an_error_and_not_an_embedded_one(record: Path) -> None:
    write(record)
    with pytest.raises(ClusterUnavailableError, match=r"brought up does not answer at '127.0.0.1:1' .*cluster status"):
        find_running()


def test_what_the_environment_names_wins(
    record: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, not_ray: int
) -> None:
    write(record)
    monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{not_ray}")
    found = find_running()
    assert found is not None
    assert (found.address, found.found_by) == (f"127.0.0.1:{not_ray}", "named by RAY_ADDRESS")
    monkeypatch.setenv("RAY_ADDRESS", "local")
    assert find_running() is None


def test_an_own_cluster_wins_over_rays_own_record(record: Path, tmp_path: Path, not_ray: int) -> None:
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "ray_current_cluster").write_text(f"127.0.0.1:{not_ray}")
    found = find_running()
    assert found is not None
    assert found.found_by == "of this machine"
    write(record, address=f"127.0.0.1:{not_ray}")
    found = find_running()
    assert found is not None
    assert found.found_by == f"brought up by raybench, {record}"


@pytest.mark.parametrize("content", ["{", "[]", '{"schema": "other/1", "address": "a:1", "token_path": "t"}'])
def test_a_record_that_is_none_is_refused(record: Path, content: str) -> None:
    record.write_text(content)
    record.chmod(0o600)
    with pytest.raises(UsageError, match="remove it, then run 'raybench cluster up' again"):
        recorded_cluster()


def test_a_record_that_others_can_write_is_refused(record: Path) -> None:
    write(record)
    record.chmod(0o666)
    with pytest.raises(UsageError, match="can be written by others"):
        recorded_cluster()
