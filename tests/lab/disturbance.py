"""What happens to nodes beside a rate and a pulled cable: lost packets, black holes, partitions, slow processors.

Links by nft in the network of each node, since the kernel need not have netem. ARP goes on: a black hole is above it.
"""

import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from .errors import LabSetupError
from .node import Node
from .process import Process
from .requirement import search_path

_TABLE = "inet lab"
_GROUPS = Path("/sys/fs/cgroup")
_PERIOD_MICROSECONDS = 25_000


def missing_programs() -> str | None:
    """Why no packet can be dropped here; None where it can."""
    return None if shutil.which("nft", path=search_path()) else "nft is missing: apt-get install nftables"


def lose_packets(node: Node, percent: int) -> None:
    """Drop so many of a hundred packets that a node receives, and as many of those that it sends."""
    drop = f"numgen random mod 100 < {percent} drop"
    _set_rules(node, f"iifname eth0 {drop}", f"oifname eth0 {drop}")


def black_hole(node: Node, *, hears: bool = False, is_heard: bool = False) -> None:
    """Drop what a node receives unless it ``hears``, and what it sends unless it ``is_heard``. Nobody is told."""
    _set_rules(node, "" if hears else "iifname eth0 drop", "" if is_heard else "oifname eth0 drop")


def partition(*sides: Sequence[Node]) -> None:
    """Let no packet pass between nodes of different sides; the control node reaches all."""
    for side in sides:
        addresses = ", ".join(node.address for other in sides if other is not side for node in other)
        for node in side:
            _set_rules(node, f"ip saddr {{ {addresses} }} drop", f"ip daddr {{ {addresses} }} drop")


def heal(nodes: Sequence[Node]) -> None:
    """Let everything pass again."""
    for node in nodes:
        _nft(node, f"add table {_TABLE}\ndelete table {_TABLE}\n")


def flap(node: Node, *, times: int, down_seconds: float, up_seconds: float) -> None:
    """Pull a node's cable and put it back, again and again; it is plugged in at the end."""
    for _ in range(times):
        node.unplug()
        time.sleep(down_seconds)
        node.plug()
        time.sleep(up_seconds)


def processor_groups() -> Path | None:
    """The folder in which groups of processes can be held to a share of the processors; None where there is none."""
    for folder, file in ((_GROUPS / "cpu", "cpu.cfs_quota_us"), (_GROUPS, "cgroup.subtree_control")):
        words = (folder / file).read_text().split() if (folder / file).exists() else []
        if words and (file != "cgroup.subtree_control" or "cpu" in words):
            return folder
    return None


def slow_down(process: Process, share: float) -> Path:
    """Hold a process to a share of one processor, as a slow processor does. Returns its group, to be given back.

    Raises LabSetupError where the kernel has no such groups.
    """
    folder = processor_groups()
    if folder is None:
        raise LabSetupError("no control group can hold a process to a share of a processor")
    group = folder / f"raybench-lab-{process.pid}"
    group.mkdir()
    quota = round(share * _PERIOD_MICROSECONDS)
    if folder.name == "cpu":
        (group / "cpu.cfs_period_us").write_text(f"{_PERIOD_MICROSECONDS}")
        (group / "cpu.cfs_quota_us").write_text(f"{quota}")
    else:
        (group / "cpu.max").write_text(f"{quota} {_PERIOD_MICROSECONDS}")
    (group / "cgroup.procs").write_text(f"{process.pid}")
    return group


def remove_group(group: Path, seconds: float = 10.0) -> None:
    """Give a group back once its processes have ended."""
    deadline = time.monotonic() + seconds
    while group.exists():
        try:
            group.rmdir()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def _set_rules(node: Node, incoming: str, outgoing: str) -> None:
    hooks = {"input": incoming, "output": outgoing}
    chains = "\n".join(
        f"chain {hook} {{ type filter hook {hook} priority 0; {rule}; }}" for hook, rule in hooks.items() if rule
    )
    _nft(node, f"add table {_TABLE}\ndelete table {_TABLE}\ntable {_TABLE} {{\n{chains}\n}}\n")


def _nft(node: Node, rules: str) -> None:
    command = ["nsenter", f"--net=/proc/{node.machine.init_pid}/ns/net", "nft", "-f", "-"]
    done = subprocess.run(command, input=rules, capture_output=True, text=True, check=False, timeout=60)
    if done.returncode != 0:
        raise LabSetupError(f"nft on {node.hostname} failed: {done.stderr.strip()}; its input was: {rules}")
