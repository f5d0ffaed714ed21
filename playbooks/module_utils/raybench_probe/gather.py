"""All readings of this host, in the time that the slowest of them takes."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from ..raybench_host.rdma import device_names
from . import network, rdma, settings, system
from .apart import Apart, guarded
from .counters import Counting
from .files import FILES, read_files
from .filters import FILTERS
from .packages import python_facts
from .ports import EarlyAttempts, listen
from .process import Reading
from .programs import commands, environment, is_own_python
from .runner import Runner

SCHEMA = "raybench.probe/1"


def gather(options: Mapping[str, Any]) -> dict[str, Any]:
    """Facts of the schema ``raybench.probe/1``. ``options`` are the module's."""
    begun, wall = time.monotonic(), time.time()
    variables = environment(options["environment_variables"])
    runner = Runner(variables, options["timeout_seconds"])
    listening = listen(options["listen_ports"], options["listen_seconds"], options["listen_connections"])
    readings: dict[str, Reading] = {"listening": listening}
    file_systems = system.FileSystems(options["folders"])
    asked_name = Apart(network.own_name)  # a name server that does not answer holds it
    asked_home = Apart(system.home)  # as may its home directory's server
    asked_python = Apart(python_facts) if is_own_python(options, variables["PATH"]) else None
    # Threads from here on, no fork: a child would wait for ever for a lock that another thread holds.
    early = EarlyAttempts(options["reach_early"], options["listen_ports"], options["reach_early_seconds"])
    for name, command in commands(options, variables["PATH"]):
        runner.start(name, command, FILTERS.get(name.partition(":")[0]))
    counting = Counting(options, variables)
    readings.update({name: {"status": "ok", "values": read_files(patterns)} for name, patterns in FILES.items()})
    readings.update({name: guarded(read) for name, read in _VALUES.items()})
    readings.update(file_systems.finish(begun + options["timeout_seconds"]))
    readings["own_name"] = asked_name.answer(begun + options["timeout_seconds"])
    readings["home"] = asked_home.answer(begun + options["timeout_seconds"])
    if asked_python is not None:
        answer = asked_python.answer(begun + options["timeout_seconds"])
        readings["python"] = {**answer, "text": json.dumps(answer["value"]) if "value" in answer else ""}
    readings.update(counting.finish())
    readings.update(runner.finish())
    reached = early.finish()
    return {
        "schema": SCHEMA,
        "hostname": socket.gethostname(),
        "clock": wall,
        "seconds": round(time.monotonic() - begun, 3),
        "uid": os.geteuid(),
        "module_python": ".".join(map(str, sys.version_info[:3])),
        "expectations": options["expectations"],
        "reached": reached,
        "readings": readings,
    }


def own_address(facts: Mapping[str, Any]) -> str:
    """The address of the default route's interface, else of the first that is no loopback; else empty."""
    found: dict[str, str] = facts["readings"]["addresses"].get("value") or {}
    default = facts["readings"]["default_interface"].get("value")
    others = [address for name, address in sorted(found.items()) if name != "lo"]
    return found.get(default, "") or (others[0] if others else "")


_VALUES: Mapping[str, Callable[[], Any]] = {
    "memlock": lambda: system.session_limit("RLIMIT_MEMLOCK"),
    "nofile": lambda: system.session_limit("RLIMIT_NOFILE"),
    "nproc": lambda: system.session_limit("RLIMIT_NPROC"),
    "uninterruptible": system.uninterruptible,
    "variables": settings.variables,
    "mounts": settings.mounts,
    "time_services": settings.time_services,
    "time_zone": settings.time_zone,
    "routes": network.routes,
    "gids": rdma.gids,
    "pkeys": rdma.pkeys,
    "devices": rdma.device_nodes,
    "rdma_interfaces": rdma.interfaces,
    "rdma_devices": device_names,
    "rdma_drivers": rdma.drivers,
    "default_interface": network.default_interface,
    "addresses": network.addresses,
    "sharp": rdma.sharp,
    "dma_buf": system.dma_buf,
    "is_virtual": system.is_virtual,
    "pci_devices": system.pci_devices,
    "kernel_release": lambda: os.uname().release,
    "cpu_count": os.cpu_count,
    "processor": system.processor,
}
