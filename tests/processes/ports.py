"""A port for a server that starts later: one that the kernel gives nobody meanwhile."""

import random
import socket
from pathlib import Path

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_FIRST = 20_000  # above those of Ray's workers


def free_port() -> int:
    """A TCP port of this machine that nobody has; below those that clients and servers on port 0 are given."""
    behind = int(_RANGE.read_text().split()[0]) if _RANGE.is_file() else 2**15
    for port in random.SystemRandom().sample(range(min(_FIRST, behind - 1000), behind), 500):
        with socket.socket() as probe:
            try:
                probe.bind(("", port))
            except OSError:
                continue
            return port
    raise OSError(f"no port is free below {behind}")
