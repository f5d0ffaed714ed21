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
# With Ray's own settings a node that loses power stays "alive" for about a minute; with these for a few seconds.
QUICK_DEATH_SETTINGS = {
    "RAY_health_check_initial_delay_ms": "0",
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "4",
}
_REGISTERED = "Ray runtime started."
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

    def wait_for(self, words: str, deadline: float) -> None:
        """Return once ``ray start`` has printed these words. Raises LabSetupError when it ends or time is up."""
        while words not in (text := self.log.read_text()):
            late = time.monotonic() > deadline
            if late or self.process.poll() is not None:
                how = "did not get there in time" if late else f"ended with status {self.process.returncode}"
                raise LabSetupError(f"ray start on {self.node.hostname} {how}. It wrote: {text.strip()[-2000:]}")
            time.sleep(_POLL_SECONDS)


def start_daemons(
    nodes: Sequence[Node], shape: RayShape, *, log_folder: Path, environment: Mapping[str, str], deadline: float
) -> list[RayDaemon]:
    """Start Ray on all nodes at once, the head on the first, and return when every node is registered with it.

    Workers ask for their head again every two seconds. Starting them later, or with Ray imported and held back until
    the head is there, was no faster.
    """
    daemons = [_start(node, nodes[0], shape, log_folder, environment) for node in nodes]
    for daemon in daemons:
        daemon.wait_for(_REGISTERED, deadline)
    return daemons


def _start(node: Node, head: Node, shape: RayShape, log_folder: Path, environment: Mapping[str, str]) -> RayDaemon:
    role = [f"--address={head.address}:{GCS_PORT}"]
    if node is head:
        role = ["--head", f"--port={GCS_PORT}", "--include-dashboard=false", "--no-monitor"]
    command = ["python", "-m", "tests.lab.lean_start", "start", f"--node-ip-address={node.address}"]
    log = log_folder / f"{node.hostname}-ray.log"
    with log.open("w") as output:
        process = node.popen(
            [*command, *role, *shape.options()], environment=environment, stdout=output, stderr=subprocess.STDOUT
        )
    return RayDaemon(node=node, process=process, log=log)
