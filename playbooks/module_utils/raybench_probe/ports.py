"""TCP ports between hosts: listen for a while, and try whether others are reached."""

from __future__ import annotations

import errno
import mmap
import os
import select
import signal
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from .apart import guarded
from .network import addresses
from .process import Reading

_DOOR = "\0raybench-preflight-listener"
_SLACK_SECONDS = 2.0
_EARLY_SECONDS, _PAUSE_SECONDS = 1.0, 0.1
_PARENT_SECONDS = 0.5  # between two looks at the probe that it is for, until that has answered


class _Own:
    """The listener that this process has started, and a byte that they share: whether the probe was answered."""

    pid = 0
    answered: mmap.mmap | None = None


def listen(ports: Sequence[int], seconds: float, connections: int = 0) -> Reading:
    """Listen on ports in a process of its own that ends by itself. Says which could be had: {"6379": "listening"}.

    It ends with this process where that goes before its answer was taken (``answered``): whoever asked is gone. One
    that an earlier preflight left, since a host did not call it, is asked to end first.
    """
    sockets: list[socket.socket] = []
    states = {}
    door = _listeners_door() if ports else None
    for port in ports:
        try:
            listener = listening_socket(port)
        except (OSError, OverflowError) as error:
            states[str(port)] = "in use" if getattr(error, "errno", None) == errno.EADDRINUSE else str(error)
            continue
        states[str(port)] = "listening"
        sockets.append(listener)
    if sockets:
        _Own.answered = mmap.mmap(-1, 1)
        parent = os.getpid()
        _Own.pid = os.fork()
        if _Own.pid == 0:
            _hold(sockets, seconds, connections, door, parent)
    for listener in [*sockets, *([door] if door is not None else [])]:
        listener.close()
    return {"status": "ok", "value": states, "seconds": seconds}


def is_listening() -> bool:
    """Whether the listener that this process started is still there: not all have called it by now."""
    if not _Own.pid:
        return False
    try:
        if os.waitpid(_Own.pid, os.WNOHANG)[0] == 0:
            return True
    except ChildProcessError:
        pass
    _Own.pid = 0
    return False


def answered() -> None:
    """The probe's answer was taken: the listener stays for those that begin later, until its time is over."""
    if _Own.answered is not None:
        _Own.answered[0] = 1


def end_listener() -> bool:
    """End the listener of this user, if there is one. Returns whether there is none now."""
    door = _listeners_door()
    if door is not None:
        door.close()
    return door is not None


def _listeners_door() -> socket.socket | None:
    """A socket at which the listener can be asked to end; one that is there already has ended. None where it stays."""
    name = f"{_DOOR}-{os.geteuid()}"
    for _ in range(20):
        door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            door.bind(name)
            door.listen(8)
        except OSError:
            door.close()
        else:
            return door
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
                other.settimeout(1)
                other.connect(name)
                other.recv(1)  # comes back when it has ended
        except OSError:
            pass
        time.sleep(0.02)
    return None


def listening_socket(port: int) -> socket.socket:
    """A socket that listens for IPv6 and IPv4, or for IPv4 alone where the kernel has no IPv6."""
    try:
        listener = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        address = "::"
    except OSError:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        address = "0.0.0.0"  # noqa: S104 - any address may be the one that others try
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen(256)
    except Exception:
        listener.close()
        raise
    return listener


def _hold(
    sockets: list[socket.socket], seconds: float, connections: int, door: socket.socket | None, parent: int
) -> NoReturn:
    """Be the listening process: accept and close, until the time is over, all have called or nobody asks any more."""
    try:
        os.setsid()
        nowhere = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nowhere, descriptor)
        signal.alarm(int(seconds) + 1)
        deadline = time.monotonic() + seconds
        missing: dict[socket.socket, float] = {listener: connections or float("inf") for listener in sockets}
        while missing and time.monotonic() < deadline and _is_asked(parent):
            waited = [*missing, *([door] if door is not None else [])]
            for listener in select.select(waited, [], [], _next_look_seconds(deadline))[0]:
                if door is not None and listener is door:
                    sockets.append(door.accept()[0])  # learns by its closing, with all the others, that this has ended
                    deadline = 0.0
                    break
                listener.accept()[0].close()
                missing[listener] -= 1
                if missing[listener] <= 0:
                    del missing[listener]
                    listener.close()
    finally:
        os._exit(0)


def _was_answered() -> bool:
    return _Own.answered is not None and _Own.answered[0] == 1


