"""A Ray cluster of N nodes on this machine: real Ray daemons, emulated machines.

A node of Ray is a daemon (raylet) and two helper processes in Python, which serve the dashboard and install runtime
environments. An embedded cluster uses neither, and they cost most of its start (figures in docs/architecture.md). So
each helper is replaced by ``cat``, which does nothing until its standard input ends with the daemon. This reaches into
Ray's private classes; where a release has changed them, EmbeddedClusterError says so, and a cluster started with
``ray start`` is the way round.
"""

import contextlib
import importlib
import os
import secrets
import shutil
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil

from raybench.cluster.bounded import leave_behind
from raybench.errors import IncompleteRunError

_OBJECT_STORE_BYTES = 80 * 2**20  # the least that Ray accepts is 75 MiB; nothing is stored
_END_SECONDS = 3.0


class EmbeddedClusterError(IncompleteRunError):
    """Ray's nodes could not be started on this machine."""


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

    def __init__(self, *, folder: Path, cpus_per_node: int, gpus: Sequence[Sequence[str]]) -> None:
        """One node for each entry of ``gpus``: the ids of the GPUs, of this machine, that it has for itself.

        ``folder`` is for the daemons' files and sockets: its path must be short.
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
                "its address with --address, or install the Ray of constraints.txt."
            ) from error
        except Exception as error:
            self.close()
            raise EmbeddedClusterError(f"the embedded Ray cluster did not start: {error}") from error
        except BaseException:  # Ctrl-C: the threads may wait for daemons that are now gone, half a minute long
            self.close()
            leave_behind("starting Ray")
            raise

    @property
    def address(self) -> str:
        """HOST:PORT for ``ray.init``."""
        return str(self._nodes[0].gcs_address)

    def kill_node(self, index: int) -> None:
        """End one node at once, as a machine that loses power: for tests."""
        self._nodes[index].kill_all_processes(check_alive=False, allow_graceful=False)

    def close(self) -> None:
        """End all processes of the cluster."""
        with self._closing:
            started = _descendants(str(self._folder))
            for node in reversed(self._nodes):
                with contextlib.suppress(Exception):
                    node.kill_all_processes(check_alive=False, allow_graceful=False)
            self._nodes.clear()
            _end(started)
            self._threads.shutdown(wait=False)

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
        from ray._private.parameter import RayParams  # noqa: PLC0415

        parameters = RayParams(
            gcs_address=head,
            num_cpus=cpus,
            num_gpus=len(gpus),
            env_vars={"CUDA_VISIBLE_DEVICES": ",".join(gpus)} if gpus else None,
            object_store_memory=_OBJECT_STORE_BYTES,
            min_worker_port=0,
            max_worker_port=0,
            node_manager_port=0,
            include_dashboard=False,
            include_log_monitor=False,  # type: ignore[arg-type]
            no_monitor=True,
            temp_dir=str(self._folder),
            node_name=f"node-{index + 1}",
            raylet_socket_name=str(self._folder / f"r{index}"),  # Ray's own choice is racy between threads
            plasma_store_socket_name=str(self._folder / f"p{index}"),
        )
        return node_class(parameters, head=head is None, shutdown_at_exit=False, spawn_reaper=True)


def lean_node_class() -> Any:
    """Ray's Node without dashboard and helper processes."""
    from ray._private import services  # noqa: PLC0415
    from ray._private.node import Node  # noqa: PLC0415

    _raylet: Any = importlib.import_module("ray._raylet")
    ports = (
        _raylet.METRICS_AGENT_PORT_NAME,
        _raylet.METRICS_EXPORT_PORT_NAME,
        _raylet.DASHBOARD_AGENT_LISTEN_PORT_NAME,
        _raylet.RUNTIME_ENV_AGENT_PORT_NAME,
    )
    _replace_helpers(services)

    class LeanNode(Node):
        def start_api_server(self, **_: Any) -> None:
            """No dashboard."""

        def start_raylet(self, *args: Any, **options: Any) -> Any:
            """Write the port files that the daemon waits for, as helpers without services write them."""
            for name in ports:
                _raylet.persist_port(self._session_dir, self._node_id, name, -1)
            return super().start_raylet(*args, **options)

    return LeanNode


def _replace_helpers(services: Any) -> None:
    """Have Ray's own launcher start ``cat`` where the command line of a daemon names a helper. Once a process."""
    if getattr(services.start_ray_process, "lean", False):
        return
    original = services.start_ray_process
    cat = shutil.which("cat") or "/bin/cat"

    def start_ray_process(command: list[str], *args: Any, **options: Any) -> Any:
        helpers = ("--dashboard_agent_command=", "--runtime_env_agent_command=")
        lean = [next((f"{name}{cat}" for name in helpers if word.startswith(name)), word) for word in command]
        return original(lean, *args, **options)

    start_ray_process.lean = True  # type: ignore[attr-defined]
    services.start_ray_process = start_ray_process


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
