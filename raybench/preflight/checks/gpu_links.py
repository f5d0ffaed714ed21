"""What joins GPUs: NVLink, NVSwitch, and the path from a GPU to a NIC."""

import re

from raybench.preflight.checks.gpu import gpus_of
from raybench.preflight.host_view import HostView
from raybench.preflight.parsers.nvidia_smi import parse_nvlink_status
from raybench.preflight.parsers.system import parse_pairs
from raybench.preflight.verdict import Judgement, failed, passed, skipped, unknown, warned

_NEAR = {"PIX", "PXB"}
# GPU and NICs hang on one Grace CPU: NVLink-C2C is the way to the NIC, and nothing is nearer than its host bridge.
_COHERENT = ("GH200", "GB200", "GB300")


def nvlink(view: HostView) -> Judgement:
    """Every link of every GPU is up, and there are as many as this GPU has."""
    gpus = gpus_of(view)
    if not gpus:
        return skipped("no GPU here")
    links = parse_nvlink_status(view.text("nvidia_smi_nvlink"))
    wanted = {index: view.expected.for_gpu(gpu.name).get("nvlinks") for index, gpu in enumerate(gpus)}
    if not any(links.values()) and not any(wanted.values()):
        return skipped("these GPUs have no NVLink")
    up = {index: sum(rate is not None for rate in links.get(index, {}).values()) for index in wanted}
    boards = any(wanted.values()) or any("SXM" in gpu.name for gpu in gpus)  # others have bridges, or have none
    if not any(up.values()) and (len(gpus) == 1 or not boards):
        return skipped("one GPU: NVLink joins it to none here" if len(gpus) == 1 else "no bridge joins these GPUs")
    need = {index: int(value) if value else len(links.get(index, {})) for index, value in wanted.items()}
    faults = [
        f"GPU {index} ({gpu.pci_address}): {up[index]} of {need[index]} links"
        for index, gpu in enumerate(gpus)
        if up[index] < need[index]
    ]
    basis = "nvidia-smi nvlink -s; NVIDIA's data sheets"
    if faults:
        advice = "look for Xid 74 and SXids in dmesg, restart nvidia-fabricmanager, reset all GPUs, reseat the board"
        known = any(up[index] < need[index] for index, value in wanted.items() if value)
        return (failed if known else warned)("; ".join(faults), "all links up", basis, advice)
    if not all(wanted.values()):
        return passed(f"{sum(up.values())} links up (this GPU's number is not known here)", "all links up")
    return passed(f"{max(up.values())} links a GPU up", "all links up")


def fabric_manager(view: HostView) -> Judgement:
    """Hosts with NVSwitches need the Fabric Manager: without it CUDA does not start, or NVLink is not used.

    GPUs of such hosts show a Fabric section (drivers since 525): state Completed, status Success.
    """
    gpus = gpus_of(view)
    if not gpus:
        return skipped("no GPU here")
    states = [(gpu.get("Fabric", "State"), gpu.get("Fabric", "Status")) for gpu in gpus]
    switches = sum(device.is_nvswitch for device in view.pci) if view.status("lspci") == "ok" else 0
    service = parse_pairs(view.readings.get("fabricmanager", {}).get("text", ""))
    seen_service = f"service {service['ActiveState']}" if service.get("LoadState") == "loaded" else "no service"
    if switches and view.status("fabricmanager") == "ok" and service.get("ActiveState", "active") != "active":
        seen = f"{switches} NVSwitches, {seen_service}"
        return failed(seen, "active", "NVSwitches do nothing without it: CUDA does not start", _FABRIC_ADVICE)
    if all(state is None for state, _ in states):
        if service.get("LoadState") == "loaded" and service.get("ActiveState") != "active":
            return warned(seen_service, "active, or not installed", "installed where NVSwitches are", _FABRIC_ADVICE)
        return skipped(f"no GPU here is part of an NVSwitch fabric ({seen_service})")
    bad = [
        f"GPU {index}: {state} {status or ''}".strip()
        for index, (state, status) in enumerate(states)
        if state != "Completed"
    ]
    bad += [
        f"GPU {index}: Completed, {status}"
        for index, (state, status) in enumerate(states)
        if state == "Completed" and status not in {None, "Success"}
    ]
    if bad:
        return failed(
            f"{'; '.join(bad)}; {seen_service}", "Completed, Success", "nvidia-smi -q, Fabric", _FABRIC_ADVICE
        )
    return passed(f"Completed on {len(gpus)} GPUs, {seen_service}", "Completed, Success")


