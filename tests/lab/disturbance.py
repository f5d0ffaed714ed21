"""What happens to the links of nodes beside a rate and a pulled cable: packets lost, black holes, partitions, flapping.

By nft in the network of each node, since the kernel need not have netem. ARP goes on: a black hole is above it.
"""

import shutil
import subprocess
import time
from collections.abc import Sequence

from .errors import LabSetupError
from .node import Node
from .requirement import search_path

_TABLE = "inet lab"


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
