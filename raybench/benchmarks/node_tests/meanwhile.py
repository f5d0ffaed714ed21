"""What else took the processors while the tests ran: processes of this node, others outside it, a quota, a hypervisor.

A container sees its own processes in /proc, and in /proc/stat the processors of the whole machine: what is busy there
beyond both the tests and the processes that are seen is outside the node.
"""

from __future__ import annotations

import os
import time
from typing import NamedTuple

_TICK = 1.0 / os.sysconf("SC_CLK_TCK")
_MOST_NAMED = 3


class Load(NamedTuple):
    """Processors, on average over the time: ``own`` of the tests, ``node`` of other processes that this node sees.

    ``outside`` is of processes that it does not see, ``held_back`` what a quota of its cgroup kept from it, ``stolen``
    what a hypervisor gave to other machines, ``idle`` what was left. ``largest`` names who took most on the node.
    """

    own: float
    node: float
    outside: float
    held_back: float
    stolen: float
    idle: float
    largest: str


class _Moment(NamedTuple):
    at: float
    busy: float
    idle: float
    stolen: float
    own: float
    held_back: float
    others: dict[tuple[str, str, str], float]


class Meanwhile:
    """From when it is made, and looked at now and then, so that processes that end are counted until then."""

    def __init__(self) -> None:
        self._first = _moment()
        self._others: dict[tuple[str, str, str], float] = {}

    def look(self) -> None:
        """Count processes that may have ended by the next time."""
        self._take(_moment())

    def _take(self, now: _Moment) -> None:
        for key, seconds in now.others.items():
            self._others[key] = max(0.0, seconds - self._first.others.get(key, 0.0))

    def load(self) -> Load:
        """What it was until now."""
        first, now = self._first, _moment()
        self._take(now)
        elapsed = max(now.at - first.at, 1e-3)
        own, node = now.own - first.own, sum(self._others.values())
        worst = sorted(self._others.items(), key=lambda item: -item[1])[:_MOST_NAMED]
        named = [f"{name} ({pid}): {seconds / elapsed:.2f}" for (pid, _, name), seconds in worst if seconds > 0]
        return Load(
            own / elapsed,
            node / elapsed,
            max(0.0, now.busy - first.busy - own - node) / elapsed,
            (now.held_back - first.held_back) / elapsed,
            (now.stolen - first.stolen) / elapsed,
            (now.idle - first.idle) / elapsed,
            ", ".join(named),
        )


def _moment() -> _Moment:
    busy, idle, stolen = _machine_seconds()
    times = os.times()
    return _Moment(time.perf_counter(), busy, idle, stolen, sum(times[:4]), _held_back_seconds(), _other_processes())


def _machine_seconds() -> tuple[float, float, float]:
    """Seconds since the boot that processors were busy, idle, and given to others by a hypervisor (proc(5))."""
    try:
        with open("/proc/stat", encoding="ascii") as file:
            values = [int(word) * _TICK for word in file.readline().split()[1:9]]
    except (OSError, ValueError):
        return 0.0, 0.0, 0.0
    user, nice, system, idle, waiting, interrupts, soft, stolen = (values + [0.0] * 8)[:8]
    return user + nice + system + interrupts + soft, idle + waiting, stolen


def _other_processes() -> dict[tuple[str, str, str], float]:
    """Processor seconds of each process that is not of this one's group, by its id, start and name."""
    found = {}
    own = os.getpgrp()
    for name in os.listdir("/proc"):
        if name.isdigit():
            stat = _text(f"/proc/{name}/stat")
            fields = stat.rpartition(")")[2].split()  # the name before it may hold anything
            if len(fields) > 19 and int(fields[2]) != own:
                command = stat.partition("(")[2].rpartition(")")[0]
                found[name, fields[19], command] = (int(fields[11]) + int(fields[12])) * _TICK
    return found


def _held_back_seconds() -> float:
    """How long this cgroup's tasks were held back by its quota: throttled_usec of version 2, throttled_time of 1."""
    for line in _text("/proc/self/cgroup").splitlines():
        if line.count(":") < 2:
            continue
        _, controllers, path = line.split(":", 2)
        places = [f"/sys/fs/cgroup{path}", f"/sys/fs/cgroup/unified{path}"] if not controllers else []
        if "cpu" in controllers.split(","):
            places = [f"/sys/fs/cgroup/{controllers}{path}", f"/sys/fs/cgroup/cpu{path}"]
        for place in places:
            found = _throttled_seconds(_text(f"{place.rstrip('/')}/cpu.stat"))
            if found is not None:
                return found
    return 0.0


def _throttled_seconds(text: str) -> float | None:
    values = dict(line.split(None, 1) for line in text.splitlines() if " " in line)
    for name, unit in (("throttled_usec", 1e-6), ("throttled_time", 1e-9)):
        if name in values and values[name].strip().isdigit():
            return int(values[name]) * unit
    return None


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
