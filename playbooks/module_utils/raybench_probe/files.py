"""Files of /proc, /sys and /etc that are read whole, and whose values are returned by path."""

from __future__ import annotations

import errno
import glob
import os
from collections.abc import Iterator, Sequence

from ..raybench_host.files import first_line

FILES = {
    "os_release": ["/etc/os-release"],
    "proc": [
        "/proc/version", "/proc/cmdline", "/proc/meminfo", "/proc/swaps", "/proc/uptime", "/proc/loadavg",
        "/proc/modules",
        "/proc/driver/nvidia/version", "/proc/driver/nvidia/params",
        "/proc/sys/kernel/numa_balancing", "/proc/sys/vm/nr_hugepages", "/proc/sys/vm/swappiness",
        "/proc/sys/kernel/random/boot_id",
        "/proc/sys/net/ipv4/tcp_congestion_control", "/proc/sys/net/core/rmem_max", "/proc/sys/net/core/wmem_max",
        "/proc/sys/net/ipv4/ip_local_port_range", "/proc/sys/net/ipv4/ip_local_reserved_ports",
        "/proc/net/bonding/*", "/etc/resolv.conf",
    ],
    "kernel": [
        "/sys/kernel/mm/transparent_hugepage/enabled", "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
        "/sys/devices/system/cpu/online", "/sys/devices/system/cpu/smt/active", "/sys/devices/system/node/online",
        "/sys/devices/system/edac/mc/mc*/ce_count", "/sys/devices/system/edac/mc/mc*/ue_count",
        "/sys/module/nvidia/version", "/sys/module/nvidia_peermem/version", "/sys/module/mlx5_core/version",
        "/sys/module/efa/version", "/opt/amazon/efa_installed_packages",
        "/sys/module/nvidia/parameters/*", "/sys/class/dmi/id/product_name", "/sys/class/dmi/id/bios_version",
    ],
    "limits": ["/etc/systemd/logind.conf", "/etc/systemd/logind.conf.d/*.conf", "/etc/security/limits.conf",
               "/etc/security/limits.d/*.conf"],
    "net": [
        "/sys/class/net/*/mtu", "/sys/class/net/*/operstate", "/sys/class/net/*/speed", "/sys/class/net/*/duplex",
        "/sys/class/net/*/address",
        "/sys/class/net/*/carrier_changes", "/sys/class/net/*/ecn/roce_np/enable/*",
        "/sys/class/net/*/ecn/roce_rp/enable/*", "/sys/class/net/*/ecn/roce_np/cnp_dscp",
        "/sys/class/net/*/device/numa_node",
    ],
    "infiniband": [
        "/sys/class/infiniband/*/fw_ver", "/sys/class/infiniband/*/hca_type", "/sys/class/infiniband/*/board_id",
        "/sys/class/infiniband/*/node_guid", "/sys/class/infiniband/*/ports/*/state",
        "/sys/class/infiniband/*/ports/*/phys_state", "/sys/class/infiniband/*/ports/*/rate",
        "/sys/class/infiniband/*/ports/*/link_layer", "/sys/class/infiniband/*/ports/*/lid",
        "/sys/class/infiniband/*/ports/*/sm_lid", "/sys/class/infiniband/*/tc/*/traffic_class",
        "/sys/class/infiniband/*/device/numa_node",
    ],
    "pci": [
        "/sys/bus/pci/devices/*/current_link_speed", "/sys/bus/pci/devices/*/current_link_width",
        "/sys/bus/pci/devices/*/max_link_speed", "/sys/bus/pci/devices/*/max_link_width",
        "/sys/bus/pci/devices/*/numa_node",
    ],
}  # fmt: skip
_TELLING_PCI = ("0x02", "0x03", "0x06", "0x12")  # network, display, bridge, accelerator
_MOST_BYTES = 65536


def read_files(patterns: Sequence[str]) -> dict[str, str | None]:
    """Contents of files by path; None for one that is there and cannot be read."""
    found: dict[str, str | None] = {}
    for path in _paths(patterns):
        try:
            with open(path, "rb") as file:
                found[path] = file.read(_MOST_BYTES).decode("utf-8", "replace").strip()
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                found[path] = None
    return found


def _paths(patterns: Sequence[str]) -> Iterator[str]:
    for pattern in patterns:
        for path in sorted(glob.glob(pattern)) if "*" in pattern else [pattern]:
            if not path.startswith("/sys/bus/pci") or is_telling(os.path.dirname(path)):
                yield path


def is_telling(device: str) -> bool:
    """Whether a PCI device is a NIC, a GPU or a bridge."""
    return (first_line(os.path.join(device, "class")) or "").startswith(_TELLING_PCI)
