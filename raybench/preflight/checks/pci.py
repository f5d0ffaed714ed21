"""PCI Express: the links of GPUs and NICs, and what stands between them."""

import re
from collections.abc import Mapping, Sequence

from raybench.preflight.host_view import HostView
from raybench.preflight.parsers.pci import PciDevice
from raybench.preflight.verdict import Judgement, failed, passed, skipped, unknown, warned


def _endpoints(view: HostView) -> list[PciDevice]:
    return [
        device for device in view.pci if device.is_gpu or (device.is_rdma_nic and device.vendor in {"15b3", "1d0f"})
    ]


def link(view: HostView) -> Judgement:
    """Width and speed that GPUs and NICs trained to, against what they and their slots can.

    A GPU lowers its speed while it idles, so only its width is judged; NICs keep theirs. What a device has as much of
    as the slot above it can give is how the machine was built, which warns; less than both can is a fault.
    """
    devices = _endpoints(view)
    if not devices:
        return skipped("no GPU or RDMA NIC on PCI")
    known = [device for device in devices if device.width and device.width_capable]
    if not known:
        if all(device.is_virtual_function for device in devices):
            return skipped("virtual functions show no link of their own")
        return unknown("lspci could not read the links", "run preflight as root (become: true)")
    slots = {device.address: _slot(view, device) for device in known}
    bad = [text for device in known for text in _link_faults(device, slots[device.address])]
    basis = "LnkSta against LnkCap of lspci"
    if bad:
        advice = "reseat the device or its riser; look for AER messages in dmesg; check the slot's settings in the BIOS"
        return failed("; ".join(bad), "full width and speed", basis, advice)
    built = [text for device in known for text in _link_faults(device, None)] + _older_slots(view)
    if built:
        advice = "as much as the slot gives: move the device to a wider or faster slot if its bandwidth is needed"
        return warned("; ".join(built), "full width and speed", f"{basis}; the slot above has no more", advice)
    return passed(f"{len(known)} devices at full width", "full width and speed")


def _older_slots(view: HostView) -> list[str]:
    """GPUs whose slot has an older PCIe than they: nvidia-smi says what both can, also while they idle."""
    if view.status("nvidia_smi") != "ok" or view.readings.get("is_virtual", {}).get("value"):
        return []
    found = []
    for gpu in view.smi.gpus:
        wanted = view.expected.for_gpu(gpu.name).get("pcie_generation")
        most = gpu.number("PCI", "GPU Link Info", "PCIe Generation", "Max")
        if wanted is not None and most is not None and most < float(wanted):
            found.append(f"{gpu.pci_address} PCIe {most:.0f} of {wanted}")
    return found


def _slot(view: HostView, device: PciDevice) -> PciDevice | None:
    """The bridge that the device hangs on, where the kernel and lspci tell."""
    tree: Mapping[str, Sequence[str | None]] = view.readings.get("pci_devices", {}).get("value") or {}
    above = (tree.get(device.address) or [None])[0]
    return next((bridge for bridge in view.pci if bridge.is_bridge and bridge.address == above), None)


def _link_faults(device: PciDevice, slot: PciDevice | None) -> list[str]:
    faults = []
    width, speed = device.width_capable or 0, device.speed_capable_gts or 0.0
    if slot is not None:
        width, speed = min(width, slot.width_capable or width), min(speed, slot.speed_capable_gts or speed)
    if device.width and device.width < width:
        faults.append(f"x{device.width} of x{width}")
    if device.speed_gts and device.speed_gts < speed and not device.is_gpu:
        faults.append(f"{device.speed_gts:g} of {speed:g} GT/s")
    return [f"{device.address} {' at '.join(faults)}"] if faults else []


def access_control(view: HostView) -> Judgement:
    """ACS redirection sends traffic between GPU and NIC up to the root complex and back."""
    bridges = [device for device in view.pci if device.is_bridge and device.acs_on is not None]
    if not _endpoints(view):
        return skipped("no GPU or RDMA NIC on PCI")
    if not bridges:
        return unknown("no bridge shows its access control", "run preflight as root (become: true)")
    redirecting = [device.address for device in bridges if {"ReqRedir", "CmpltRedir"} & set(device.acs_on or ())]
    if not redirecting:
        return passed(f"off on {len(bridges)} bridges", "ReqRedir- CmpltRedir-")
    return warned(
        f"redirects on {len(redirecting)} of {len(bridges)} bridges: {', '.join(redirecting[:4])}",
        "ReqRedir- CmpltRedir-",
        "NCCL's documentation: ACS makes GPUDirect slow or hang on bare metal",
        "switch ACS off in the BIOS, or setpci -s BRIDGE ECAP_ACS+0x6.w=0000 at each boot; keep it for GPU passthrough",
    )


