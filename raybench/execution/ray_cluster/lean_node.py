"""One Ray node in this process's care, without what raybench does not use.

A node of Ray is a daemon (raylet) and two helper processes in Python, which serve the dashboard and install runtime
environments. Nothing here uses either, and they cost most of a node's start (figures in docs/architecture.md). So each
helper is replaced by ``cat``, which does nothing until its standard input ends with the daemon. This reaches into Ray's
private classes.
"""

import importlib
import shutil
from typing import Any

LOOPBACK = "127.0.0.1"
_OBJECT_STORE_BYTES = 80 * 2**20  # the least that Ray accepts is 75 MiB; nothing is stored


def start_node(node_class: Any, *, head: bool, **parameters: Any) -> Any:
    """Start a node of ``lean_node_class``, with these of Ray's parameters; it ends with the thread that calls.

    Raises AttributeError, TypeError or ImportError where this release of Ray has other classes, and Ray's own errors.
    """
    from ray._private.parameter import RayParams

    lean = RayParams(
        object_store_memory=_OBJECT_STORE_BYTES,
        min_worker_port=0,
        max_worker_port=0,
        node_manager_port=0,
        include_dashboard=False,
        include_log_monitor=False,  # type: ignore[arg-type]  # annotated as a text
        no_monitor=True,
        **parameters,
    )
    return node_class(lean, head=head, shutdown_at_exit=False, spawn_reaper=True)


def lean_node_class() -> Any:
    """Ray's Node without dashboard and helper processes."""
    from ray._private import services
    from ray._private.node import Node

    _raylet: Any = importlib.import_module("ray._raylet")
    ports = (
        _raylet.METRICS_AGENT_PORT_NAME,
        _raylet.METRICS_EXPORT_PORT_NAME,
        _raylet.DASHBOARD_AGENT_LISTEN_PORT_NAME,
        _raylet.RUNTIME_ENV_AGENT_PORT_NAME,
    )
    _replace_helpers(services)
    _keep_loopback(services)

    class LeanNode(Node):
        def start_api_server(self, **_: Any) -> None:
            """No dashboard."""

        def start_raylet(self, *args: Any, **options: Any) -> Any:
            """Write the port files that the daemon waits for, as helpers without services write them."""
            for name in ports:
                _raylet.persist_port(self._session_dir, self._node_id, name, -1)
            return super().start_raylet(*args, **options)

    return LeanNode


def _keep_loopback(services: Any) -> None:
    """Have ``ray.init`` take 127.0.0.1 for what it is, not for the machine's address, where our daemons do not listen.

    A cluster that the user has on this machine is still found by its own address.
    """
    if getattr(services.resolve_ip_for_localhost, "lean", False):
        return
    original = services.resolve_ip_for_localhost

    def resolve_ip_for_localhost(host: str) -> str:
        return host if host == LOOPBACK else str(original(host))

    resolve_ip_for_localhost.lean = True  # type: ignore[attr-defined]  # mypy knows no attributes of functions
    services.resolve_ip_for_localhost = resolve_ip_for_localhost


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

    start_ray_process.lean = True  # type: ignore[attr-defined]  # mypy knows no attributes of functions
    services.start_ray_process = start_ray_process
