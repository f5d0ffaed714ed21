"""One Ray node of a job: what each srun of the batch program runs, ``python -m raybench.launchers.slurm.node_task``.

It reads its order from standard input, says there when Ray is up, and takes Ray down when standard input ends: as the
batch program ends, however that happens. Ray itself is held by the supervisor of clusters that are raybench's own
(``playbooks/module_utils/raybench_ray/supervise.py``), which adopts and ends all that Ray starts.
"""

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

from raybench.execution.ray_cluster.visitor import source_address
from raybench.hosts.ansible_setup import data_folder
from raybench.launchers.slurm.messages import NodeOrder, NodeState, bracketed
from raybench.processes.scratch_folder import SHORT_PREFIX, passing_scratch_folder

_READY = "Ray runtime started."
_ORDER_BYTES = 1 << 16
_END_SECONDS = 25.0  # the supervisor takes ten seconds for each of its two steps
_GRACE_SECONDS = 12.0  # after SIGTERM, for who measures to end first; Slurm kills after KillWait, 30 s by default
_POLL_SECONDS = 0.1
_SAID_BYTES = 1500
_OBJECT_STORE_BYTES = 512 * 2**20
# Above what systems serve at, below the ports that kernels choose for connections (net.ipv4.ip_local_port_range).
_FIRST_PORT, _PORTS = 20000, 12000


def main() -> int:
    """Hold a Ray node until standard input ends. Returns 0; 3 where Ray did not start, or ended by itself."""
    asked: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: asked.append(number))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    order = msgspec.json.decode(sys.stdin.buffer.readline(_ORDER_BYTES), type=NodeOrder)
    with passing_scratch_folder(prefix=SHORT_PREFIX) as folder:
        try:
            launch = _launch(order, folder)
        except OSError as error:
            _say(NodeState(phase="failed", reason=f"its address could not be found: {error}"))
            return 3
        with _supervisor(folder) as supervisor:
            return _hold(supervisor, order, launch, folder, asked)


def _hold(
    supervisor: "subprocess.Popen[bytes]", order: NodeOrder, launch: dict[str, Any], folder: Path, asked: list[int]
) -> int:
    deadline = time.monotonic() + order.start_seconds
    ready = False
    while True:
        if supervisor.poll() is not None:
            _say(NodeState(phase="ended" if ready else "failed", reason=f"Ray ended by itself: {_last_words(folder)}"))
            return 3
        if not ready and _phase(folder) == "ready":
            ready = True
            _say(NodeState(phase="ready", address=launch["record"]["address"], token_path=str(folder / "token")))
        if not ready and time.monotonic() > deadline:
            reason = f"Ray was not ready within {order.start_seconds:g} s: {_last_words(folder)}"
            _say(NodeState(phase="failed", reason=reason))
            return 3
        if _told_to_end(asked):
            return 0


def _told_to_end(asked: list[int]) -> bool:
    """Whether the batch program has ended, or Slurm has said that it will kill us and the grace is over."""
    readable, _, _ = select.select([sys.stdin], [], [], _POLL_SECONDS)
    if readable and not os.read(0, 4096):
        return True
    if asked:  # whoever measures was told as well, and needs Ray to end in order
        deadline = time.monotonic() + _GRACE_SECONDS
        while time.monotonic() < deadline:
            readable, _, _ = select.select([sys.stdin], [], [], _POLL_SECONDS)
            if readable and not os.read(0, 4096):
                break
        return True
    return False


@contextlib.contextmanager
def _supervisor(folder: Path) -> Any:
    """The process that holds Ray; it is ended with the block, and by the kernel where this one is killed."""
    program = data_folder("playbooks") / "module_utils" / "raybench_ray" / "supervise.py"
    supervisor = subprocess.Popen(
        [sys.executable, "-I", "-S", str(program), str(folder / "launch.json")],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=_asked_with_parent,  # noqa: PLW1509 - there is one thread
    )
    try:
        yield supervisor
    finally:
        supervisor.terminate()
        try:
            supervisor.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            supervisor.kill()


