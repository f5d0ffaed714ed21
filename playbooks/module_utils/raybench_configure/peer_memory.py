"""How NICs reach GPU memory: DMA-BUF where kernel and driver have it, else the nvidia-peermem module."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from .host import Host
from .plan import ItemPlan, Setting, fixed, own_file, skip
from .rdma import rdma_devices
from .resources.kernel import ModuleResource
from .value import one_of

METHODS = ("auto", "dmabuf", "peermem", "none")
_FILE = "/etc/modules-load.d/raybench-peer-memory.conf"
_DMABUF_KERNEL = (5, 12)  # ib_umem_dmabuf; NCCL 2.13 asks for the same, CUDA 11.7 and open kernel modules
_DMABUF_DRIVER = 515


@dataclass(frozen=True)
class PeerMemoryFacts:
    """What decides: versions, the flavour of NVIDIA's driver, the peer memory API of the RDMA core, the module."""

    driver: int
    open_modules: bool
    kernel: tuple[int, int]
    peer_api: bool
    loaded: bool


def read_facts(host: Host) -> PeerMemoryFacts | None:
    """None where no NVIDIA driver is loaded.

    ``NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.124.06  Release Build``: open modules; the others
    write ``NVIDIA UNIX x86_64 Kernel Module``.
    """
    version = host.text("/proc/driver/nvidia/version") or ""
    found = re.search(r"^NVRM version:.*?\s(\d{3,4})\.\d+", version, re.MULTILINE)
    if not found:
        return None
    release = re.match(r"(\d+)\.(\d+)", host.word("/proc/sys/kernel/osrelease"))
    symbols = host.text("/proc/kallsyms") or ""
    return PeerMemoryFacts(
        driver=int(found[1]),
        open_modules="Open Kernel Module" in version,
        kernel=(int(release[1]), int(release[2])) if release else (0, 0),
        peer_api=" ib_register_peer_memory_client\t" in symbols or " ib_register_peer_memory_client\n" in symbols,
        loaded=host.exists("/sys/module/nvidia_peermem") or host.exists("/sys/module/nv_peer_mem"),
    )


def dmabuf_lacks(facts: PeerMemoryFacts) -> list[str]:
    """What is missing for DMA-BUF; empty where it can be used."""
    lacks = []
    if not facts.open_modules:
        lacks.append("the open kernel modules of NVIDIA's driver (the proprietary ones are loaded)")
    if facts.driver < _DMABUF_DRIVER:
        lacks.append(f"driver {_DMABUF_DRIVER} or later (it is {facts.driver})")
    if facts.kernel < _DMABUF_KERNEL:
        lacks.append(f"Linux 5.12 or later (it is {facts.kernel[0]}.{facts.kernel[1]})")
    return lacks


def plan_peer_memory(host: Host, options: dict[str, Any]) -> ItemPlan:
    """``method``: auto, dmabuf, peermem or none. Says which was chosen and why."""
    method = one_of(options["method"], "gpu_peer_memory_method", METHODS)
    container = host.container()
    if method == "none" or container:
        return skip(f"{container}: kernel modules are the machine's" if container else "gpu_peer_memory_method is none")
    facts = read_facts(host)
    if facts is None:
        return skip("no NVIDIA driver is loaded")
    if not rdma_devices(host):
        return skip("no RDMA device: nothing could reach GPU memory directly")
    lacks = dmabuf_lacks(facts)
    if method == "auto":
        method = "dmabuf" if not lacks else "peermem"
    return _dmabuf_plan(facts, lacks) if method == "dmabuf" else _peermem_plan(host, facts, lacks)


def _dmabuf_plan(facts: PeerMemoryFacts, lacks: list[str]) -> ItemPlan:
    if lacks:
        return ItemPlan(problem=f"DMA-BUF is not possible here: it needs {' and '.join(lacks)}")
    seen = f"open kernel modules {facts.driver} on Linux {facts.kernel[0]}.{facts.kernel[1]}"
    return skip(f"DMA-BUF: nothing to load ({seen}); NCCL 2.13 and later use it by themselves")


def _peermem_plan(host: Host, facts: PeerMemoryFacts, lacks: list[str]) -> ItemPlan:
    why = f"nvidia-peermem, because DMA-BUF needs {' and '.join(lacks)}" if lacks else "nvidia-peermem, as asked for"
    if facts.loaded and not host.exists(_FILE):
        return skip(f"{why}; it is loaded already")
    if not facts.loaded and not facts.peer_api:
        return ItemPlan(
            problem="nvidia-peermem cannot be used: the RDMA core of this kernel has no peer memory API "
            "(ib_register_peer_memory_client); install DOCA-OFED, or NVIDIA's open kernel modules for DMA-BUF"
        )
    if not facts.loaded and host.run("modprobe", "-n", "-q", "--", "nvidia-peermem").status:
        return ItemPlan(
            problem="the module nvidia-peermem is not installed: it comes with NVIDIA's driver, built after DOCA-OFED"
        )
    kept = own_file("gpu_peer_memory.peer_memory", _FILE, "nvidia-peermem\n")
    return ItemPlan(settings=[kept, Setting(ModuleResource("nvidia-peermem"), fixed(loaded=True))], notes=[why])
