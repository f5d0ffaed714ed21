"""PCI Express between GPU and NIC: ACS and IOMMU, reported; ACS off where that is asked for by name."""

from __future__ import annotations

import re
from typing import Any

from .host import Host
from .plan import ItemPlan, Setting, fixed, skip
from .processor import unit_settings
from .resources.pci import AccessControlResource, redirecting_bridges

_DISPLAY, _NETWORK = "0x03", "0x02"
_NVIDIA, _AMD = "0x10de", "0x1002"
_UNIT = "raybench-acs.service"


def plan_access_control(host: Host, options: dict[str, Any]) -> ItemPlan:
    """Advice on ACS; with ``disable`` its bits are cleared on every bridge that redirects, now and at each boot.

    A virtual machine needs ACS to keep its devices apart, so nothing is changed in one or for one.
    """
    container = host.container()
    if container:
        return skip(f"{container}: PCI configuration is the machine's")
    if not _accelerators(host):
        return skip("no GPU: peer-to-peer over PCI Express does not matter here")
    bridges = redirecting_bridges(host)
    if not bridges and not host.exists(f"/etc/systemd/system/{_UNIT}"):
        return skip("no bridge redirects peer-to-peer traffic (ACS is off)")
    advice = [_acs_advice(sorted(bridges))] if bridges else []
    if not options["disable"]:
        return skip("pcie_access_control_disable is false", advice=advice)
    if host.find("setpci") is None:
        return ItemPlan(problem="setpci is not installed (package pciutils): ACS was left on", advice=advice)
    settings = [Setting(AccessControlResource(address), fixed(control=0)) for address in sorted(bridges)]
    lines = [f"-{host.find('setpci')} -s {address} ECAP_ACS+0x6.w=0000" for address in sorted(bridges)]
    plan = ItemPlan(settings=settings)
    if host.systemd() and lines:
        plan.settings += unit_settings("pcie_access_control.acs", _UNIT, "ACS off", lines)
    return plan


def plan_io_mmu(host: Host, options: dict[str, Any]) -> ItemPlan:
    """Advice only: kernel options take a reboot, and raybench never touches them."""
    container = host.container()
    if container:
        return skip(f"{container}: the IOMMU is the machine's")
    translated = translated_devices(host, _accelerators(host))
    command_line = host.word("/proc/cmdline")
    if not translated:
        return skip("no GPU whose memory traffic the IOMMU translates")
    seen = re.findall(r"\b(?:intel_iommu|amd_iommu|iommu)=\S+", command_line)
    said = " ".join(seen) or "no option"
    advice = (
        f"the IOMMU translates for {len(translated)} GPUs ({', '.join(translated[:4])}; {said} on the kernel's command "
        "line): add iommu=pt there, or turn the IOMMU off, and reboot"
    )
    return skip(
        "reported only: raybench changes no kernel options",
        advice=[advice],
        reboot=["iommu=pt takes effect at a reboot"],
    )


def _acs_advice(bridges: list[str]) -> str:
    more = ", ..." if len(bridges) > 4 else ""
    return (
        f"ACS is on at {len(bridges)} PCI bridges ({', '.join(bridges[:4])}{more}): GPU and NIC talk through the "
        "root complex, or not at all; turn it off in the firmware, or set pcie_access_control_disable"
    )


def translated_devices(host: Host, addresses: list[str]) -> list[str]:
    """Devices whose IOMMU group is of a translating type (``DMA``, ``DMA-FQ``), not ``identity``."""
    found = []
    for address in addresses:
        group = host.glob(f"/sys/bus/pci/devices/{address}/iommu_group/type")
        if group and host.word(group[0]).startswith("DMA"):
            found.append(address)
    return found


def _accelerators(host: Host) -> list[str]:
    return [
        path.rsplit("/", 1)[1]
        for path in host.glob("/sys/bus/pci/devices/*")
        if host.word(f"{path}/class").startswith(_DISPLAY) and host.word(f"{path}/vendor") in (_NVIDIA, _AMD)
    ]
