"""All readings of this host, in the time that the slowest of them takes."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from . import rdma, system
from .counters import Counting
from .files import FILES, read_files
from .filters import FILTERS
from .ports import listen
from .process import Reading, Runner
from .programs import commands, environment

SCHEMA = "raybench.probe/1"


def gather(options: Mapping[str, Any]) -> dict[str, Any]:
    """Facts of the schema ``raybench.probe/1``. ``options`` are the module's."""
    begun, wall = time.monotonic(), time.time()
    variables = environment(options["environment_variables"])
    runner = Runner(variables, options["timeout_seconds"])
    readings: dict[str, Reading] = {"listening": listen(options["listen_ports"], options["listen_seconds"])}
    for name, command in commands(options, variables["PATH"]):
        runner.start(name, command)
    counting = Counting(options, variables)
    readings.update({name: {"status": "ok", "values": read_files(patterns)} for name, patterns in FILES.items()})
    readings.update({name: _guarded(read) for name, read in _values(options).items()})
    readings.update(counting.finish())
    readings.update(runner.finish())
    for name, keep in FILTERS.items():
        if readings.get(name, {}).get("text"):
            readings[name]["text"] = keep(readings[name]["text"])
    return {
        "schema": SCHEMA,
        "hostname": socket.gethostname(),
        "clock": wall,
        "seconds": round(time.monotonic() - begun, 3),
        "uid": os.geteuid(),
        "module_python": ".".join(map(str, sys.version_info[:3])),
        "expectations": options["expectations"],
        "readings": readings,
    }


def own_address(facts: Mapping[str, Any]) -> str:
    """The address of the default route's interface, else of the first that is no loopback; else empty."""
    found: dict[str, str] = facts["readings"]["addresses"].get("value") or {}
    default = facts["readings"]["default_interface"].get("value")
    others = [address for name, address in sorted(found.items()) if name != "lo"]
    return found.get(default, "") or (others[0] if others else "")


def _values(options: Mapping[str, Any]) -> dict[str, Callable[[], Any]]:
    return {
        "memlock": lambda: system.session_limit("RLIMIT_MEMLOCK"),
        "nofile": lambda: system.session_limit("RLIMIT_NOFILE"),
        "uninterruptible": system.uninterruptible,
        "file_systems": lambda: system.file_systems(options["folders"]),
        "gids": rdma.gids,
        "pkeys": rdma.pkeys,
        "devices": rdma.device_nodes,
        "rdma_interfaces": rdma.interfaces,
        "rdma_devices": rdma.device_names,
        "rdma_drivers": rdma.drivers,
        "default_interface": system.default_interface,
        "addresses": system.addresses,
        "sharp": rdma.sharp,
        "dma_buf": system.dma_buf,
        "kernel_release": lambda: os.uname().release,
        "cpu_count": os.cpu_count,
    }


def _guarded(read: Callable[[], Any]) -> Reading:
    try:
        return {"status": "ok", "value": read()}
    except Exception as error:  # noqa: BLE001 - a fact that cannot be had is reported, and the others still are
        return {"status": "failed", "error": f"{type(error).__name__}: {error}"}
