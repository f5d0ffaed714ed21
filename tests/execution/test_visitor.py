"""A node on a machine that is no node of a cluster: its sockets have short paths, wherever temporary files are."""

from pathlib import Path
from typing import Any

import pytest

from raybench.execution.ranks.rank_host_process import _LONGEST_BASE
from raybench.execution.ray_cluster import visitor
from raybench.execution.ray_cluster.visitor import Visitor

_LONGEST_SOCKET = 107  # unix(7), without the byte that ends it


def test_the_sockets_stand_in_its_own_folder_and_not_below_the_long_name_of_ray_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Any] = {}

    def start_node(_: object, **options: Any) -> None:
        given.update(options)

    monkeypatch.setattr(visitor, "start_node", start_node)
    monkeypatch.setattr(visitor, "lean_node_class", lambda: None)
    folder = tmp_path / "v"
    with Visitor("127.0.0.1:6379", folder):
        sockets = [given["plasma_store_socket_name"], given["raylet_socket_name"]]
    assert len(set(sockets)) == 2
    for socket in sockets:
        below = len(socket) - len(str(folder))
        assert _LONGEST_BASE + len("/raybench-12345678/v") + below <= _LONGEST_SOCKET
