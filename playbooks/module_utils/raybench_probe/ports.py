"""TCP ports between hosts: listen for a while, and try whether others are reached."""

from __future__ import annotations

import errno
import os
import select
import signal
import socket
import threading
import time
from collections.abc import Sequence
from typing import Any, NoReturn

from .process import Reading

_SLACK_SECONDS = 2.0


def listen(ports: Sequence[int], seconds: float) -> Reading:
    """Listen on ports in a process of its own that ends by itself. Says which could be had: {"6379": "listening"}."""
    sockets: list[socket.socket] = []
    states = {}
    for port in ports:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("0.0.0.0", port))  # noqa: S104 - any address may be the one that others try
            listener.listen(256)
        except OSError as error:
            states[str(port)] = "in use" if error.errno == errno.EADDRINUSE else str(error)
            listener.close()
            continue
        states[str(port)] = "listening"
        sockets.append(listener)
    if sockets and os.fork() == 0:
        _hold(sockets, seconds)
    for listener in sockets:
        listener.close()
    return {"status": "ok", "value": states, "seconds": seconds}


def _hold(sockets: Sequence[socket.socket], seconds: float) -> NoReturn:
    """Be the listening process: accept and close, until the time is over."""
    try:
        os.setsid()
        nowhere = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nowhere, descriptor)
        signal.alarm(int(seconds) + 1)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for listener in select.select(sockets, [], [], max(0.0, deadline - time.monotonic()))[0]:
                listener.accept()[0].close()
    finally:
        os._exit(0)


def reach(hosts: Sequence[Sequence[Any]], ports: Sequence[int], seconds: float) -> list[dict[str, Any]]:
    """Try every port of every host at once: [{"host", "port", "answer", "seconds"}, ...].

    A host is its name and addresses of it, of which the first that is not empty is tried.
    """
    results: list[dict[str, Any]] = []
    threads = [
        threading.Thread(target=lambda h, p: results.append(_try(h, p, seconds)), args=(host, port), daemon=True)
        for host in hosts
        for port in ports
    ]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + seconds + _SLACK_SECONDS
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return sorted(results, key=lambda result: (result["host"], result["port"]))


def _try(host: Sequence[Any], port: int, seconds: float) -> dict[str, Any]:
    begun = time.monotonic()
    for address in [str(one) for one in host[1:] if one] or [str(host[0])]:
        answer = _answer(address, port, seconds)
        if not answer.startswith("name "):
            break
    return {"host": str(host[0]), "port": port, "answer": answer, "seconds": round(time.monotonic() - begun, 3)}


def _answer(address: str, port: int, seconds: float) -> str:
    """What came of connecting to an address: "connected", "refused", "timed out", or what the kernel said."""
    try:
        socket.create_connection((address, port), timeout=seconds).close()
    except socket.gaierror:
        return f"name {address} is not known there"
    except TimeoutError:
        return "timed out"
    except socket.timeout:  # noqa: UP041 - one of its own before Python 3.10
        return "timed out"
    except ConnectionRefusedError:
        return "refused"
    except (OSError, UnicodeError) as error:
        return str(error)
    return "connected"
