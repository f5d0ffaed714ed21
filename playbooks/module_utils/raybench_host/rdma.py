"""RDMA devices as the kernel lists them."""

from __future__ import annotations

import os

CLASS = "/sys/class/infiniband"


def device_names() -> list[str]:
    """RDMA devices that are registered."""
    return sorted(os.listdir(CLASS)) if os.path.isdir(CLASS) else []


def driver(base: str) -> str:
    """The kernel driver of a device, by its folder in sysfs; empty if unknown.

    Of Soft-RoCE and Soft-iWARP, which have no NIC, it is their module.
    """
    if os.path.exists(base + "/parent"):
        return "rdma_rxe"
    if os.path.basename(base).startswith("siw") and not os.path.exists(base + "/hca_type"):
        return "siw"  # its device link is that of the NIC that it sits on
    return bound_driver(base + "/device")


def bound_driver(device: str) -> str:
    """The driver that a PCI function is bound to; empty for none."""
    link = device + "/driver"
    return os.path.basename(os.path.realpath(link)) if os.path.exists(link) else ""
