"""How ranks come to MLX's ring: each opens a port of its own, all learn the ports of all, then MLX connects them.

MLX reads the addresses from a file, ``[["10.0.0.1:40001"], ["10.0.0.2:40001"]]``, a list of addresses for each rank in
rank order, which MLX_HOSTFILE names, and MLX_RANK says which of them this process is.
"""

import json
import os
import socket
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil
from torch._C._distributed_c10d import Store

from raybench.benchmarks.rank.assignment import RankAssignment
from raybench.installation import install_advice

MODULE = "mlx.core"
_ANY_PORT = 9  # no packet is sent to find a route


class MissingMlxError(RuntimeError):
    """This node has no MLX."""


def mlx_core() -> Any:
    """The library. Raises MissingMlxError, with what to install, where it cannot be imported."""
    try:
        import mlx.core
    except ImportError as error:
        raise MissingMlxError(f"MLX cannot be imported on this node ({error}): {install_advice('mlx')}") from error
    return mlx.core


def mlx_version() -> str:
    """``0.32.4``; ``unknown`` where MLX was not installed as a package."""
    try:
        return version("mlx")
    except PackageNotFoundError:
        return "unknown"


def meet(assignment: RankAssignment, store: Store) -> Any:
    """MLX's group of all ranks. Every rank must call it; waits for the others as long as the store does.

    Raises MissingMlxError, and RuntimeError where the ranks cannot connect to each other.
    """
    mlx = mlx_core()
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as held:  # until every rank has a port
        held.bind((_own_address(assignment), 0))  # and never listens: who answers would be taken for MLX
        store.set(_key(assignment.rank), "{}:{}".format(*held.getsockname()))
        places = [[store.get(_key(rank)).decode()] for rank in range(assignment.world_size)]
    with tempfile.TemporaryDirectory(prefix="raybench-mlx-") as folder:
        path = Path(folder, "hosts.json")
        path.write_text(json.dumps(places), encoding="ascii")
        os.environ |= {"MLX_RANK": str(assignment.rank), "MLX_HOSTFILE": str(path)}
        try:
            return mlx.distributed.init(strict=True, backend="ring")
        finally:
            del os.environ["MLX_RANK"], os.environ["MLX_HOSTFILE"]


def _key(rank: int) -> str:
    return f"raybench/mlx/{rank}"


def _own_address(assignment: RankAssignment) -> str:
    """The IPv4 address of the interface that ranks were told to use, else of the route to rank 0."""
    chosen = psutil.net_if_addrs().get(os.environ.get("GLOO_SOCKET_IFNAME", ""), [])
    own = next((one.address for one in chosen if one.family == socket.AF_INET), None)
    if own is not None:
        return own
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((assignment.master_address, _ANY_PORT))
        return str(probe.getsockname()[0])
