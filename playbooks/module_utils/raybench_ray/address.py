"""Which of a host's addresses its Ray node takes: one that the other nodes reach."""

from __future__ import annotations

import contextlib
import socket

from .errors import NodeError


def own_address(wanted: str, head: str, *, required: bool) -> str:
    """An address of this host: the one wanted where it is ours, else the one from which the head is reached.

    What ssh connects to may be a jump host's alias or lie behind a translation of addresses; then it is not ours, and
    for a head the source of the default route is taken. Raises NodeError with ``required``, or where none is found.
    """
    for candidate in _resolved(wanted):
        if _is_ours(candidate):
            return candidate
    if required:
        raise NodeError(f"ray_node_address is {wanted!r}, which is not an address of this host")
    target = head.rpartition(":")[0].strip("[]") or "192.0.2.1"  # TEST-NET-1: nothing is sent
    source = _source_towards(target)
    if source is None and not head:
        source = next((one for one in _resolved(socket.gethostname()) if _is_ours(one)), None)
    if source is None:
        raise NodeError("no address of this host could be found; set ray_node_address for it")
    return source


def _resolved(name: str) -> list[str]:
    """Addresses of a name, those of IPv4 first. Nothing where it cannot be resolved."""
    with contextlib.suppress(OSError, UnicodeError):
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM) if name else []
        return [str(entry[4][0]) for entry in sorted(found, key=lambda entry: entry[0] != socket.AF_INET)]
    return []


def _is_ours(address: str) -> bool:
    """Whether a socket can be bound to an address."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.bind((address, 0))
    except OSError:
        return False
    return True


def _source_towards(target: str) -> str | None:
    """The address from which packets to a target leave. Nothing is sent."""
    family = socket.AF_INET6 if ":" in target else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((target, 9))
            source: str = probe.getsockname()[0]
            return source
    except OSError:
        return None


def free_port() -> int:
    """A port that nothing listens on at the moment."""
    with socket.socket() as server:
        server.bind(("", 0))
        port: int = server.getsockname()[1]
        return port
