"""The programs that are run on a host, with their command lines. All of them read only."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from ..raybench_host.rdma import device_names
from . import packages
from .rdma import drivers, interfaces

SEARCH_FOLDERS = (
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/mellanox/iproute2/sbin:/usr/mft/bin"
    ":/opt/amazon/efa/bin:/opt/rocm/bin"
)
_PROGRAMS = {
    "amd_smi_bad_pages": ["amd-smi", "bad-pages", "--json"],
    "amd_smi_list": ["amd-smi", "list", "--json"],
    "amd_smi_metric": ["amd-smi", "metric", "--json"],
    "amd_smi_static": ["amd-smi", "static", "--json"],
    "amd_smi_topology": ["amd-smi", "topology", "--json"],
    "amd_smi_xgmi": ["amd-smi", "xgmi", "-l"],
    "amd_smi_xgmi_metric": ["amd-smi", "xgmi", "-m"],
    "chronyc": ["chronyc", "-n", "tracking"],
    "dcgmi_health": ["dcgmi", "health", "-g", "0", "-c"],
    "dmesg": ["dmesg"],
    "fabricmanager": ["systemctl", "show", "nvidia-fabricmanager", "-p", "LoadState,ActiveState,SubState"],
    "ibstat": ["ibstat"],
    "ibv_devinfo": ["ibv_devinfo"],
    "iptables": ["iptables-save"],
    "lspci": ["lspci", "-D", "-nn", "-vvv"],
    "nft": ["nft", "list", "ruleset"],
    "ntpq": ["ntpq", "-pn"],
    "nvidia_smi": ["nvidia-smi", "-q"],
    "nvidia_smi_list": ["nvidia-smi", "-L"],
    "nvidia_smi_nvlink": ["nvidia-smi", "nvlink", "-s"],
    "nvidia_smi_nvlink_errors": ["nvidia-smi", "nvlink", "-e"],
    "nvidia_smi_topo": ["nvidia-smi", "topo", "-m"],
    "ofed_info": ["ofed_info", "-s"],
    "rdma_link": ["rdma", "link"],
    "timedatectl": ["timedatectl", "show"],
    "firewalld": ["systemctl", "is-active", "firewalld"],
    "dpkg": ["dpkg-query", "-W", "-f", "${Package} ${Version} ${db:Status-Status}\n"],
    "rpm": ["rpm", "-qa", "--qf", "%{NAME} %{VERSION}-%{RELEASE} installed\n"],
}
_SYSTEMD = "/run/systemd/system"
_OF_SYSTEMD = ("systemctl", "timedatectl")  # without it they only say so
_UNDER_PREFIX = ("ibstat",)


def environment(added: Mapping[str, Any]) -> dict[str, str]:
    """Variables of the programs: this session's, in plain English, with the folders where such programs lie."""
    found = dict(os.environ, LC_ALL="C", LANG="C")
    found["PATH"] = f"{found.get('PATH', '')}:{SEARCH_FOLDERS}"
    return {**found, **{str(name): str(value) for name, value in added.items()}}


def commands(options: Mapping[str, Any], path: str) -> Iterator[tuple[str, list[str]]]:
    """Every program to run with its command line; under the prefix where it speaks to the fabric."""
    for name, command in _PROGRAMS.items():
        if command[0] in _OF_SYSTEMD and not os.path.isdir(_SYSTEMD):
            continue
        yield name, ([*options["prefix"], *command] if name in _UNDER_PREFIX else command)
    if not is_own_python(options, path):
        yield "python", [options["python"] or _default_python(path), "-c", _source_of_packages()]
    if not shutil.which("amd-smi", path=path):
        yield "rocm_smi", ["rocm-smi", "--showid", "--showtemp", "--showxgmierr", "--showreplaycount",
                            "--showrasinfo", "all"]  # fmt: skip
    if "efa" in drivers().values():
        yield "fi_info", ["fi_info", "-p", "efa", "-t", "FI_EP_RDM"]
    for interface in sorted(interfaces()):
        yield "mlnx_qos:" + interface, ["mlnx_qos", "-i", interface]
        yield "dcb_pfc:" + interface, ["dcb", "-j", "pfc", "show", "dev", interface]
        yield "ethtool_module:" + interface, ["ethtool", "-m", interface]
        yield "ethtool_statistics:" + interface, ["ethtool", "-S", interface]
    for device in device_names():
        yield "cma_roce_tos:" + device, ["cma_roce_tos", "-d", device]
    for device, driver in drivers().items():
        if driver == "mlx5_core":
            yield "mlxlink:" + device, [_mlxlink(path), "-d", device, "-m", "-c"]


def _mlxlink(path: str) -> str:
    """NVIDIA's own tool, else the one of mstflint, which prints the same."""
    return "mlxlink" if shutil.which("mlxlink", path=path) or not shutil.which("mstlink", path=path) else "mstlink"


def is_own_python(options: Mapping[str, Any], path: str) -> bool:
    """Whether the Python that is looked at is the one that runs this: another start of it would say nothing new."""
    return os.path.abspath(options["python"] or _default_python(path)) == os.path.abspath(sys.executable or "")


def _source_of_packages() -> str:
    loader: Any = packages.__loader__  # ours, or of the folder that a test imports from
    return str(loader.get_source(packages.__name__))


def _default_python(path: str) -> str:
    found = (shutil.which(name, path=path) for name in ("python3", "python"))
    return next((program for program in found if program), "python3")
