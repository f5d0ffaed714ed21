"""Counters of RDMA ports, read twice with a pause between: from sysfs and ``rdma statistic``, else from perfquery.

``rdma`` of iproute2 asks the driver by netlink: it also has counters that somebody switched on (``rdma statistic
mode``), and those of devices whose files are not to be seen, as in a container.
"""

from __future__ import annotations

import glob
import re
import time
from collections.abc import Callable, Mapping
from typing import Any

from ..raybench_host.files import file_number
from ..raybench_host.rdma import device_names
from .process import Reading, run

_STATISTIC = ["rdma", "statistic", "show"]
_STATISTIC_SECONDS = 3.0  # it takes a hundredth of one
_LINK = re.compile(r"^link ([^\s/]+)/(\d+) (.*)$", re.MULTILINE)
_COUNTER = re.compile(r"([A-Za-z]\w*) (\d+)(?!\S)")
_CLASS = "/sys/class/infiniband/"
_PATTERNS = (_CLASS + "*/ports/*/counters/*", _CLASS + "*/ports/*/hw_counters/*")
# What perfquery calls the counters of sysfs.
_QUERIED = {
    "SymbolErrorCounter": "symbol_error",
    "LinkErrorRecoveryCounter": "link_error_recovery",
    "LinkDownedCounter": "link_downed",
    "PortRcvErrors": "port_rcv_errors",
    "PortXmitDiscards": "port_xmit_discards",
    "LocalLinkIntegrityErrors": "local_link_integrity_errors",
    "ExcessiveBufferOverrunErrors": "excessive_buffer_overrun_errors",
}


class Counting:
    """A first reading on being made, a second one later."""

    def __init__(self, options: Mapping[str, Any], environment: Mapping[str, str]) -> None:
        self._interval = float(options["interval_seconds"])
        seconds = min(_STATISTIC_SECONDS, float(options["timeout_seconds"]))
        asked = bool(device_names()) and run(_STATISTIC, environment, seconds)["status"] == "ok"
        self._read: Callable[[], dict[str, int]] = lambda: _of_kernel(environment if asked else None, seconds)
        self._before = self._read()
        if not self._before and options["prefix"]:
            self._read = lambda: _queried(options, environment)
            self._before = self._read()
        self._begun = time.monotonic()

    def finish(self) -> dict[str, Reading]:
        """Wait for the interval's end and read again; nothing where no port has counters."""
        if not self._before:
            return {}
        time.sleep(max(0.0, self._interval - (time.monotonic() - self._begun)))
        after = self._read()
        seconds = time.monotonic() - self._begun
        return {"counters": {"status": "ok", "before": self._before, "after": after, "seconds": seconds}}


def _of_kernel(environment: Mapping[str, str] | None, seconds: float) -> dict[str, int]:
    """Port counters by path below /sys/class/infiniband; with an environment also those that ``rdma`` alone tells."""
    values = {path: file_number(path) for pattern in _PATTERNS for path in glob.glob(pattern)}
    found = statistics_of(run(_STATISTIC, environment, seconds)["text"]) if environment else {}
    found.update({path[len(_CLASS) :]: value for path, value in values.items() if value is not None})
    return found


def statistics_of(text: str) -> dict[str, int]:
    """Counters of ``rdma statistic show`` by the paths that they have in sysfs. Sample (iproute2 6.1, Soft-RoCE)::

    link rxe0/1 sent_pkts 17807 rcvd_pkts 17858 duplicate_request 7 rcvd_seq_err 0
    """
    return {
        f"{device}/ports/{port}/hw_counters/{name}": int(value)
        for device, port, counters in _LINK.findall(text)
        for name, value in _COUNTER.findall(counters)
    }


def _queried(options: Mapping[str, Any], environment: Mapping[str, str]) -> dict[str, int]:
    """The same of ports that are not in sysfs."""
    found = {}
    prefix, seconds = options["prefix"], options["timeout_seconds"]
    states = run([*prefix, "ibstat"], environment, seconds)
    for device, port, lid in re.findall(r"CA '(.+?)'.*?Port (\d+):.*?Base lid: (\d+)", states["text"], re.DOTALL):
        answers = [run([*prefix, "perfquery", *flag, lid, port], environment, seconds) for flag in (["-x"], [])]
        text = "\n".join(answer["text"] for answer in answers)
        for name, value in re.findall(r"^(\w+):\.*(\d+)$", text, re.MULTILINE):
            if name in _QUERIED:
                found[f"{device}/ports/{port}/counters/{_QUERIED[name]}"] = int(value)
    return found
