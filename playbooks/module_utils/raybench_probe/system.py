"""What the probe finds out itself of the host: limits, blocked processes, file systems, addresses, kernel."""

from __future__ import annotations

import fcntl
import glob
import os
import resource
import socket
import struct
import time
from collections.abc import Sequence

_SIOCGIFADDR = 0x8915
_SHARED_MEMORY = "/dev/shm"  # noqa: S108
_DMA_BUF = ("CONFIG_DMABUF", "CONFIG_PCI_P2PDMA", "CONFIG_DMA_SHARED")


def session_limit(name: str) -> list[int]:
    """Soft and hard limit of this session; -1 is unlimited."""
    return list(resource.getrlimit(getattr(resource, name)))


def uninterruptible() -> list[list[str]]:
    """Processes in state D, twice within a tenth of a second: [[pid, name], ...]."""
    first = _blocked()
    time.sleep(0.1)
    return [[pid, name] for pid, name in _blocked().items() if pid in first]


def _blocked() -> dict[str, str]:
    """Names of processes in state D by process id."""
    found = {}
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                text = file.read()
        except OSError:
            continue
        name, _, rest = text.partition("(")[2].rpartition(")")
        if rest.split()[:1] == ["D"]:
            found[path.split("/")[2]] = name
    return found


def file_systems(folders: Sequence[str]) -> dict[str, dict[str, int]]:
    """Size and room in bytes of the file systems of folders that are there."""
    found = {}
    for folder in filter(os.path.isdir, [*folders, _SHARED_MEMORY]):
        state = os.statvfs(folder)
        found[folder] = {
            "total": state.f_blocks * state.f_frsize,
            "free": state.f_bavail * state.f_frsize,
            "inodes": state.f_files,
            "inodes_free": state.f_favail,
        }
    return found


def default_interface() -> str | None:
    """The interface of the default route; None where there is none."""
    with open("/proc/net/route", encoding="ascii", errors="replace") as file:
        rows = [line.split() for line in file.read().splitlines()[1:]]
    return next((row[0] for row in rows if len(row) > 7 and row[1] == "00000000"), None)


def addresses() -> dict[str, str]:
    """The IPv4 address of each interface that has one."""
    found = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for _, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(asked.fileno(), _SIOCGIFADDR, struct.pack("256s", name[:15].encode()))
            except OSError:
                continue
            found[name] = socket.inet_ntoa(answer[20:24])
    return found


def dma_buf() -> dict[str, str]:
    """Kernel configuration of what DMA-BUF needs, where the kernel tells: {"CONFIG_PCI_P2PDMA": "y", ...}."""
    with open("/boot/config-" + os.uname().release, encoding="ascii", errors="replace") as file:
        pairs = (line.strip().split("=", 1) for line in file if line.startswith(_DMA_BUF))
        return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}
