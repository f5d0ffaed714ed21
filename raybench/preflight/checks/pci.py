"""PCI Express: the links of GPUs and NICs, and what stands between them."""

import re

from raybench.preflight.host_view import HostView
from raybench.preflight.parsers.pci import PciDevice
from raybench.preflight.verdict import Judgement, failed, passed, skipped, unknown, warned


def _endpoints(view: HostView) -> list[PciDevice]:
    return [
        device for device in view.pci if device.is_gpu or (device.is_rdma_nic and device.vendor in {"15b3", "1d0f"})
    ]


def link(view: HostView) -> Judgement:
    """Width and speed that GPUs and NICs trained to, against what they can.

    A GPU lowers its speed while it idles, so only its width is judged; NICs keep theirs.
    """
    devices = _endpoints(view)
    if not devices:
        return skipped("no GPU or RDMA NIC on PCI")
    known = [device for device in devices if device.width is not None and device.width_capable is not None]
    if not known:
        return unknown("lspci could not read the links", "run preflight as root (become: true)")
    bad = [text for device in known for text in _link_faults(device)]
    if not bad:
        return passed(f"{len(known)} devices at full width", "full width and speed")
    return failed(
        "; ".join(bad),
        "full width and speed",
        "LnkSta against LnkCap of lspci",
        "reseat the device or its riser; look for AER messages in dmesg; check the slot's settings in the BIOS",
    )


def _link_faults(device: PciDevice) -> list[str]:
    faults = []
    if device.width and device.width_capable and device.width < device.width_capable:
        faults.append(f"x{device.width} of x{device.width_capable}")
    slow = device.speed_gts and device.speed_capable_gts and device.speed_gts < device.speed_capable_gts
    if slow and not device.is_gpu:
        faults.append(f"{device.speed_gts:g} of {device.speed_capable_gts:g} GT/s")
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
    line = view.file("proc", "/proc/cmdline")
    if line is None:
        return unknown("/proc/cmdline cannot be read")
    settings = re.findall(r"\b((?:intel_|amd_)?iommu(?:\.passthrough)?=\S+)", line)
    seen = " ".join(settings) or "nothing on the kernel's command line"
    through = any(word in {"iommu=pt", "iommu.passthrough=1"} for word in settings)
    off = any(word.endswith("=off") for word in settings)
    on = any(word.endswith("=on") for word in settings)
    if through or off or not on:
        return passed(seen, "off, or iommu=pt")
    return warned(
        seen,
        "off, or iommu=pt",
        "scitix switches it off, ROCm/cvs asks for iommu=pt",
        "add iommu=pt to the kernel's command line and reboot, unless virtual machines need it",
    )


def address_translation(view: HostView) -> Judgement:
    """ATS of NICs: inside a virtual machine GPUDirect needs it, on bare metal it may be off."""
    states = {device.address: device.ats_on for device in _endpoints(view) if device.ats_on is not None}
    if not states:
        return skipped("no GPU or RDMA NIC shows address translation services")
    off = sorted(address for address, state in states.items() if not state)
    virtual = "hypervisor" in (view.file("proc", "/proc/cmdline") or "")
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
        if device.driver == "mlx5_core" and device.max_read_request
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
