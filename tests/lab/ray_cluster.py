"""Ray on the nodes of a lab: one head, any number of workers, each a ``ray start --block`` that is kept as our child.

Ray 2.60 refuses to start a head without a token. Every node finds the lab's at ``~/.ray/auth_token``, mode 0600, where
Ray looks by itself once RAY_AUTH_MODE is ``token``; no token is on a command line or in an environment.
"""

import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .errors import LabSetupError
from .node import Node

GCS_PORT = 6379
TOKEN_FILE = "/root/.ray/auth_token"
CLIENT_ENVIRONMENT = {"RAY_AUTH_MODE": "token"}
DAEMON_ENVIRONMENT = {"RAY_worker_niceness": "0", "RAY_USAGE_STATS_ENABLED": "0"}
_STARTED = "Ray runtime started."
_POLL_SECONDS = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class RayShape:
    """What each node declares to Ray. GPUs are numbers only: nothing checks that there are devices."""

    cpus: int = 2
    gpus: int = 0
    object_store_bytes: int = 100_000_000

    def options(self) -> list[str]:
        """Options of ``ray start`` for every node. The log monitor costs half a CPU second, and nobody reads it."""
        return [
            f"--num-cpus={self.cpus}",
            f"--num-gpus={self.gpus}",
            f"--object-store-memory={self.object_store_bytes}",
            "--node-manager-port=6380",
            "--object-manager-port=6381",
            "--include-log-monitor=false",
            "--disable-usage-stats",
            "--block",
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class RayDaemon:
    """Ray on one node: ``process`` is the escort of ``ray start``, which writes to ``log``."""

    node: Node
    process: subprocess.Popen[str]
    log: Path

    @property
    def started(self) -> bool:
        """Whether the node is registered with the head. Raises LabSetupError when ``ray start`` gave up."""
        text = self.log.read_text()
        if _STARTED not in text and self.process.poll() is not None:
            raise LabSetupError(f"Ray did not start on {self.node.hostname}: {text.strip()[-2000:]}")
        return _STARTED in text


def start_daemon(node: Node, head: Node, shape: RayShape, *, log: Path, environment: Mapping[str, str]) -> RayDaemon:
    """Start Ray on a node without waiting for it. A worker started before its head waits for it."""
    role = ["--head", f"--port={GCS_PORT}", "--include-dashboard=false", "--no-monitor"]
    joining = [f"--address={head.address}:{GCS_PORT}"]
    command = ["python", "-m", "ray.scripts.scripts", "start", f"--node-ip-address={node.address}"]
    command += [*(role if node is head else joining), *shape.options()]
    with log.open("w") as output:
        process = node.popen(command, environment=environment, stdout=output, stderr=subprocess.STDOUT)
    return RayDaemon(node=node, process=process, log=log)


def wait_started(daemons: Sequence[RayDaemon], timeout: float) -> None:
    """Return once every node is registered. Raises LabSetupError that names those that are not."""
    deadline = time.monotonic() + timeout
    while missing := [daemon for daemon in daemons if not daemon.started]:
        if time.monotonic() > deadline:
            names = ", ".join(daemon.node.hostname for daemon in missing)
            raise LabSetupError(
                f"Ray did not start within {timeout:g} s on {names}: {missing[0].log.read_text().strip()[-2000:]}"
            )
        time.sleep(_POLL_SECONDS)
