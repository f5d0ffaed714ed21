"""What a node is: versions, GPUs and the settings that explain a figure. Read without importing torch or Ray."""

import contextlib
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil

from raybench.secret_values import recorded
from raybench.version import __version__

_PROBE_SECONDS = 10.0
_GPU_FIELDS = ("index", "uuid", "name", "pci.bus_id", "driver_version", "memory.total")

# What must be equal on all nodes before anything is timed, with the key of `node_facts` that holds it.
COMPARED = ("python", "torch", "nccl", "driver", "raybench")


def node_facts() -> dict[str, Any]:
    """Facts of this machine. Versions are None where there is no such software; ``gpus`` is a list of dictionaries."""
    gpus = gpu_facts()
    return {
        "hostname": socket.gethostname(),
        "python": platform.python_version(),
        "raybench": __version__,
        "torch": installed_version("torch"),
        "ray": installed_version("ray"),
        "nccl": installed_version("nvidia-nccl-cu13") or installed_version("nvidia-nccl-cu12"),
        "driver": gpus[0]["driver_version"] if gpus else None,
        "kernel": platform.release(),
        "cpu_count": os.cpu_count(),
        "niceness": os.nice(0),
        "tcp_congestion_control": _first_line("/proc/sys/net/ipv4/tcp_congestion_control"),
        "visible_devices": visible_devices(),
        "interfaces": interfaces(),
        "rdma_ports": rdma_ports(),
        "settings": library_settings(),
        "gpus": gpus,
        "executable": sys.executable,
    }


def installed_version(package: str) -> str | None:
    """The installed version of a distribution, without importing it."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def gpu_facts() -> list[dict[str, str]]:  # gpu: machine
    """One dictionary a GPU, from nvidia-smi; empty where there is no driver, or where it does not answer in time."""
    command = shutil.which("nvidia-smi")
    if command is None:
        return []
    query = [command, f"--query-gpu={','.join(_GPU_FIELDS)}", "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, timeout=_PROBE_SECONDS, check=True)
    except (subprocess.SubprocessError, OSError):
        return []
    return parse_gpu_query(answer.stdout)


def parse_gpu_query(text: str) -> list[dict[str, str]]:
    """GPUs from ``nvidia-smi --query-gpu=... --format=csv,noheader,nounits``, one line each.

    Sample (driver 580): ``0, GPU-6d3e..., NVIDIA H200, 00000000:3D:00.0, 580.159.04, 143771``
    """
    gpus = []
    for line in text.splitlines():
        values = [value.strip() for value in line.split(",")]
        if len(values) == len(_GPU_FIELDS):
            gpus.append(dict(zip((name.replace(".", "_") for name in _GPU_FIELDS), values, strict=True)))
    return gpus


def visible_devices() -> str | None:  # gpu: ray-masking
    """CUDA_VISIBLE_DEVICES as the node's Ray daemon has it, not as Ray narrowed it for this worker.

    Ray gives each worker only the GPUs that it was granted; the daemon, its parent, still has the node's own value.
    None where the variable is not set: all GPUs are visible.
    """
    with contextlib.suppress(OSError):
        for entry in Path(f"/proc/{os.getppid()}/environ").read_bytes().split(b"\0"):
            name, _, value = entry.partition(b"=")
            if name == b"CUDA_VISIBLE_DEVICES":
                return value.decode(errors="replace")
    return None


def library_settings(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """NCCL and gloo settings that this node has of its own: from its Ray daemon's environment and NCCL's files.

    NCCL reads NCCL_CONF_FILE or ~/.nccl.conf, and /etc/nccl.conf, as NAME=VALUE lines; the environment wins over them.
    """
    source = os.environ if environment is None else environment
    files = [Path("/etc/nccl.conf"), Path(source.get("NCCL_CONF_FILE") or Path("~/.nccl.conf").expanduser())]
    settings: dict[str, str] = {}
    for path in files:
        with contextlib.suppress(OSError):
            pairs = (line.partition("=") for line in path.read_text(encoding="utf-8", errors="replace").splitlines())
            settings |= {name.strip(): value.strip() for name, equals, value in pairs if equals and name[:1] != "#"}
    return recorded(settings | {name: value for name, value in source.items() if name.startswith(("NCCL_", "GLOO_"))})


def interfaces() -> dict[str, str]:
    """The name of the network interface of each address of this machine."""
    return {
        address.address: name
        for name, addresses in psutil.net_if_addrs().items()
        for address in addresses
        if address.family in (socket.AF_INET, socket.AF_INET6)
    }


def rdma_ports(root: Path = Path("/sys/class/infiniband")) -> list[dict[str, Any]]:
    """One dictionary a port of an RDMA device: ``device``, ``port``, ``gbit`` (line rate), ``state``, ``link_layer``.

    Sample: ``rate`` holds ``400 Gb/sec (4X NDR)``, ``state`` holds ``4: ACTIVE``. ``link_layer`` is InfiniBand,
    Ethernet (RoCE), or Unspecified (EFA). Ports whose rate cannot be read are left out.
    """
    ports = []
    for folder in sorted(root.glob("*/ports/*")):
        rate = re.match(r"([0-9.]+) Gb/sec", _first_line(str(folder / "rate")) or "")
        if rate:
            ports.append(
                {
                    "device": folder.parent.parent.name,
                    "port": folder.name,
                    "gbit": float(rate[1]),
                    "state": (_first_line(str(folder / "state")) or "unknown").rpartition(" ")[2],
                    "link_layer": _first_line(str(folder / "link_layer")) or "unknown",
                }
            )
    return ports


def _first_line(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="ascii").splitlines()[0]
    except (OSError, IndexError):
        return None
