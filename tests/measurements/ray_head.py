"""A running Ray cluster of this machine to attach to, owned and ended by the benchmark."""

import contextlib
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.measurements.process import LaunchError, end_tree, script, start

_START_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RayHead:
    """Where it is, the variables that a driver needs to join it, and the processes that hold its nodes."""

    address: str
    variables: dict[str, str]
    pids: tuple[int, ...]


@contextlib.contextmanager
def ray_head(cpus: int = 4, workers: int = 0, gpus: int = 0) -> Iterator[RayHead]:
    """Ray on this machine while the block lasts, with a token of its own and workers at niceness 0.

    The head is ``node-1``; ``workers`` are further nodes, which share its processors.
    """
    folder = Path(tempfile.mkdtemp(prefix="rbb-"))
    port = free_port()
    variables = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_USAGE_STATS_ENABLED": "0"}
    common = [f"--num-cpus={cpus}", f"--num-gpus={gpus}", "--object-store-memory=100000000", "--disable-usage-stats"]
    head = ["--head", f"--port={port}", f"--temp-dir={folder}", "--include-dashboard=false", *common]
    worker = [f"--address=127.0.0.1:{port}", "--dashboard-agent-listen-port=0", *common]
    daemons: list[subprocess.Popen[str]] = []
    try:
        for number, words in enumerate([head, *[worker] * workers], 1):
            command = [*script("ray", ["-m", "ray.scripts.scripts"]), "start", "--block", "--node-ip-address=127.0.0.1"]
            command += [f"--node-name=node-{number}", *words]
            daemons.append(start(command, extra=variables | {"RAY_worker_niceness": "0"}))
            _wait_for(daemons[-1].stdout)
        pids = tuple(daemon.pid for daemon in daemons)
        yield RayHead(address=f"127.0.0.1:{port}", variables=variables, pids=pids)
    finally:
        for daemon in reversed(daemons):
            end_tree(daemon)
        shutil.rmtree(folder, ignore_errors=True)


def _wait_for(output: Iterable[str] | None) -> None:
    assert output is not None
    deadline = time.monotonic() + _START_SECONDS
    said = []
    for line in output:
        said.append(line)
        if "Ray runtime started" in line:
            return
        if time.monotonic() > deadline:
            break
    raise LaunchError(f"ray start did not come up: {''.join(said)[-2000:]}")


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
