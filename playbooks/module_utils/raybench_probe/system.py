"""What the probe finds out itself of the host: limits, blocked processes, file systems, PCI, kernel."""

from __future__ import annotations

import glob
import os
import re
import resource
import time
from collections.abc import Mapping, Sequence
from functools import partial

from ..raybench_host.files import file_text, first_line
from ..raybench_host.process import fields
from .apart import Apart
from .files import is_telling
from .process import Reading

_DMA_BUF = ("CONFIG_DMABUF", "CONFIG_PCI_P2PDMA", "CONFIG_DMA_SHARED")
_BLOCKED_PAUSES = (0.1, 0.4, 1.5)  # seconds; the long ones only while somebody is blocked still
_PROCESSORS = "/sys/devices/system/cpu"
_SHARED_MEMORY = "/dev/shm"
_PCI_ADDRESS = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$")
_VIRTUAL = re.compile(r"KVM|QEMU|VMware|Virtual Machine|Google Compute|Xen")


def session_limit(name: str) -> list[int]:
    """Soft and hard limit of this session; -1 is unlimited."""
    return list(resource.getrlimit(getattr(resource, name)))


def uninterruptible() -> list[list[str]]:
    """Processes that stay in state D without a single step for two seconds: [[pid, name], ...].

    On a busy host many are in it at any moment, the probe's own programs among them, and each is scheduled again and
    again: only one that is not has nothing that answers below it. Where none is blocked at first, nobody waits.
    """
    blocked = _blocked()
    for pause in _BLOCKED_PAUSES if blocked else ():
        time.sleep(pause)
        now = _blocked()
        blocked = {process: name for process, name in now.items() if process in blocked}
        if not blocked:
            break
    return [[pid, name] for (pid, _, _), name in blocked.items()]


def _blocked() -> dict[tuple[str, str, str], str]:
    """Names of processes in state D by process id, start and how often they were scheduled; none of the probe's own."""
    found, parents = {}, {}
    for path in glob.glob("/proc/[0-9]*/stat"):
        pid = path.split("/")[2]
        line = file_text(path) or ""
        name, words = line.partition("(")[2].rpartition(")")[0], fields(line)
        if not words:
            continue
        parents[pid] = words[1]
        if words[0] == "D":
            found[pid, words[19], _switches(pid)] = name
    return {process: name for process, name in found.items() if not _is_ours(process[0], parents)}


def _switches(pid: str) -> str:
    """How often a process was put off the CPU, by itself and by others."""
    lines = (file_text(f"/proc/{pid}/status") or "").splitlines()
    return " ".join(line.split()[-1] for line in lines if "ctxt_switches" in line)


def _is_ours(pid: str, parents: Mapping[str, str]) -> bool:
    own = str(os.getpid())
    seen: set[str] = set()
    while pid in parents and pid not in seen and pid != own:
        seen.add(pid)
        pid = parents[pid]
    return pid == own


class FileSystems:
    """Size and free space of the file systems of folders, each asked apart: one without its server never answers."""

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
    """Bytes, inodes, and what may be done there; None where there is no such folder."""
    if not os.path.isdir(folder):
        return None
    state = os.statvfs(folder)
    return {
        "writable": int(os.access(folder, os.W_OK)),
        "programs": int(not state.f_flag & os.ST_NOEXEC),
        "total": state.f_blocks * state.f_frsize,
        "free": state.f_bavail * state.f_frsize,
        "inodes": state.f_files,
        "inodes_free": state.f_favail,
    }


def home() -> dict[str, str | bool]:
    """The login's home directory, and whether it is there and can be written to."""
    path = os.path.expanduser("~")
    return {"path": path, "writable": os.path.isdir(path) and os.access(path, os.W_OK)}


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


def processor() -> dict[str, object]:
    """The processor's model and microcode, how many this login may run on, and how fast it may clock them.

    ``boost`` is None where the kernel does not say, ``most_khz`` where it sets no frequencies.
    """
    words: dict[str, str] = {}
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
        for line in lines:
            name, _, text = line.partition(":")
            words.setdefault(name.strip(), text.strip())
            if not line.strip():
                break  # the others are alike
    boost, no_turbo = (first_line(f"{_PROCESSORS}/{name}") for name in ("cpufreq/boost", "intel_pstate/no_turbo"))
    limits = (first_line(path) or "" for path in glob.glob(_PROCESSORS + "/cpu[0-9]*/cpufreq/scaling_max_freq"))
    return {
        "model": words.get("model name", ""),
        "microcode": words.get("microcode", ""),
        "usable": len(os.sched_getaffinity(0)),
        "boost": no_turbo == "0" if no_turbo is not None else (None if boost is None else boost == "1"),
        "most_khz": min((int(limit) for limit in limits if limit.isdigit()), default=None),
    }
