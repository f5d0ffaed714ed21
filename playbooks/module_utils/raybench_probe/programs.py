"""The programs that are run on a host, with their command lines. All of them read only."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from .rdma import device_names, drivers, interfaces

SEARCH_FOLDERS = (
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/mellanox/iproute2/sbin:/usr/mft/bin"
    ":/opt/amazon/efa/bin"
)
_PROGRAMS = {
    "chronyc": ["chronyc", "-n", "tracking"],
    "dmesg": ["dmesg"],
    "fabricmanager": ["systemctl", "show", "nvidia-fabricmanager", "-p", "LoadState,ActiveState,SubState"],
    "ibstat": ["ibstat"],
    "iptables": ["iptables-save"],
    "lspci": ["lspci", "-D", "-nn", "-vvv"],
    "nft": ["nft", "list", "ruleset"],
    "ntpq": ["ntpq", "-pn"],
    "nvidia_smi": ["nvidia-smi", "-q"],
    "nvidia_smi_nvlink": ["nvidia-smi", "nvlink", "-s"],
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
_DISTRIBUTIONS = (
    "torch", "ray", "raybench", "numpy", "triton", "transformer-engine", "flash-attn", "deepspeed", "vllm",
    "nvidia-nccl-cu11", "nvidia-nccl-cu12", "nvidia-nccl-cu13", "nvidia-cudnn-cu12", "nvidia-cudnn-cu13",
)  # fmt: skip
# Read off the names of folders, first one on the path first: importlib.metadata takes three times the CPU to import.
_PYTHON_FACTS = """
import json, os, sys
wanted, found = %r, {}
def version(folder, words):
    if len(words) > 1:
        return words[1]
    for name in ("METADATA", "PKG-INFO"):
        try:
            with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as lines:
                return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("Version:"))
        except (OSError, StopIteration):
            pass
for path in sys.path:
    try:
        names = os.listdir(path or ".")
    except OSError:
        continue
    for name in names:
        stem, _, end = name.rpartition(".")
        if end in ("dist-info", "egg-info"):
            words = stem.split("-")
            own = words[0].lower().replace("_", "-").replace(".", "-")
            if own in wanted and own not in found:
                found[own] = version(os.path.join(path, name), words)
found = {name: text for name, text in found.items() if text}
python = ".".join(map(str, sys.version_info[:3]))
print(json.dumps({"python": python, "executable": sys.executable, "packages": found}))
"""


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
        yield "python", [options["python"] or _default_python(path), "-c", _PYTHON_FACTS % (_DISTRIBUTIONS,)]
    if "efa" in drivers().values():
        yield "fi_info", ["fi_info", "-p", "efa", "-t", "FI_EP_RDM"]
    for interface in sorted(interfaces()):
        yield "mlnx_qos:" + interface, ["mlnx_qos", "-i", interface]
        yield "dcb_pfc:" + interface, ["dcb", "-j", "pfc", "show", "dev", interface]
    for device in device_names():
        yield "cma_roce_tos:" + device, ["cma_roce_tos", "-d", device]


def is_own_python(options: Mapping[str, Any], path: str) -> bool:
    """Whether the Python that is looked at is the one that runs this: another start of it would say nothing new."""
    return os.path.abspath(options["python"] or _default_python(path)) == os.path.abspath(sys.executable or "")


def own_python_facts() -> str:
    """What ``_PYTHON_FACTS`` prints, of the Python that runs this."""
    said: list[str] = []
    exec(_PYTHON_FACTS % (_DISTRIBUTIONS,), {"print": said.append})  # noqa: S102 - our own text, above
    return said[-1]


def _default_python(path: str) -> str:
    found = (shutil.which(name, path=path) for name in ("python3", "python"))
    return next((program for program in found if program), "python3")