def iommu(view: HostView) -> Judgement:
    """An IOMMU that translates costs bandwidth; off or in pass-through it does not."""
    devices = {device.address for device in _endpoints(view)} if view.status("lspci") == "ok" else set()
    if view.status("lspci") == "ok" and not devices:
        return skipped("no GPU or RDMA NIC on PCI")
    line = view.file("proc", "/proc/cmdline")
    if line is None:
        return unknown("/proc/cmdline cannot be read")
    settings = re.findall(r"\b((?:intel_|amd_)?iommu(?:\.passthrough)?=\S+)", line)
    seen = " ".join(settings) or "nothing on the kernel's command line"
    kinds = _domains(view, devices)
    if kinds:  # the kernel's own word, whatever its default was
        seen = f"{seen}; domains of GPUs and NICs: {', '.join(sorted(kinds))}"
        translates = any(kind.startswith("DMA") for kind in kinds)
    else:
        through = any(word in {"iommu=pt", "iommu.passthrough=1"} for word in settings)
        off = any(word.endswith("=off") for word in settings)
        translates = any(re.search(r"=(?:on\b|force)", word) for word in settings) and not through and not off
    if not translates:
        return passed(seen, "off, or iommu=pt")
    return warned(
        seen,
        "off, or iommu=pt",
        "scitix switches it off, ROCm/cvs asks for iommu=pt",
        "add iommu=pt to the kernel's command line and reboot, unless virtual machines need it",
    )


def _domains(view: HostView, devices: set[str]) -> set[str]:
    """How the IOMMU treats these devices, as sysfs has it since Linux 5.11: DMA, DMA-FQ, identity."""
    tree: Mapping[str, Sequence[str | None]] = view.readings.get("pci_devices", {}).get("value") or {}
    return {kind for address, (_, kind) in tree.items() if address in devices and kind}


def address_translation(view: HostView) -> Judgement:
    """ATS of NICs: inside a virtual machine GPUDirect needs it, on bare metal it may be off."""
    states = {
        device.address: device.ats_on
        for device in _endpoints(view)
        if device.is_rdma_nic and device.vendor == "15b3" and device.ats_on is not None
    }
    if not states:
        return skipped("no mlx5 NIC shows address translation services")
    off = sorted(address for address, state in states.items() if not state)
    virtual = view.value("is_virtual")
    seen = f"on for {len(states) - len(off)} of {len(states)}"
    if off and virtual:
        advice = "enable ATS on the NICs: mlxconfig -d DEVICE set ATS_ENABLED=true, then reboot"
        return warned(seen, "on in virtual machines", "NCCL's documentation, GPUDirect in virtual machines", advice)
    return passed(seen, "on in virtual machines, as you like elsewhere")


def read_request(view: HostView) -> Judgement:
    """NICs ask for memory in pieces of this size; small ones do not fill a fast link."""
    sizes = {
        device.address: device.max_read_request
        for device in _endpoints(view)
        if device.driver == "mlx5_core" and device.max_read_request and not device.is_virtual_function
    }
    if not sizes:
        return skipped("no mlx5 NIC shows its read request size")
    limit = view.expected.max_read_request_min
    small = {address: size for address, size in sizes.items() if size is not None and size < limit}
    if not small:
        return passed(
            f"at least {min(size or 0 for size in sizes.values())} bytes on {len(sizes)} NICs", f"{limit} bytes"
        )
    seen = ", ".join(f"{address} {size}" for address, size in sorted(small.items()))
    advice = f"setpci -s {min(small)} CAP_EXP+8.w, with 5 as its first digit for 4096; or PCIe settings of the BIOS"
    return warned(f"{seen} bytes", f"{limit} bytes", "scitix/sichek; NVIDIA's tuning guide", advice)