def _is_asked(parent: int) -> bool:
    """Whether the probe goes on, or has given its answer."""
    return _was_answered() or os.getppid() == parent


def _next_look_seconds(deadline: float) -> float:
    left = max(0.0, deadline - time.monotonic())
    return left if _was_answered() else min(left, _PARENT_SECONDS)


def reach(
    hosts: Sequence[Sequence[Any]], ports: Sequence[int], seconds: float, earlier: Sequence[Mapping[str, Any]] = ()
) -> list[dict[str, Any]]:
    """Try every port of every host at once, but those connected ``earlier``: [{"host", "port", "answer", "seconds"}].

    A host is its name, the address that the inventory says others reach it at, and addresses that may be.
    """
    results = [dict(one) for one in earlier if one["answer"] == "connected"]
    done = {(one["host"], int(one["port"])) for one in results}
    threads = [
        threading.Thread(target=lambda h, p: results.append(connect(h, p, seconds)), args=(host, port), daemon=True)
        for host in hosts
        for port in ports
        if (str(host[0]), port) not in done
    ]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + seconds + _SLACK_SECONDS
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    results = results[:]  # a thread that is late adds to the other list
    done = {(one["host"], int(one["port"])) for one in results}
    late = [(str(host[0]), port) for host in hosts for port in ports if (str(host[0]), port) not in done]
    told = "name not resolved in time"  # a connection ends in time by itself
    results += [{"host": name, "port": port, "answer": told, "seconds": seconds} for name, port in late]
    return sorted(results, key=lambda result: (result["host"], result["port"]))


class EarlyAttempts:
    """Tries made while the rest is gathered: other hosts begin to listen when their own probe does, now or later.

    A listener ends once all have called it, so what is reached is not to be tried again; the rest is left to ``reach``.
    """

    def __init__(self, hosts: Sequence[Sequence[Any]], ports: Sequence[int], seconds: float) -> None:
        self._seconds = seconds
        self._found: dict[tuple[str, int], dict[str, Any]] = {}
        self._over = threading.Event()
        self._wanted = [(host, port) for host in hosts for port in ports]
        for host, port in self._wanted:
            threading.Thread(target=self._until_it_answers, args=(host, port), daemon=True).start()

    def _until_it_answers(self, host: Sequence[Any], port: int) -> None:
        while not self._over.is_set():
            result = connect(host, port, _EARLY_SECONDS)
            self._found[str(host[0]), port] = result
            if result["answer"] == "connected":
                return
            self._over.wait(_PAUSE_SECONDS)

    def finish(self) -> list[dict[str, Any]]:
        """The last answer of each that gave one; those that are not connected are waited for until the time is over."""
        deadline = time.monotonic() + self._seconds
        while self._connected() < len(self._wanted) and time.monotonic() < deadline:
            time.sleep(_PAUSE_SECONDS)
        self._over.set()
        return sorted(self._found.copy().values(), key=lambda result: (result["host"], result["port"]))

    def _connected(self) -> int:
        return sum(result["answer"] == "connected" for result in self._found.copy().values())


def connect(host: Sequence[Any], port: int, seconds: float) -> dict[str, Any]:
    """What came of trying a host's addresses in turn, until one answers.

    The address that it is managed at may be one that other hosts do not reach. Ours is none of it: behind the same
    translation all hosts call themselves the same.
    """
    begun = time.monotonic()
    ours = set(guarded(addresses).get("value", {}).values())
    named = [str(one).strip("[]") for one in host[1:2] if one]  # preflight_address is the only one where it is set
    other = [str(one).strip("[]") for one in host[2:] if one]
    tried = named or [one for one in dict.fromkeys(other) if one not in ours] or [str(host[0])]
    answers = []
    for address in tried:
        answers.append(attempt(address, port, seconds / len(tried)))
        if answers[-1] == "connected":
            break
    told = next((one for one in answers if not one.startswith("name ")), answers[-1])
    answer = answers[-1] if answers[-1] == "connected" else told
    return {"host": str(host[0]), "port": port, "answer": answer, "seconds": round(time.monotonic() - begun, 3)}


def attempt(address: str, port: int, seconds: float) -> str:
    """What came of connecting to an address: "connected", "refused", "timed out", or what the kernel said."""
    try:
        socket.create_connection((address, port), timeout=seconds).close()
    except socket.gaierror:
        return f"name {address} is not known there"
    except socket.timeout:
        return "timed out"
    except ConnectionRefusedError:
        return "refused"
    except (OSError, UnicodeError) as error:
        return str(error)
    return "connected"
