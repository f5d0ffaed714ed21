"""What joins GPUs: NVLink, NVSwitch, and the path from a GPU to a NIC."""

import re

from raybench.hardware.gpus import RACKS
from raybench.preflight.checks.gpu import gpus_of
from raybench.preflight.host_view import HostView
from raybench.preflight.parsers.nvidia_smi import Gpu
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
    links = view.nvlinks
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
    wanted = max((count for gpu in gpus for name, count in _SWITCHES if name in gpu.name), default=0)
    if 0 < switches < wanted and len(gpus) >= _WHOLE_BOARD:
        advice = (
            "look for SXids and messages of nvidia-nvswitch in dmesg; power-cycle the host; then the board is faulty"
        )
        return failed(f"{switches} NVSwitches", f"{wanted}", "NVSwitches of such a board on the PCI bus", advice)
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


# NVSwitches of a board of eight that show on PCI: HGX A100 and HGX H100 (NVIDIA's data sheets). Those of B200 do not.
_SWITCHES = (("A100-SXM", 6), ("A800-SXM", 6), ("H100 80GB HBM3", 4), ("H200", 4), ("H20", 4), ("H800", 4))
_WHOLE_BOARD = 7  # GPUs, of eight: fewer may be a share of the board, or a board of four
_FABRIC_ADVICE = "systemctl restart nvidia-fabricmanager, of exactly the driver's version; its journal says why not"


_PASSING = frozenset({"Route Recovery in progress", "Access Timeout Recovery"})
_RIGHT_HEALTH = {"Summary": ("healthy",), "Bandwidth": ("full",), "Partition Assigned": ("true", "yes")}


def fabric_health(view: HostView) -> Judgement:
    """What the fabric says of NVLinks: less bandwidth, a bad route, a wrong configuration, several domains."""
    gpus = gpus_of(view)
    if not gpus:
        return skipped("no GPU here")
    said = {index: _health_faults(gpu) for index, gpu in enumerate(gpus)}
    domains = {(gpu.get("Fabric", "ClusterUUID"), gpu.get("Fabric", "CliqueId")) for gpu in gpus}
    told = any(gpu.get("Fabric", "Health", name) for gpu in gpus for name in _HEALTH)
    if not told and len(domains) < 2 and not any(said.values()):
        return skipped("nvidia-smi gives no health of the NVLink fabric")
    basis = "nvidia-smi -q: Fabric, Health"
    faults = "; ".join(f"GPU {index}: {', '.join(found)}" for index, found in said.items() if found)
    if len(domains) > 1:
        names = "; ".join(sorted(f"cluster {cluster}, clique {clique}" for cluster, clique in domains))
        return failed(f"GPUs of one host in several NVLink domains: {names}", "one domain", basis, _HEALTH_ADVICE)
    if not faults:
        return passed(f"healthy on {len(gpus)} GPUs", "healthy, full bandwidth")
    passing = all(name.startswith(tuple(_PASSING)) for found in said.values() for name in found)
    return (warned if passing else failed)(faults, "healthy, full bandwidth", basis, _HEALTH_ADVICE)


_HEALTH = (
    "Summary", "Bandwidth", "Route Recovery in progress", "Route Unhealthy", "Access Timeout Recovery",
    "Incorrect Configuration", "Partition Assigned",
)  # fmt: skip
_HEALTH_ADVICE = (
    "nvidia-smi nvlink -s finds the link, dmesg its Xids (144 to 150); the log of nvidia-fabricmanager or of NVLink's "
    "subnet manager says which route or partition; reset the GPU; a link that stays down is its board, switch or cable"
)


def _health_faults(gpu: Gpu) -> list[str]:
    found = []
    for name in _HEALTH:
        value = gpu.get("Fabric", "Health", name)
        right = _RIGHT_HEALTH.get(name, ("false", "no", "none", "0"))
        if value is not None and value.lower() not in right:
            found.append(f"{name} {value}")
    own = gpu.get("Fabric", "ClusterUUID") or ""
    if gpu.get("Fabric", "State") == "Completed" and any(name in gpu.name for name in RACKS) and not own.strip("0-"):
        found.append("no ClusterUUID: in no NVLink domain of its rack")
    details = [one for one in found if not one.startswith("Summary")]
    return details if details and all(one.startswith(tuple(_PASSING)) for one in details) else found


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
