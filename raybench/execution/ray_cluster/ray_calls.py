"""Calls into Ray that must not keep us when the cluster has gone, and a watch on the cluster's head."""

import os
import socket
import threading
import time
from collections.abc import Callable

_PROBE_SECONDS = 2.0
_GONE_SECONDS = 8.0
_MUTE_SECONDS = 14.0  # it takes connections, so it may only be short of processor time


def call_with_timeout(seconds: float, call: Callable[[], object], name: str) -> str | None:
    """Run ``call`` for at most so long. One that does not end is left behind in its thread.

    Returns why it did not come to its end, None where it did.
    """
    problems: list[str] = []
    thread = threading.Thread(target=_tried, args=(call, problems), name=name, daemon=True)
    thread.start()
    thread.join(seconds)
    return f"{name} took more than {seconds:.0f} s" if thread.is_alive() else "; ".join(problems) or None


def _tried(call: Callable[[], object], problems: list[str]) -> None:
    try:
        call()
    except Exception as error:  # noqa: BLE001 - Ray raises many kinds; whoever called is told
        problems.append(f"{type(error).__name__}: {' '.join(str(error).split())[:200]}")


def connection_problem(address: str, seconds: float) -> str | None:
    """None when something listens at HOST:PORT, else why not."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        return "it is not HOST:PORT"
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=seconds).close()
    except (OSError, OverflowError, UnicodeError) as error:
        return str(error)
    return None


def grpc_problem(address: str, seconds: float) -> str | None:
    """None when a gRPC server, as Ray's head is, listens at HOST:PORT, else why not.

    A server of HTTP/2 answers a client's preface with a SETTINGS frame (RFC 9113, 3.4), whose fourth byte is 4.
    """
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=seconds) as connection:
            connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0")
            answer = connection.recv(9)
    except TimeoutError:
        return f"it says nothing within {seconds:.0f} s"
    except OSError as error:
        return str(error)
    return None if len(answer) > 3 and answer[3] == 4 else "it does not speak gRPC"


class NoHead:
    """In place of a HeadWatch where there is no Ray."""

    address = ""

    def problem(self, *, in_trouble: bool = False) -> None:
        """None: nothing can be wrong with it."""

    def close(self) -> None:
        """Nothing to stop."""


class HeadWatch:
    """Asks the head every two seconds. Ray itself says nothing for a minute, and then ends our process.

    A head that is stopped still takes connections, by its kernel, and then says nothing.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self._answered = time.monotonic()
        self._problem = ""
        self._patience_seconds = _GONE_SECONDS
        self._stop = threading.Event()
        threading.Thread(target=self._watch, daemon=True, name="head-watch").start()

    def problem(self, *, in_trouble: bool = False) -> str | None:
        """Why the head has not answered for some seconds, or None. Where the run is ``in_trouble``, fewer will do."""
        silent = time.monotonic() - self._answered
        patience_seconds = _GONE_SECONDS if in_trouble else self._patience_seconds
        return f"{self._problem}, for {silent:.0f} s" if self._problem and silent > patience_seconds else None

    def close(self) -> None:
        """Stop watching."""
        self._stop.set()

    def _watch(self) -> None:
        while not self._stop.wait(_PROBE_SECONDS):
            problem, patience_seconds = connection_problem(self.address, _PROBE_SECONDS), _GONE_SECONDS
            if problem is None and os.environ.get("RAY_USE_TLS", "0") != "1":
                problem, patience_seconds = grpc_problem(self.address, _PROBE_SECONDS), _MUTE_SECONDS
            self._patience_seconds = patience_seconds
            self._problem = problem or ""
            if problem is None:
                self._answered = time.monotonic()
