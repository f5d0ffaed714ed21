"""Where a host's own files set what every job there gets: variables of NCCL and its networks, mounts, time services."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Optional, Tuple

from .files import read_files

# Those that decide how ranks find and reach each other. Nothing else of these files is carried: they may hold secrets.
_VARIABLE = re.compile(
    r"^\s*(?:export\s+)?((?:NCCL|RCCL|TORCH_NCCL|GLOO|UCX|FI)_[A-Z0-9_]+)\s*(?:DEFAULT)?=\s*(.*?)\s*$"
)
# In the order in which they win: NCCL takes a variable of the environment first, then its own files.
_ENVIRONMENT = ("/etc/environment", "/etc/security/pam_env.conf", "/etc/environment.d/*.conf", "/etc/profile.d/*.sh")
_NCCL_FILES = ("~/.nccl.conf", "/etc/nccl.conf")
_DISK_SYSTEMS = re.compile(r"ext[234]|xfs|btrfs|f2fs|zfs|nfs4?|lustre|beegfs|gpfs|ceph|wekafs|bcachefs")
_TIME_SERVICES = frozenset(
    {"chronyd", "ntpd", "openntpd", "systemd-timesyn", "ptp4l", "phc2sys", "timemaster", "vmtoolsd", "VBoxService"}
)

Mount = Tuple[str, str, bool, Optional[bool]]


def variables() -> list[list[str]]:
    """Variables with the file that sets them, the one that wins first: [["NCCL_IB_DISABLE", "1", "/etc/nccl.conf"]]."""
    rows: list[list[str]] = []
    for pattern in (*_ENVIRONMENT, *_NCCL_FILES):
        for path, text in read_files([os.path.expanduser(pattern)]).items():
            rows += [[name, value, path] for name, value in variables_in(text or "")]
    return rows


def variables_in(text: str) -> Iterator[tuple[str, str]]:
    """Lines that set one of them: ``NCCL_IB_DISABLE=1``, ``export NCCL_DEBUG="WARN"``, ``NCCL_DEBUG DEFAULT=WARN``."""
    for line in text.splitlines():
        found = _VARIABLE.match(line)
        if found:
            yield found[1], found[2].strip("\"'")


def mounts(mounted: str = "/proc/mounts", listed: str = "/etc/fstab") -> list[Mount]:
    """File systems of disks and file servers: mount point, type, whether read-only, and whether fstab wants it so.

    What fstab wants is None where it does not list the mount point.
    """
    wanted = {row[1]: "ro" in row[3].split(",") for row in _rows(listed)}
    found: dict[str, Mount] = {}
    for row in _rows(mounted):
        if _DISK_SYSTEMS.fullmatch(row[2]):
            point = row[1].replace("\\040", " ")
            found[point] = (point, row[2], "ro" in row[3].split(","), wanted.get(row[1]))
    return list(found.values())


def _rows(path: str) -> Iterable[list[str]]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = [line.split() for line in file if not line.lstrip().startswith("#")]
    except OSError:
        return []
    return [line for line in lines if len(line) > 3]


def time_services() -> list[str]:
    """Programs that keep the clock right and are running."""
    return sorted(set(_names().values()) & _TIME_SERVICES)


def _names() -> Mapping[str, str]:
    """Names of processes, as the kernel cuts them, by the path that says so."""
    return {path: text for path, text in read_files(glob.glob("/proc/[0-9]*/comm")).items() if text}


def time_zone() -> str | None:
    """The zone that /etc/localtime names; None where it is no link."""
    target = os.path.realpath("/etc/localtime")
    return target.partition("/zoneinfo/")[2] or None