_FABRIC_ADVICE = "systemctl restart nvidia-fabricmanager, of exactly the driver's version; its journal says why not"


def peer_memory(view: HostView) -> Judgement:
    """NICs reach GPU memory by nvidia-peermem, or by DMA-BUF with the open kernel modules (Linux 5.12 on).

    Either is enough. Without both, NCCL copies through host memory and says so in no result.
    """
    if not gpus_of(view):
        return skipped("no GPU here")
    if not view.has_rdma:
        return skipped("no RDMA device here")
    modules = sorted({"nvidia_peermem", "nv_peer_mem", "efa_nv_peermem"} & view.modules)
    opened = "Open Kernel Module" in (view.file("proc", "/proc/driver/nvidia/version") or "")
    recent = _kernel_at_least(str(view.value("kernel_release")), (5, 12))
    if "efa" in view.modules and not modules and not (opened and recent):
        return unknown("EFA without nvidia_peermem or DMA-BUF", "EFA's own driver may map GPU memory: modinfo efa")
    if modules:
        return passed(f"{modules[0]} is loaded", "nvidia-peermem or DMA-BUF")
    if opened and recent:
        return passed("DMA-BUF: open kernel modules, Linux 5.12 or newer", "nvidia-peermem or DMA-BUF")
    return failed(
        f"no nvidia_peermem; {'open' if opened else 'proprietary'} kernel modules, {view.value('kernel_release')}",
        "nvidia-peermem or DMA-BUF",
        "NCCL's and NVIDIA's GPUDirect RDMA documentation",
        "modprobe nvidia-peermem (kept in /etc/modules-load.d), or open modules; raybench configure --tags peer_memory",
    )


def _kernel_at_least(release: str, wanted: tuple[int, int]) -> bool:
    match = re.match(r"(\d+)\.(\d+)", release)
    return bool(match) and (int(match[1]), int(match[2])) >= wanted if match else False


def topology(view: HostView) -> Judgement:
    """Each GPU has a NIC behind the same PCIe switch (PIX or PXB); farther ones cross the CPU or the socket."""
    if not gpus_of(view):
        return skipped("no GPU here")
    if not view.has_rdma:
        return skipped("no RDMA device here")
    table = view.topology
    nics = [name for pair in table.links for name in pair[1:] if not name.startswith("GPU")]
    if not table.gpus or not nics:
        return unknown("nvidia-smi topo -m shows no NIC", "load ib_uverbs, and mlx5_ib, before looking again")
    nearest = {gpu: min((table.links.get((gpu, nic), "SYS") for nic in nics), key=_distance) for gpu in table.gpus}
    products = {name for gpu in gpus_of(view) for name in _COHERENT if name in gpu.name}
    far = {gpu: kind for gpu, kind in nearest.items() if kind not in _NEAR and not (products and kind != "SYS")}
    if not far:
        return passed(f"{', '.join(sorted(set(nearest.values())))} for {len(nearest)} GPUs", "PIX or PXB")
    return warned(
        ", ".join(f"{gpu} {kind}" for gpu, kind in far.items()),
        "PIX or PXB",
        "nvidia-smi topo -m; beyond a switch NCCL may not use GPUDirect (NCCL_NET_GDR_LEVEL)",
        "in a virtual machine pass the topology on, or give NCCL_TOPO_FILE; else move the NIC to the GPU's switch",
    )


def _distance(kind: str) -> int:
    order = ("PIX", "PXB", "PHB", "NODE", "SYS")
    return order.index(kind) if kind in order else len(order)
