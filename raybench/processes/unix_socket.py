"""A connection over a UNIX socket that may not be there yet."""

import socket
import time
from multiprocessing.connection import Connection

_RETRY_SECONDS = 0.01


def connect(path: str, seconds: float) -> Connection:
    """Connect to the socket at ``path``, waiting for it to appear. Raises TimeoutError when it does not."""
    deadline = time.monotonic() + seconds
    while True:
        client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            client.connect(path)
            return Connection(client.detach())
        except (FileNotFoundError, ConnectionRefusedError):
            client.close()
            if time.monotonic() > deadline:
                raise TimeoutError(f"nothing listens on {path} after {seconds:.0f} s") from None
            time.sleep(_RETRY_SECONDS)
