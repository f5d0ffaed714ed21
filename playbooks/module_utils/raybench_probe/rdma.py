"""RDMA devices as the kernel shows them: names, interfaces, GIDs, partition keys, device nodes, SHARP's files."""

from __future__ import annotations

import glob
import os
from typing import Any

from ..raybench_host import rdma as host_rdma
from ..raybench_host.files import first_line

_EMPTY_GIDS = ("", "fe8")  # without zeros and colons: an entry that is not used, and a link-local prefix alone
_NODES = ("/dev/infiniband/*", "/dev/nvidia*", "/dev/nvidia-caps/*", "/dev/gdrdrv", "/dev/kfd")
_SHARP_FILES = ("libsharp.so", "libsharp_coll.so", "libnccl-net.so")
_SHARP_FOLDERS = (
    "/opt/mellanox/sharp/lib",
    "/opt/hpcx/sharp/lib",
    "/opt/hpcx/nccl_rdma_sharp_plugin/lib",
    "/usr/lib",
    "/usr/lib64",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/local/lib",
)


def interfaces() -> dict[str, str]:
    """Network interfaces of RDMA devices, with their devices: {"ens1f0": "mlx5_0"}.

    A NIC's are below it. Soft-RoCE has no NIC and names the interface that it sits on; of anything else the GID
    table tells.
    """
    found = {os.path.basename(path): _parts(path)[0] for path in glob.glob(host_rdma.CLASS + "/*/device/net/*")}
    for device in set(host_rdma.device_names()) - set(found.values()):
        on_it = first_line(f"{host_rdma.CLASS}/{device}/parent")
        of_gids = glob.glob(f"{host_rdma.CLASS}/{device}/ports/*/gid_attrs/ndevs/*")
        names = [on_it] if on_it else map(first_line, of_gids)
        found.update({name: device for name in names if name})
    return found


def drivers() -> dict[str, str]:
    """Kernel drivers by device; empty if unknown."""
    return {device: host_rdma.driver(f"{host_rdma.CLASS}/{device}") for device in host_rdma.device_names()}


def _parts(path: str) -> list[str]:
    return path[len(host_rdma.CLASS) + 1 :].split("/")


def gids() -> list[list[Any]]:
    """The GID table without its empty entries: [[device, port, index, gid, type, interface], ...]."""
    rows: list[list[Any]] = []
    for path in glob.glob(host_rdma.CLASS + "/*/ports/*/gids/*"):
        device, _, port, _, index = _parts(path)
        gid = first_line(path)
        if not gid or gid.replace("0", "").replace(":", "") in _EMPTY_GIDS:
            continue
        attributes = f"{host_rdma.CLASS}/{device}/ports/{port}/gid_attrs"
        kind, interface = first_line(f"{attributes}/types/{index}"), first_line(f"{attributes}/ndevs/{index}")
        rows.append([device, int(port), int(index), gid, kind, interface])
    return sorted(rows, key=lambda row: row[:3])


def pkeys() -> dict[str, list[str]]:
    """Partition keys without the empty ones: {"mlx5_0/1": ["0xffff"]}."""
    found: dict[str, set[str]] = {}
    for path in glob.glob(host_rdma.CLASS + "/*/ports/*/pkeys/*"):
        device, _, port = _parts(path)[:3]
        value = first_line(path)
        if value and int(value, 16) & 0x7FFF:
            found.setdefault(f"{device}/{port}", set()).add(value)
    return {name: sorted(values) for name, values in found.items()}


def device_nodes() -> dict[str, bool]:
    """Device nodes of RDMA and GPUs, with whether this user may read and write them."""
    paths = [path for pattern in _NODES for path in glob.glob(pattern) if not os.path.isdir(path)]
    return {path: os.access(path, os.R_OK | os.W_OK) for path in sorted(paths)}


def sharp() -> list[str]:
    """Files of SHARP's library and of NCCL's plugin for it."""
    return sorted(path for folder in _SHARP_FOLDERS for name in _SHARP_FILES for path in glob.glob(f"{folder}/{name}*"))
