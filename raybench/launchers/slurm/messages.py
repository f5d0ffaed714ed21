"""What the batch program tells the task of a node, and hears of it: one JSON line each way, through srun's pipes."""

from collections.abc import Mapping
from typing import Literal

import msgspec


class NodeOrder(msgspec.Struct, frozen=True, kw_only=True):
    """The Ray node that a task shall hold. The token goes through the pipe: no variable or argument has it.

    ``head``: HOST:PORT of the head, None for the head itself. ``toward``: HOST:PORT of a peer, by which the node's own
    address is chosen; empty where it is alone. ``job`` keeps the ports of two jobs on one node apart.
    """

    name: str
    token: str
    job: str
    head: str | None = None
    toward: str = ""
    start_seconds: float = 120.0
    environment: Mapping[str, str] = {}


class NodeState(msgspec.Struct, frozen=True, kw_only=True):
    """What became of it. ``address``: HOST:PORT of the head; ``token_path``: where this node has the token."""

    phase: Literal["ready", "failed", "ended"]
    address: str = ""
    token_path: str = ""
    reason: str = ""


def bracketed(address: str) -> str:
    """An address as it stands before ``:PORT``."""
    return f"[{address}]" if ":" in address else address
