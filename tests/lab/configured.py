"""What tests of configuring need of a lab: an inventory, the command, and what a node is, to compare it with."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from .cluster import Lab
from .node import Node

Report = dict[str, Any]
# Every file below /etc and /var/lib with its mode, owner and content, and what is the node's own of the kernel.
_STATE = r"""
import hashlib, json, os, stat
found = {}
for top in ("/etc", "/var/lib"):
    for folder, names, files in os.walk(top):
        names[:] = [name for name in names if os.path.join(folder, name) not in ("/var/lib/apt", "/var/lib/dpkg")]
        for name in [*names, *files]:
            path = os.path.join(folder, name)
            facts = os.lstat(path)
            content = ""
            if stat.S_ISREG(facts.st_mode):
                content = hashlib.sha256(open(path, "rb").read()).hexdigest()
            elif stat.S_ISLNK(facts.st_mode):
                content = os.readlink(path)
            found[path] = [oct(facts.st_mode), facts.st_uid, facts.st_gid, content]
for path in ("/sys/class/net/eth0/mtu", "/proc/sys/net/ipv4/tcp_mtu_probing", "/proc/sys/net/ipv4/tcp_retries2"):
    found[path] = open(path).read()
found["/dev/shm"] = os.statvfs("/dev/shm").f_blocks
print(json.dumps(found))
"""


def write_inventory(lab: Lab, hosts: Mapping[str, Mapping[str, Any]], settings: Mapping[str, Any]) -> Path:
    """An inventory of some nodes, with variables of each and of all."""
    assert lab.ssh is not None
    connection = {
        "ansible_python_interpreter": "/usr/bin/python3",
        "ansible_ssh_common_args": f"-F {lab.ssh.config_file}",
    }
    path = lab.folder.shared / "hosts.yml"
    path.write_text(yaml.safe_dump({"all": {"hosts": dict(hosts), "vars": {**connection, **settings}}}))
    return path


def configure(lab: Lab, inventory: Path, *options: str) -> tuple[int, Report]:
    """``raybench configure --json`` on the control node: its exit code and its report."""
    command = ["python", "-m", "raybench", "configure", "-i", str(inventory), "--json", *options]
    done = lab.control.run(command, timeout=280)
    assert done.stdout.startswith("{"), done.stdout + done.stderr
    return done.returncode, json.loads(done.stdout)


def items_of(report: Report, host: str) -> dict[str, Report]:
    """Items of one host by name."""
    return {item["item"]: item for each in report["hosts"] if each["name"] == host for item in each["items"]}


def changes_of(report: Report, hosts: Sequence[str]) -> dict[str, list[Any]]:
    """All changes by host, with their text."""
    return {
        host: [
            (name, item["changes"], item["diff"]) for name, item in items_of(report, host).items() if item["changes"]
        ]
        for host in hosts
    }


def state(node: Node) -> Report:
    """What the node is."""
    done = node.run(["/usr/bin/python3", "-c", _STATE], check=True)
    found: Report = json.loads(done.stdout)
    return found


def digest(content: object) -> str:
    """A short name for a state, for messages."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]


def differing(one: Report, other: Report) -> list[str]:
    """Paths that are not the same in two states."""
    return sorted(path for path in {*one, *other} if one.get(path) != other.get(path))
