"""Facts of a host over a connection that is there: fixed commands, each bounded, and files that every Linux has."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from raybench.metadata import parse_gpu_query
from raybench.preflight.probe_answer import BOOT_ID

COMMAND_SECONDS = 20.0
OUTPUT_BYTES = 2**20
_GPU_QUERY = "index,uuid,name,pci.bus_id,driver_version,memory.total"
# The name of the file with the answer, and what is asked. A shell reads it on the host, so: constants only.
COMMANDS: Mapping[str, str] = {
    "uname": "uname -a",
    "os-release": "cat /etc/os-release",
    "cpus": "nproc",
    "memory": "head -n 3 /proc/meminfo",
    "uptime": "cat /proc/uptime",
    "command-line": "cat /proc/cmdline",
    "interfaces": "ip -s addr",
    "limits": "ulimit -a",
    "nccl-conf": "cat /etc/nccl.conf",
    "nvidia-smi": "timeout 15 nvidia-smi",
    "gpus": f"timeout 15 nvidia-smi --query-gpu={_GPU_QUERY} --format=csv,noheader,nounits",
    "nvidia-topology": "timeout 15 nvidia-smi topo -m",
    "ibstat": "timeout 15 ibstat",
    "rdma-links": "timeout 15 rdma link show",
    "kernel-log": "dmesg -T | tail -n 500",
}

Ask = Callable[[str], tuple[int, bytes]]


def ask_facts(ask: Ask) -> dict[str, bytes]:
    """Output of each command that the host has and that succeeded, by name."""
    answers = {name: ask(command) for name, command in COMMANDS.items()}
    return {name: output for name, (status, output) in answers.items() if status == 0 and output}


def boot_id_of(ask: Ask) -> str:
    """What its kernel drew when it booted; empty where it does not say so."""
    _, said = ask("cat /proc/sys/kernel/random/boot_id")
    found = BOOT_ID.search(said.decode("ascii", "replace"))
    return found[0] if found else ""


def summary_of(answers: Mapping[str, bytes]) -> dict[str, Any]:
    """The facts that reports show. None for what the host did not tell."""
    texts = {name: output.decode("utf-8", "replace") for name, output in answers.items()}
    uname = texts.get("uname", "").split()
    return {
        "hostname": uname[1] if len(uname) > 2 else None,
        "kernel": uname[2] if len(uname) > 2 else None,
        "os": _found(r'^PRETTY_NAME="?([^"\n]*)', texts.get("os-release", "")),
        "cpu_count": _number(r"\A([0-9]{1,9})\s*\Z", texts.get("cpus", "")),
        "memory_bytes": _kib(_number(r"^MemTotal:\s+([0-9]{1,18}) kB", texts.get("memory", ""))),
        "gpus": parse_gpu_query(texts.get("gpus", "")),
    }


def _found(pattern: str, text: str) -> str | None:
    match = re.search(pattern, text, re.MULTILINE)
    return match[1] if match else None


def _number(pattern: str, text: str) -> int | None:
    found = _found(pattern, text)
    return None if found is None else int(found)


def _kib(count: int | None) -> int | None:
    return None if count is None else count * 1024
