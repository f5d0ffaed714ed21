"""Looking at the processes below this one: Ray's daemons, their workers, the rank host, the driver."""

import contextlib
import ipaddress
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import psutil

from raybench.execution.incidents.sighting import Component, Sighting, with_missing_node

_NODE_ACTOR_TITLE = "ray::RayNodeActor"  # as Ray names the process of that actor
FIRST_NODE = "node-1"  # of an embedded cluster
_DAEMONS = ("gcs_server", "raylet")
_HOST_MODULE = "raybench.execution.ranks.rank_host"


class ProcessWatch:
    """The run's processes as last seen. Only looks; also at what this process adopted (see ``adopt_orphans``)."""

    def __init__(
        self,
        driver_pid: int,
        rank_host_pid: int | None,
        others: frozenset[psutil.Process] = frozenset(),
        nodes: int = 1,
    ) -> None:
        """``others``: processes below this one that are none of the run's. ``nodes`` that an embedded cluster has."""
        self._nodes = [f"node-{number}" for number in range(1, nodes + 1)]
        self._known: dict[int, Sighting] = {}
        self._others = others
        self._starts: dict[int, str] = {}
        self._keep(driver_pid, "driver", None)
        if rank_host_pid is not None:
            self._keep(rank_host_pid, "rank host", None)

    def join(self, address: str) -> None:
        """Watch the daemons of the cluster at HOST:PORT as well, those of them that are on this machine."""
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.name() in _DAEMONS and is_of_cluster(process.cmdline(), address):
                    self._classify(process, ours=False)

    def name_nodes(self, names: Mapping[str, str]) -> None:
        """Use the run's names of nodes, by Ray's id, and forget daemons of other nodes, which are none of its own."""
        for pid, one in list(self._known.items()):
            if one.node_id is not None and one.node_id in names:
                self._known[pid] = replace(one, node=names[one.node_id])
            elif one.component == "raylet" and not one.ours:
                del self._known[pid]

    def look(self, *, find: bool) -> tuple[Sighting, ...]:
        """Look at every known process, and with ``find`` for new ones as well, which takes a look at all of /proc."""
        if find:
            self._find()
        now = time.monotonic()
        for pid, before in self._known.items():
            state, start = _state_and_start(pid)
            state = "X" if start != self._starts[pid] else state
            self._known[pid] = _changed(before, state, now)
        return with_missing_node(tuple(self._known.values()), self._nodes)

    def forgive(self, seconds: float) -> None:
        """It was us who were away for so long: what was seen before counts from later on."""
        self._known = {pid: replace(one, since=one.since + seconds) for pid, one in self._known.items()}

    def _find(self) -> None:
        for child in psutil.Process().children(recursive=True):
            if child in self._others:
                continue
            with contextlib.suppress(psutil.Error):
                known = self._known.get(child.pid)
                if known is None or known.component == "worker":  # one that takes the node actor in becomes it
                    self._classify(child)

    def _classify(self, process: psutil.Process, *, ours: bool = True) -> None:
        parent = self._known.get(process.ppid())
        ended = process.status() == psutil.STATUS_ZOMBIE
        command = [process.name()] if ended else process.cmdline()  # of one that has ended only the name is left
        component = component_of(command, parent.component if parent else None)
        if component is None:
            return
        node = self._node_of_raylet(command) if component == "raylet" else parent.node if parent else None
        self._keep(process.pid, component, node)
        if component == "raylet" or not ours:
            node_id = option_of(command, "node-id")
            self._known[process.pid] = replace(self._known[process.pid], ours=ours, node_id=node_id)

    def _node_of_raylet(self, command: Sequence[str]) -> str | None:
        """Of one that was never seen alive: that of an embedded cluster's head starts before all others."""
        is_first = not any(one.component == "raylet" for one in self._known.values())
        embedded = any(one.component == "GCS" and one.ours for one in self._known.values())
        return node_of(command) or (FIRST_NODE if is_first and embedded else None)

    def _keep(self, pid: int, component: Component, node: str | None) -> None:
        state, start = _state_and_start(pid)
        self._starts.setdefault(pid, start)
        before = self._known.get(pid)
        since = before.since if before is not None and before.state == state else time.monotonic()
        self._known[pid] = Sighting(component=component, node=node, pid=pid, state=state, since=since)


def component_of(command: Sequence[str], parent: Component | None) -> Component | None:
    """What a process is by its command line and by what its parent is; None where it is none of Ray's or ours."""
    if not command:
        return None
    name = Path(command[0]).name
    if name == "gcs_server":
        return "GCS"
    if name == "raylet":
        return "worker" if parent == "raylet" else "raylet"  # until it has its own program, a child looks like it
    if _HOST_MODULE in command:
        return None if parent == "rank host" else "rank host"  # ranks are forked from it
    if command[0].startswith(_NODE_ACTOR_TITLE):
        return None if parent == "node actor" else "node actor"  # the agent, until it has its own program
    worker = command[0].startswith("ray::") or any(word.endswith("default_worker.py") for word in command)
    return "worker" if worker and parent == "raylet" else None


def is_of_cluster(command: Sequence[str], address: str) -> bool:
    """Whether a daemon's command line is of the cluster whose head is at HOST:PORT; one that has ended has none."""
    if not command:
        return False
    host, _, port = address.rpartition(":")
    if Path(command[0]).name == "gcs_server":
        place = option_of(command, "node-ip-address")
        return option_of(command, "gcs-server-port") == port and (place is None or _may_be(host.strip("[]"), place))
    return any(f"--gcs-address={address}" in argument.split() for argument in command)


def _may_be(host: str, address: str) -> bool:
    """Whether a host may have the address of a process of this machine: a name, which is not looked up here, may."""
    try:
        return host == address or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return True


def node_of(command: Sequence[str]) -> str | None:
    """The name that a raylet was given for its node, else its address."""
    return option_of(command, "node-name") or option_of(command, "node-ip-address")


def option_of(command: Sequence[str], name: str) -> str | None:
    """The value of an option of a daemon, whose names have - or _."""
    for word in command:
        option, _, value = word.partition("=")
        if option.removeprefix("--").replace("_", "-") == name:
            return value
    return None


def _changed(before: Sighting, state: str, now: float) -> Sighting:
    since = before.since if _group(state) == _group(before.state) else now
    return replace(before, state=state, since=since)


def _group(state: str) -> str:
    """Running in whatever way, stopped, or ended."""
    return "stopped" if state in "Tt" else "ended" if state in "ZX" else "runs"


def _state_and_start(pid: int) -> tuple[str, str]:
    """State and start time of a process, X where there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "X", ""
    fields = text.rpartition(")")[2].split()
    return fields[0], fields[19]
