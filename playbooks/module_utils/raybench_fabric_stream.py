"""A TCP transfer of our own, for hosts without iperf3: zeros to the server, counted where they arrive."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time

_BLOCK = 1 << 20


class Receiver:
    """The server's side: so many connections, counted from the first byte to the last."""

    def __init__(self, address, port, streams):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._listener = socket.socket(family)
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind((address, port))
        self._listener.listen(streams)
        self._listener.settimeout(0.2)
        self._lock = threading.Lock()
        self._bytes, self._first, self._last = 0, None, None
        self._stopped = threading.Event()
        self._streams = streams
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self):
        readers = []
        while len(readers) < self._streams and not self._stopped.is_set():
            with contextlib.suppress(OSError):
                connection, _ = self._listener.accept()
                readers.append(threading.Thread(target=self._read, args=(connection,), daemon=True))
                readers[-1].start()
        for reader in readers:
            reader.join()

    def _read(self, connection):
        buffer = bytearray(_BLOCK)
        connection.settimeout(1.0)
        with connection:
            while not self._stopped.is_set():
                try:
                    count = connection.recv_into(buffer)
                except TimeoutError:
                    continue
                except OSError:
                    return
                now = time.monotonic()
                with self._lock:
                    self._first = self._first or now
                    self._last = now
                    self._bytes += count
                if not count:
                    return

    def end(self, seconds=3.0):
        """Stop, and return the figure as one line of JSON."""
        self._thread.join(seconds)
        self._stopped.set()
        self._listener.close()
        with self._lock:
            elapsed = self._last - self._first if self._first is not None else 0.0
            return json.dumps({"received_bytes": self._bytes, "seconds": elapsed, "streams": self._streams})


def send(address, port, seconds, streams, stopped):
    """The client's side: send for so long over so many connections. Raises OSError when one breaks or none comes up."""
    connections = [socket.create_connection((address, port), timeout=5.0) for _ in range(streams)]
    trouble = []

    def push(connection):
        block = memoryview(bytes(_BLOCK))
        end = time.monotonic() + seconds
        connection.settimeout(seconds + 5.0)
        try:
            with connection:
                while time.monotonic() < end and not stopped():
                    connection.sendall(block)
                connection.shutdown(socket.SHUT_WR)
        except OSError as error:
            trouble.append(error)

    senders = [threading.Thread(target=push, args=(connection,), daemon=True) for connection in connections]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join(seconds + 10.0)
    if trouble:
        raise trouble[0]
