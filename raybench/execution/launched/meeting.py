"""How the process of a rank and the run find each other: a port near the launcher's, and a key that both have.

torchrun's own store listens at MASTER_PORT, so that the run takes the first free port of a few above it. Both sides
prove that they have the key (HMAC, ``multiprocessing.connection``), so that what listens there by chance is passed by.
"""

import contextlib
import hashlib
import os
import socket
import struct
import time
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from typing import Any

from raybench.errors import IncompleteRunError

PORTS = 8
_BACKLOG = 4096
_PROOF_SECONDS = 5.0
_RETRY_SECONDS = 0.2
_CONNECT_SECONDS = 5.0


def key_of(secret: str, *job: object) -> bytes:
    """The key of a job: from ``secret``, and from what all its processes know of it, which others may know too."""
    return hashlib.sha256("\0".join(("raybench", secret, *map(str, job))).encode()).digest()


def ports_near(port: int, *, above: bool) -> list[int]:
    """Where a run may listen: at that port where nobody else does, else at the first free one above it."""
    first = port + 1 if above else port
    return [number if number < 65536 else number - PORTS * 2 for number in range(first, first + PORTS)]


def listen(ports: list[int]) -> socket.socket:
    """A listening socket at the first of these ports that is free. Raises IncompleteRunError where none is."""
    dual = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if dual else socket.AF_INET
    for port in ports:
        with contextlib.suppress(OSError):
            return socket.create_server(("", port), family=family, backlog=_BACKLOG, dualstack_ipv6=dual)
    raise IncompleteRunError(
        f"none of the ports {ports[0]} to {ports[-1]} of this machine is free, at which the ranks meet: choose others "
        "with --master-port"
    )


def proven(accepted: socket.socket, key: bytes) -> Connection:
    """The connection of a peer that has the key. Raises OSError or AuthenticationError."""
    _limit(accepted, _PROOF_SECONDS)
    connection = Connection(accepted.detach())
    try:
        deliver_challenge(connection, key)
        answer_challenge(connection, key)
    except (OSError, EOFError, AuthenticationError):
        connection.close()
        raise
    _limit(connection, 0.0)
    return connection


def find(address: str, ports: list[int], key: bytes, seconds: float) -> tuple[Connection, str, str]:
    """A connection to the run, our address on the way there and its own. Raises IncompleteRunError after that time."""
    deadline = time.monotonic() + seconds
    problem = "nobody listens there"
    while True:
        for port in ports:
            try:
                return _connected(address, port, key)
            except AuthenticationError:
                problem = "what listens there is no run of this job"
            except (OSError, EOFError) as error:
                problem = str(error) or problem
        if time.monotonic() > deadline:
            raise IncompleteRunError(
                f"rank 0's process was not found at {address}, ports {ports[0]} to {ports[-1]}, within {seconds:.0f} s "
                f"({problem}); is rank 0 started, and may this machine open connections to it?"
            )
        time.sleep(_RETRY_SECONDS)


def _connected(address: str, port: int, key: bytes) -> tuple[Connection, str, str]:
    opened = socket.create_connection((address, port), timeout=_CONNECT_SECONDS)
    opened.settimeout(None)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    own, there = opened.getsockname()[0], opened.getpeername()[0]
    _limit(opened, _PROOF_SECONDS)
    connection = Connection(opened.detach())
    try:
        answer_challenge(connection, key)
        deliver_challenge(connection, key)
    except (OSError, EOFError, AuthenticationError):
        connection.close()
        raise
    _limit(connection, 0.0)
    return connection, _plain(own), _plain(there)


def _limit(one: Any, seconds: float) -> None:
    """How long a read waits at most; 0 for ever."""
    whole = int(seconds)
    value = struct.pack("ll", whole, int((seconds - whole) * 1e6))
    with socket.socket(fileno=os.dup(one.fileno())) as same:
        same.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, value)


def _plain(address: str) -> str:
    """``::ffff:10.0.0.1`` is 10.0.0.1, as interfaces name it."""
    return address.removeprefix("::ffff:").partition("%")[0]
