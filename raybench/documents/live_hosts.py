"""How hosts stand now by their agents, where no run of ours watches them: ``raybench top HOST...``."""

from typing import Literal

import msgspec

from raybench.documents.live_run import LiveRemarkLine

HostState = Literal["connecting", "watched", "lost"]


class LiveHost(msgspec.Struct, frozen=True, kw_only=True):
    """A host. ``reason``: why it is not watched; ``silent_seconds``: for how long nothing was read, where too long.

    Times of ``warnings`` are seconds since the command's start. ``reboots``: how often it came with another boot id.
    """

    name: str
    state: HostState
    reason: str = ""
    figures: dict[str, float] = {}
    silent_seconds: float | None = None
    warnings: tuple[LiveRemarkLine, ...] = ()
    reboots: int = 0


class LiveHosts(msgspec.Struct, frozen=True, kw_only=True):
    """All of them."""

    schema: Literal["raybench.live_hosts/1"] = "raybench.live_hosts/1"
    written_at: float
    elapsed_seconds: float
    hosts: tuple[LiveHost, ...]