def _asked_with_parent() -> None:
    """Have the kernel ask the supervisor to end when this process is killed."""
    import ctypes

    ctypes.CDLL(None).prctl(1, signal.SIGTERM)


def _launch(order: NodeOrder, folder: Path) -> dict[str, Any]:
    """What the supervisor is told, written where it looks for it; the token is in a file of its own."""
    token = folder / "token"
    token.touch(mode=0o600)
    token.write_text(order.token)
    own = own_address(order.head or order.toward)
    port = free_port(order.job)
    address = order.head or f"{bracketed(own)}:{port}"
    role = ["--head", f"--port={port}", "--no-monitor"] if order.head is None else [f"--address={order.head}"]
    launch = {
        "id": os.urandom(16).hex(),
        "command": [sys.executable, "-P", "-m", "ray.scripts.scripts", "start", *role, *_words(order, own, folder)],
        "environment": _environment(order, token),
        "log": str(folder / "ray.log"),
        "state": str(folder / "state.json"),
        "ready_text": _READY,
        "record": {"address": address, "name": order.name},
    }
    (folder / "launch.json").write_text(json.dumps(launch))
    return launch


def _words(order: NodeOrder, own: str, folder: Path) -> list[str]:
    """Words of ``ray start`` that heads and workers share. Ports that nobody needs to know are the kernel's choice."""
    words = [
        f"--node-ip-address={own}",
        f"--node-name={order.name}",
        f"--temp-dir={folder}/s",
        f"--num-cpus={max(len(os.sched_getaffinity(0)), 1)}",
        f"--object-store-memory={_OBJECT_STORE_BYTES}",
        *("--node-manager-port=0", "--object-manager-port=0", "--min-worker-port=0", "--max-worker-port=0"),
        f"--dashboard-agent-listen-port={free_port(order.job, 1)}",
        "--include-log-monitor=false",
        "--disable-usage-stats",
        "--block",
    ]
    if order.head is None:
        words += ["--include-dashboard=false", f"--ray-client-server-port={free_port(order.job, 2)}"]
    return words


def _environment(order: NodeOrder, token: Path) -> dict[str, str]:
    """Variables of Ray's daemons, and so of all ranks: those of the job."""
    own = {name: value for name, value in os.environ.items() if name not in ("RAY_ADDRESS", "RAY_AUTH_TOKEN")}
    fixed = {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(token),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_worker_niceness": "0",
    }
    return own | fixed | dict(order.environment)


def own_address(toward: str) -> str:
    """The address of this machine by which packets to a peer, HOST:PORT, leave: its interface towards the peers.

    Without a peer, what the host's name means, else the loopback. Raises OSError for a peer that has no route.
    """
    if toward:
        return source_address(toward)
    with contextlib.suppress(OSError):
        return str(socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)[0][4][0])
    return "127.0.0.1"


def free_port(job: str, number: int = 0) -> int:
    """A port that nobody listens at. Two jobs that begin at the same time on one node begin to look elsewhere."""
    begin = (int("".join(filter(str.isdigit, job)) or 0) * 16 + number * 4) % _PORTS
    for step in range(_PORTS):
        port = _FIRST_PORT + (begin + step) % _PORTS
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as tried, contextlib.suppress(OSError):
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tried.bind(("", port))
            return port
    raise OSError(f"no port from {_FIRST_PORT} to {_FIRST_PORT + _PORTS - 1} is free")


def _phase(folder: Path) -> str:
    try:
        return str(json.loads((folder / "state.json").read_text(encoding="utf-8")).get("phase"))
    except (OSError, ValueError):
        return ""


def _last_words(folder: Path) -> str:
    """The end of Ray's own log, on one line."""
    try:
        with (folder / "ray.log").open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _SAID_BYTES))
            return " ".join(file.read().decode("utf-8", "replace").split())
    except OSError:
        return "it wrote no log"


def _say(state: NodeState) -> None:
    with contextlib.suppress(OSError):
        os.write(1, msgspec.json.encode(state) + b"\n")


if __name__ == "__main__":
    sys.exit(main())
