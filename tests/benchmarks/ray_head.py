"""A running Ray cluster of one node to attach to, owned and ended by the benchmark."""

import contextlib
import secrets
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .process import LaunchError, end_tree, script, start

_START_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RayHead:
    """Where it is, and the variables that a driver needs to join it."""

    address: str
    variables: dict[str, str]


@contextlib.contextmanager
def ray_head(cpus: int = 4) -> Iterator[RayHead]:
    """Ray on this machine while the block lasts, with a token of its own and workers at niceness 0."""
    folder = Path(tempfile.mkdtemp(prefix="rbb-"))
    port = free_port()
    variables = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_USAGE_STATS_ENABLED": "0"}
    command = [
        *script("ray", ["-m", "ray.scripts.scripts"]),
        "start",
        "--head",
        "--block",
        "--node-ip-address=127.0.0.1",
    ]
    command += [f"--port={port}", f"--num-cpus={cpus}", "--num-gpus=0", "--include-dashboard=false"]
    command += [f"--temp-dir={folder}", "--object-store-memory=100000000", "--disable-usage-stats"]
    daemon = start(command, extra=variables | {"RAY_worker_niceness": "0"})
    try:
        _wait_for(daemon.stdout)
        yield RayHead(address=f"127.0.0.1:{port}", variables=variables)
    finally:
        end_tree(daemon)
        shutil.rmtree(folder, ignore_errors=True)


def _wait_for(output: object) -> None:
    deadline = time.monotonic() + _START_SECONDS
    said = []
    for line in output:  # type: ignore[attr-defined]
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
