"""A TCP transfer, timed by the receiver: ``transfer.py receive`` in a node, ``transfer.py send ADDRESS`` in another."""

import socket
import sys
import time

PORT = 5001
SECONDS = 1.2
SKIPPED_SECONDS = 0.2  # the first queue fills and TCP finds its window
_CHUNK = bytes(1 << 16)


def send(address: str) -> None:
    """Send zeros for a while."""
    with socket.create_connection((address, PORT), timeout=10) as connection:
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            connection.sendall(_CHUNK)


def receive() -> float:
    """Payload bits per second that arrive from one sender, without the first moments."""
    with socket.create_server(("", PORT)) as server:
        print("listening", flush=True)
        connection, _ = server.accept()
    with connection:
        begun = time.monotonic()
        while time.monotonic() < begun + SKIPPED_SECONDS:
            connection.recv(1 << 16)
        counted, start, last = 0, time.monotonic(), 0.0
        while received := len(connection.recv(1 << 16)):
            counted += received
            last = time.monotonic()
    return counted * 8 / (last - start)


if __name__ == "__main__":
    if sys.argv[1] == "send":
        send(sys.argv[2])
    else:
        print(receive())
