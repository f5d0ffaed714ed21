"""A Ray node without resources on a machine that is no node of a cluster, so that a driver there can join it.

Ray places a driver only beside one of the cluster's own daemons. The machine that brought the cluster up, a login node
say, often has none. The visitor ends with this process, and offers nothing: no rank can be placed on it. The nodes of
the cluster must be able to open connections to this machine.
"""

import os
import shutil
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

from raybench.cluster.lean_node import lean_node_class, start_node
from raybench.errors import ClusterUnavailableError
from raybench.metadata import interfaces

NAME = "raybench-visitor"


def is_member(address: str) -> bool:
    """Whether one of the alive nodes of the cluster at HOST:PORT is this machine.

    Raises ClusterUnavailableError when the head does not tell, for want of the token mostly.
    """
    from ray._private.state import GlobalState  # noqa: PLC0415
    from ray._raylet import GcsClientOptions  # type: ignore[attr-defined] # noqa: PLC0415

    state: Any = GlobalState()  # type: ignore[no-untyped-call]
    try:
        state._initialize_global_state(
            GcsClientOptions.create(address, None, allow_cluster_id_nil=True, fetch_cluster_id_if_nil=False)
        )
        table = state.node_table()
    except Exception as error:
        text = " ".join(str(error).split())[:500]
        raise ClusterUnavailableError(f"the head of the Ray cluster at '{address}' does not answer: {text}") from error
    own = set(interfaces())
    return any(node["Alive"] and node["NodeManagerAddress"] in own for node in table)


class Visitor:
    """A node named ``raybench-visitor`` of the cluster at ``address``, from entering to leaving the block."""

    def __init__(self, address: str, folder: Path) -> None:
        self._address = address
        self._folder = folder
        self._node: Any = None
        # The daemon is ended by the kernel when the thread that started it ends.
        self._thread = ThreadPoolExecutor(max_workers=1)

    def __enter__(self) -> Self:
        # A driver places agents and reads their answers: 3.11.7 here and 3.11.2 there are no hindrance.
        os.environ.setdefault("RAY_DEFAULT_PYTHON_VERSION_MATCH_LEVEL", "minor")
        try:
            self._node = self._thread.submit(self._start).result()
        except Exception as error:
            self.close()
            raise ClusterUnavailableError(
                f"this machine is no node of the Ray cluster at '{self._address}' and could not join it to measure "
                f"({' '.join(str(error).split())[:300]}). Call raybench run on one of its nodes instead."
            ) from error
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the daemon and forget its files."""
        if self._node is not None:
            self._node.kill_all_processes(check_alive=False, allow_graceful=False)
        self._thread.shutdown(wait=False)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _start(self) -> Any:
        return start_node(
            lean_node_class(),
            head=False,
            gcs_address=self._address,
            node_ip_address=source_address(self._address),
            num_cpus=0,
            num_gpus=0,
            temp_dir=str(self._folder),
            node_name=NAME,
        )


def source_address(address: str) -> str:
    """The address of this machine from which packets to HOST:PORT leave. Nothing is sent. Raises OSError."""
    host, _, port = address.rpartition(":")
    (family, kind, _, _, target), *_ = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_DGRAM)
    with socket.socket(family, kind) as probe:
        probe.connect(target)
        return str(probe.getsockname()[0])
