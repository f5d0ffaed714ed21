"""The processes of a raybench command by what they are: found by their mark, told by command line and parent."""

import contextlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.command import Command

_RANK_FILE = re.compile(r"output-rank-(\d+)\.log$")
_RANK_HOST = "raybench.execution.ranks.rank_host"
_RAYLET = "raylet/raylet --raylet"
_DRIVER = "raybench driver"
NODE_ACTOR = "ray::RayNodeActor"


@dataclass(frozen=True, slots=True, kw_only=True)
class Processes:
    """What a command has started by now: process ids by their part."""

    command: int
    driver: int | None = None  # the child of the command that joins Ray, where it is a process of its own
    gcs: int | None = None
    raylets: tuple[int, ...] = ()  # node-1 first
    actors: Mapping[int, int] = field(default_factory=dict)  # by node, from 1
    rank_host: int | None = None
    ranks: Mapping[int, int] = field(default_factory=dict)

    def pid_of(self, target: str) -> int | None:
        """The process of a target such as ``gcs``, ``raylet 2``, ``node_actor 1``; None while there is none."""
        part, _, number = target.partition(" ")
        index = int(number or 0)
        match part:
            case "raylet":
                return self.raylets[index - 1] if index <= len(self.raylets) else None
            case "node_actor":
                return self.actors.get(index)
            case "rank":
                return self.ranks.get(index)
        found: int | None = getattr(self, part)
        return found


def processes_of(command: Command, cluster: Sequence[int] = ()) -> Processes:
    """Look at what runs now: of the command, and of the cluster that it joins, whose daemons are below these."""
    found = command.processes() | _below(cluster)
    parents = {pid: parent for pid in found if (parent := _parent(pid)) is not None}
    raylets = tuple(sorted(_eldest(found, parents, _RAYLET), key=lambda pid: _node_index(found[pid])))
    hosts = _eldest(found, parents, _RANK_HOST)
    return Processes(
        command=command.process.pid,
        driver=_driver(command.process.pid, found, parents),
        gcs=min((pid for pid in found if "gcs/gcs_server" in found[pid]), default=None),
        raylets=raylets,
        actors={
            raylets.index(parents[pid]) + 1: pid
            for pid in found
            if found[pid].startswith(NODE_ACTOR) and parents.get(pid) in raylets
        },
        rank_host=_rank_host(hosts, parents),
        ranks={rank: pid for pid in found if (rank := _rank(pid)) is not None},
    )


def _rank_host(hosts: Sequence[int], parents: Mapping[int, int]) -> int | None:
    """The one that has forked ranks; the only one before. Of several without ranks, one may never be needed."""
    used = [pid for pid in hosts if pid in parents.values()]
    return used[0] if used else hosts[0] if len(hosts) == 1 else None


def _below(roots: Sequence[int]) -> dict[int, str]:
    found = {}
    for root in roots:
        with contextlib.suppress(psutil.Error):
            for process in psutil.Process(root).children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    found[process.pid] = " ".join(process.cmdline())
    return found


def _eldest(found: Mapping[int, str], parents: Mapping[int, int], words: str) -> list[int]:
    """Processes of a kind whose parent is not of it: what is forked has its parent's command line at first."""
    alike = {pid for pid, text in found.items() if words in text}
    return [pid for pid in found if pid in alike and parents.get(pid) not in alike]


def _driver(command: int, found: Mapping[int, str], parents: Mapping[int, int]) -> int | None:
    """The child of the command that says so in its title."""
    return next((pid for pid in found if found[pid].startswith(_DRIVER) and parents.get(pid) == command), None)


def _node_index(text: str) -> int:
    found = re.search(r"\bnode-(\d+)\b", text)
    return int(found[1]) if found else 0


def _parent(pid: int) -> int | None:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None


def _rank(pid: int) -> int | None:
    try:
        found = _RANK_FILE.search(str(Path(f"/proc/{pid}/fd/1").readlink()))
    except OSError:
        return None
    return int(found[1]) if found else None
