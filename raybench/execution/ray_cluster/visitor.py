"""A Ray node without resources on a machine that is no node of a cluster, so that a driver there can join it.

Ray places a driver only beside one of the cluster's own daemons. The machine that brought the cluster up, a login node
say, often has none. The visitor ends with this process, and offers nothing: no rank can be placed on it. The nodes of
the cluster must be able to open connections to this machine.
"""

import contextlib
import os
import shutil
import socket
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

from raybench.errors import ClusterUnavailableError
from raybench.execution.ray_cluster.head_facts import HeadFacts, elsewhere
from raybench.execution.ray_cluster.lean_node import lean_node_class, start_node
from raybench.metadata import interfaces

NAME = "raybench-visitor"
_REACHED_SECONDS = 10.0  # a worker of Ray starts meanwhile


def is_member(facts: HeadFacts) -> bool:
    """Whether one of a cluster's alive nodes is this machine.

    By its address, and by its name, since two networks may use the same addresses.
    """
    own, name = set(interfaces()), socket.gethostname()
    return any(address in own and host in ("", name) for address, host in facts.nodes)


class Visitor:
    """A node named ``raybench-visitor`` of the cluster at ``address``, from entering to leaving the block."""

    def __init__(self, address: str, folder: Path) -> None:
        self._address = address
        self._folder = folder
        self._node: Any = None
        # The daemon is ended by the kernel when the thread that started it ends.
        self._thread = ThreadPoolExecutor(max_workers=1)

    def __enter__(self) -> Self:
        # A driver places node actors and reads their answers: 3.11.7 here and 3.11.2 there are no hindrance.
        os.environ.setdefault("RAY_DEFAULT_PYTHON_VERSION_MATCH_LEVEL", "minor")
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            with _errors_to(self._folder / "start.log"):
                self._node = self._thread.submit(self._start).result()
        except Exception as error:
            self.close()
            raise ClusterUnavailableError(
                f"this machine is not a node of the Ray cluster at '{self._address}' and could not join it to measure "
                f"({' '.join(str(error).split())[:300]}). {elsewhere(self._address)}"
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
            plasma_store_socket_name=str(self._folder / "p"),  # below Ray's own folder, its path may get too long
            raylet_socket_name=str(self._folder / "r"),
            node_name=NAME,
        )


def check_reached(address: str) -> None:
    """Have the head's machine connect to this one, as all nodes must be able to.

    Raises ClusterUnavailableError where it cannot: Ray would say so only after half a minute, by node actors that died.
    """
    import ray

    own = source_address(address)
    family = socket.AF_INET6 if ":" in own else socket.AF_INET
    with socket.create_server((own, 0), family=family) as server:
        server.settimeout(_REACHED_SECONDS)
        place = server.getsockname()[:2]
        task = ray.remote(num_cpus=0, max_retries=0)(_knock)
        asked = task.options(scheduling_strategy=_on_head(address)).remote(*place)
        try:
            server.accept()[0].close()
        except TimeoutError:
            raise ClusterUnavailableError(
                f"the nodes of the Ray cluster at '{address}' cannot open connections to this machine ({own}), which "
                f"a machine that measures beside its nodes needs (tried for {_REACHED_SECONDS:.0f} s). Is there a "
                f"firewall or address translation between? Let them in. {elsewhere(address)}"
            ) from None
        finally:
            ray.cancel(asked, force=True)


def _knock(host: str, port: int) -> None:
    """On the head: open a connection and close it."""
    socket.create_connection((host, port), timeout=_REACHED_SECONDS).close()


def _on_head(address: str) -> Any:
    """Where Ray shall place the knock: on the head's machine where it takes any, else on any node."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    host = address.rpartition(":")[0].strip("[]")
    nodes = [node for node in ray.nodes() if node["Alive"] and node["NodeName"] != NAME]
    first = next((node for node in nodes if node["NodeManagerAddress"] == host), nodes[0])
    return NodeAffinitySchedulingStrategy(first["NodeID"], soft=True)


@contextlib.contextmanager
def _errors_to(path: Path) -> Iterator[None]:
    """Send what is written to standard error within to a file: Ray's C++ writes its warnings there, by number."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with path.open("ab") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def source_address(address: str) -> str:
    """The address of this machine from which packets to HOST:PORT leave. Nothing is sent. Raises OSError."""
    host, _, port = address.rpartition(":")
    (family, kind, _, _, target), *_ = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_DGRAM)
    with socket.socket(family, kind) as probe:
        probe.connect(target)
        return str(probe.getsockname()[0])
