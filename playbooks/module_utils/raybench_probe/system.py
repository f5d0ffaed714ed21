"""What the probe finds out itself of the host: limits, blocked processes, file systems, PCI, kernel."""

from __future__ import annotations

import glob
import os
import re
import resource
import time
from collections.abc import Sequence
from functools import partial

from .apart import Apart
from .files import first_line, is_telling
from .process import Reading

_DMA_BUF = ("CONFIG_DMABUF", "CONFIG_PCI_P2PDMA", "CONFIG_DMA_SHARED")
_SHARED_MEMORY = "/dev/shm"  # noqa: S108
_PCI_ADDRESS = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$")
_VIRTUAL = re.compile(r"KVM|QEMU|VMware|Virtual Machine|Google Compute|Xen")


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


class FileSystems:
    """Size and room of the file systems of folders, each asked apart: one without its server never answers."""

    def __init__(self, folders: Sequence[str]) -> None:
        self._asked = [(folder, Apart(partial(_file_system, folder))) for folder in [*folders, _SHARED_MEMORY]]

    @property
    def children(self) -> list[int]:
        """The processes that look, in the order of the folders."""
        return [apart.child for _, apart in self._asked]

    def finish(self, deadline: float) -> dict[str, Reading]:
        """Those of folders that are there, in one reading; a reading of its own for each that does not answer."""
        found, readings = {}, {}
        for folder, apart in self._asked:
            answer = apart.answer(deadline)
            if answer["status"] != "ok":
                readings["file_system:" + folder] = answer
            elif answer["value"] is not None:
                found[folder] = answer["value"]
        readings["file_systems"] = {"status": "ok", "value": found}
        return readings


def _file_system(folder: str) -> dict[str, int] | None:
    """Bytes and inodes; None where there is no such folder."""
    if not os.path.isdir(folder):
        return None
    state = os.statvfs(folder)
    return {
        "total": state.f_blocks * state.f_frsize,
        "free": state.f_bavail * state.f_frsize,
        "inodes": state.f_files,
        "inodes_free": state.f_favail,
    }


def dma_buf() -> dict[str, str]:
    """Kernel configuration of what DMA-BUF needs, where the kernel tells: {"CONFIG_PCI_P2PDMA": "y", ...}."""
    with open("/boot/config-" + os.uname().release, encoding="ascii", errors="replace") as file:
        pairs = (line.strip().split("=", 1) for line in file if line.startswith(_DMA_BUF))
        return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}


def is_virtual() -> bool | None:
    """Whether this is a virtual machine, by the CPU, else by the name of the machine; None where neither tells."""
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        flags = next((line for line in file if line.startswith("flags")), None)
    if flags is not None:
        return " hypervisor" in flags
    name = " ".join(first_line(f"/sys/class/dmi/id/{part}") or "" for part in ("sys_vendor", "product_name"))
    return bool(_VIRTUAL.search(name)) if name.strip() else None


def pci_devices() -> dict[str, list[str | None]]:
    """What the kernel knows of NICs, GPUs and bridges beside lspci: {address: [the bridge above, IOMMU's type]}."""
    found: dict[str, list[str | None]] = {}
    for path in filter(is_telling, glob.glob("/sys/bus/pci/devices/*")):
        above = os.path.basename(os.path.dirname(os.path.realpath(path)))
        bridge = above if _PCI_ADDRESS.match(above) else None
        found[os.path.basename(path)] = [bridge, first_line(path + "/iommu_group/type")]
    return found
