"""A Ray cluster of N nodes on this machine: real Ray daemons, emulated machines.

Where a release of Ray has changed the private classes that this needs (see ``lean_node``), EmbeddedClusterError says
so, and a cluster started with ``ray start`` is the way round.
"""

import contextlib
import os
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil

from raybench.errors import IncompleteRunError, UsageError
from raybench.execution.ray_cluster.lean_node import LOOPBACK, lean_node_class, start_node
from raybench.installation import RAY_TESTED

_END_SECONDS = 3.0
_NODES_A_CORE = 32  # ten nodes start in 2 s on two cores; what shares a core with more measures the scheduler
_NODE_BYTES = 64 * 2**20  # resident, of a node's daemon; ten nodes and the head take 0.6 GiB


class EmbeddedClusterError(IncompleteRunError):
    """Ray's nodes could not be started on this machine."""


def check_room(nodes: int) -> None:
    """Raises UsageError for more nodes than this machine has cores and free memory for."""
    cores, free = len(os.sched_getaffinity(0)), psutil.virtual_memory().available
    most = max(1, min(_NODES_A_CORE * cores, free // _NODE_BYTES))
    if nodes > most:
        raise UsageError(
            f"{nodes} emulated nodes do not fit on this machine: at most {most}, with {cores} cores and "
            f"{free / 2**30:.1f} GiB free. Ask for fewer with --nodes, or join a real cluster with --address HOST:PORT."
        )


def set_ray_variables() -> None:
    """Settings that Ray reads from the environment, for the daemons that this process starts and for itself."""
    os.environ.update(
        RAY_AUTH_MODE="token",
        RAY_AUTH_TOKEN=secrets.token_hex(32),  # this cluster's own: nobody else on the machine can use it
        RAY_USAGE_STATS_ENABLED="0",
        RAY_worker_niceness="0",
        RAY_gcs_rpc_server_reconnect_timeout_s="86400",
        RAY_health_check_initial_delay_ms="1000",
        RAY_health_check_period_ms="1000",
        RAY_health_check_timeout_ms="3000",
        RAY_health_check_failure_threshold="3",
        RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO="0",
    )
    os.environ.pop("RAY_ADDRESS", None)


class EmbeddedCluster:
    """N Ray nodes on this machine, named ``node-1`` to ``node-N``. They end with this process, however it ends."""

    def __init__(
        self,
        *,
        folder: Path,
        cpus_per_node: int,
        gpus: Sequence[Sequence[str]],
        troubled: Callable[[], None] = lambda: None,
    ) -> None:
        """One node for each entry of ``gpus``: the ids of the GPUs, of this machine, that it has for itself.

        ``folder`` is for the daemons' files and sockets: its path must be short. ``troubled`` is called where Ray does
        not start, before what did start is ended.
        Raises EmbeddedClusterError when Ray does not start.
        """
        self._folder = folder
        self._nodes: list[Any] = []
        self._closing = threading.Lock()
        # A daemon is ended by the kernel when the thread that started it ends, so the threads live as long as it does.
        self._threads = ThreadPoolExecutor(max_workers=max(len(gpus), 1))
        try:
            self._start(cpus_per_node, gpus)
        except (AttributeError, TypeError, ImportError) as error:
            self.close()
            raise EmbeddedClusterError(
                f"this release of Ray cannot be embedded ({error}). Start a cluster with 'ray start --head' and give "
                f"its address with --address, or pip install ray=={RAY_TESTED}."
            ) from error
        except Exception as error:
            troubled()
            self.close()
            raise EmbeddedClusterError(f"the embedded Ray cluster did not start: {error}") from error
        except BaseException:  # Ctrl-C
            self.close()
            raise

    @property
    def address(self) -> str:
        """HOST:PORT for ``ray.init``."""
        return str(self._nodes[0].gcs_address)

    def close(self) -> None:
        """End all processes of the cluster."""
        with self._closing:
            started = _descendants(str(self._folder))
            for node in reversed(self._nodes):
                with contextlib.suppress(Exception):
                    node.kill_all_processes(check_alive=False, allow_graceful=False)
            self._nodes.clear()
            _end(started)
            self._threads.shutdown(wait=False, cancel_futures=True)  # a node that has not begun to start never does

    def _start(self, cpus: int, gpus: Sequence[Sequence[str]]) -> None:
        node_class = lean_node_class()
        self._nodes.append(self._threads.submit(self._node, node_class, 0, cpus, gpus[0], None).result())
        head = self.address
        waiting = [
            self._threads.submit(self._node, node_class, index, cpus, count, head)
            for index, count in enumerate(gpus)
            if index
        ]
        self._nodes += [future.result() for future in waiting]

    def _node(self, node_class: Any, index: int, cpus: int, gpus: Sequence[str], head: str | None) -> Any:
        return start_node(
            node_class,
            head=head is None,
            gcs_address=head,
            node_ip_address=LOOPBACK,  # Ray's daemons and workers then listen nowhere else
            num_cpus=cpus,
            num_gpus=len(gpus),
            env_vars={"CUDA_VISIBLE_DEVICES": ",".join(gpus)} if gpus else None,
            temp_dir=str(self._folder),
            node_name=f"node-{index + 1}",
            raylet_socket_name=str(self._folder / f"r{index}"),  # Ray's own choice is racy between threads
            plasma_store_socket_name=str(self._folder / f"p{index}"),
        )


def _descendants(folder: str) -> list[psutil.Process]:
    """Processes below this one that belong to the cluster: daemons name its folder, workers are their children."""
    found = []
    for child in psutil.Process().children(recursive=False):
        with contextlib.suppress(psutil.Error):
            if any(folder in word for word in child.cmdline()):
                found += [child, *child.children(recursive=True)]
    return found


def _end(processes: list[psutil.Process]) -> None:
    """Kill what is left, at once: their daemons are dead, and an idle worker takes over a second to notice.

    One that has ended counts as gone even where nobody collects its status (pid 1 of many containers does not).
    """
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.kill()
    deadline = time.monotonic() + _END_SECONDS
    while any(map(_runs, processes)) and time.monotonic() < deadline:
        time.sleep(0.01)


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
