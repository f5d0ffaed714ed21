"""Faults in a lab of ten nodes, and the inventory that names them, for the tests and the benchmark of preflight."""

import sys
from pathlib import Path

import yaml

from tests.lab.cluster import Lab
from tests.lab.node import Node

SHIFTED_SECONDS = 90
_SITE = "import time\n_now = time.time\ntime.time = lambda: _now() - {seconds}\n"


def lab_inventory(lab: Lab, **variables: dict[str, object]) -> dict[str, object]:
    """An inventory of all nodes, the first one the head, with variables for some of them by host name."""
    assert lab.ssh is not None
    hosts: dict[str, dict[str, object]] = {
        node.hostname: {"ansible_host": node.address, **variables.get(node.hostname, {})} for node in lab.nodes
    }
    names = list(hosts)
    return {
        "all": {
            "vars": {
                "ansible_ssh_common_args": f"-F {lab.ssh.config_file} -o ConnectTimeout=5",
                "ansible_python_interpreter": sys.executable,
                "preflight_python": sys.executable,
            },
            "children": {
                "ray_head": {"hosts": {names[0]: hosts[names[0]]}},
                "ray_workers": {"hosts": {name: hosts[name] for name in names[1:]}},
            },
        }
    }


def write_inventory(path: Path, inventory: dict[str, object]) -> Path:
    """The inventory as a file."""
    path.write_text(yaml.safe_dump(inventory, sort_keys=False))
    return path


def lower_memlock(node: Node) -> None:
    """64 KiB for every session from now on, as a host has that nobody configured."""
    sshd = next(process for process in node.processes() if "sshd" in process.command)
    node.run(["prlimit", "--pid", str(sshd.node_pid), "--memlock=65536:65536"], check=True)


def shift_clock(node: Node) -> str:
    """An interpreter for this node whose clock is 90 s behind: nodes of a lab share the kernel's, which none can set.

    The probe reads the time as any program does; only where Python takes it from is another. Returns its path.
    """
    script = f'#!/bin/sh\nPYTHONPATH=/root/shifted exec {sys.executable} "$@"\n'
    _write(node, "/root/shifted/sitecustomize.py", _SITE.format(seconds=SHIFTED_SECONDS))
    _write(node, "/root/python-shifted", script)
    return "/root/python-shifted"


def age_packages(node: Node) -> str:
    """Another version of a system package in dpkg's own database, and of Ray before the real one on Python's path.

    Returns the Python to look at.
    """
    status = node.run(["cat", "/var/lib/dpkg/status"], check=True).stdout
    head, mark, rest = status.partition("Package: openssh-server\n")
    before, version, after = rest.partition("\nVersion: ")
    _write(node, "/var/lib/dpkg/status", f"{head}{mark}{before}{version}0:1.0-{after}")
    _write(node, "/root/old/ray-2.9.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: ray\nVersion: 2.9.0\n")
    _write(node, "/root/python-old", f'#!/bin/sh\nPYTHONPATH=/root/old exec {sys.executable} "$@"\n')
    return "/root/python-old"


def _write(node: Node, path: str, text: str) -> None:
    folder = str(Path(path).parent)
    node.run(["sh", "-c", f"mkdir -p {folder} && cat >{path} && chmod 755 {path}"], text_in=text, check=True)
