"""The lab: ``with Lab(nodes=4) as lab`` is a cluster on this machine until the block ends, however it ends.

Each node has its own network, host name, processes, IPC, /root, /tmp, /run and /dev/shm, and its own writable layer
over /etc and /var. What is not its own: the kernel, the clock, the CPUs, memory, devices, and the other folders.

Nothing is named outside: namespaces, links and mounts live in the nodes' processes, every pid 1 watches the process
that made the lab, and so not even SIGKILL of the test leaves a node behind. See ``init.py``.
"""

import contextlib
import secrets
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from . import network
from .boot import BootPlan, NodeFile, start_machine
from .errors import LabSetupError, LabUnavailableError
from .folder import LabFolder, make_folder
from .node import Node
from .process import Process
from .ray_cluster import (
    CLIENT_ENVIRONMENT,
    DAEMON_ENVIRONMENT,
    GCS_PORT,
    TOKEN_FILE,
    RayDaemon,
    RayShape,
    start_daemons,
)
from .requirement import find_sshd, lab_available
from .ssh import SshAccess, make_access

_REPOSITORY = Path(__file__).resolve().parents[2]
_HIDDEN = ("/tmp", "/run", "/dev/shm", "/etc", "/root", "/var")
_MOST_NODES = 250
_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_NEW_BOOT_ID = f"cat /proc/sys/kernel/random/uuid > /run/boot_id && mount --bind /run/boot_id {_BOOT_ID}"
_UNITS = {"gbit": 10**9, "mbit": 10**6, "kbit": 10**3, "bit": 1}


class Lab:
    """N nodes joined by a switch. ``control`` is a node that sees this machine's files and reaches all others.

    With ``rails`` above 1 each node has eth1 and so on besides eth0, each on a switch and in a subnet of its own.
    ``visible`` are folders of this machine that nodes see and write at the same path, beside ``shared``, the repository
    and the Python environment. ``ssh`` is None where this machine has no sshd.
    """

    def __init__(self, nodes: int, *, rails: int = 1, visible: Sequence[Path] = ()) -> None:
        if not 1 <= nodes <= _MOST_NODES:
            raise ValueError(f"a lab has 1 to {_MOST_NODES} nodes, not {nodes}")
        self._size = nodes
        self._rails = rails
        self._visible = visible
        self._folder: LabFolder | None = None
        self._control: Node | None = None
        self.nodes: list[Node] = []
        self.ssh: SshAccess | None = None
        self.ray: list[RayDaemon] = []
        self._token = secrets.token_hex(32)

    def __enter__(self) -> Self:
        reason = lab_available()
        if reason is not None:
            raise LabUnavailableError(reason)
        try:
            self._folder = make_folder()
            self._build()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def control(self) -> Node:
        """The node that carries the switch: own network and processes, but this machine's files."""
        if self._control is None:
            raise LabSetupError("the lab is not up; use it as 'with Lab(nodes=4) as lab'")
        return self._control

    @property
    def folder(self) -> LabFolder:
        """The folder of this lab; ``folder.shared`` is what nodes share."""
        if self._folder is None:
            raise LabSetupError("the lab is not up; use it as 'with Lab(nodes=4) as lab'")
        return self._folder

    @property
    def names(self) -> dict[str, str]:
        """The address of every node by host name, the control node's included."""
        numbered = {f"node{number}": number for number in range(1, self._size + 1)}
        return {name: network.address_of(number) for name, number in {"control": 0, **numbered}.items()}

    def shape(self, node: Node, rate: str | None, *, rail: int = 0) -> None:
        """Hold a node's link to a rate such as ``100mbit``, in both directions; None lifts the limit.

        The rate counts Ethernet headers, as tc does: TCP carries 1448/1514 of it. Raises ValueError on another unit.
        """
        node.cables[rail].shape(None if rate is None else parse_rate(rate))

    def shape_way(self, node: Node, other: Node, rate: str) -> None:
        """Hold what a node sends to another to a rate such as ``100mbit``; its other ways stay as they are."""
        network.limit_way(node.machine.init_pid, "eth0", other.address, parse_rate(rate))

    @property
    def ray_address(self) -> str:
        """Where a driver on any node finds Ray, ``10.88.0.1:6379``; ``auto`` finds it as well."""
        return f"{network.address_of(1)}:{GCS_PORT}"

    def start_ray(
        self,
        *,
        cpus_per_node: int = 2,
        gpus_per_node: int = 0,
        settings: Mapping[str, str] | None = None,
        timeout: float = 120.0,
    ) -> None:
        """Start Ray on all nodes, the head on node 1, and return when every node is registered.

        ``settings`` are environment variables of Ray's daemons, such as ``RAY_health_check_period_ms``. From then on
        ``Node.run`` and ``popen`` give commands what a driver needs. Raises LabSetupError with what Ray said.
        """
        shape = RayShape(cpus=cpus_per_node, gpus=gpus_per_node)
        for node in self.nodes:
            node.environment |= CLIENT_ENVIRONMENT
        self.ray = start_daemons(
            self.nodes,
            shape,
            log_folder=self.folder.path,
            environment=DAEMON_ENVIRONMENT | dict(settings or {}),
            deadline=time.monotonic() + timeout,
        )

    def reboot(self, node: Node, *, kept: str | None = None) -> Node:
        """Have a node lose power and come back at its address, with another boot id. Returns what it is then.

        It is emulated: new namespaces, as empty as at first but for a folder that is ``kept``; Ray is not started.
        """
        disk = node.run(["sh", "-c", f"tar -cC / .{kept} | base64"], check=True).stdout if kept else ""
        own = network.hardware_addresses(node.cables)
        node.kill()
        network.remove_ports(node.cables)
        fresh = self._boot(node.number, node.hostname, self._plan(node.hostname))
        network.connect(fresh.cables)
        network.set_hardware_addresses(fresh.cables, own)  # as a machine keeps them: others remember its first
        fresh.machine.wait_ready()
        fresh.environment |= node.environment
        self.nodes[node.number - 1] = fresh
        fresh.run(["sh", "-c", _NEW_BOOT_ID], check=True)
        if kept:
            fresh.run(["sh", "-c", "base64 -d | tar -xC /"], text_in=disk, check=True)
        return fresh

    def leftover_processes(self) -> dict[str, list[Process]]:
        """Processes that neither the lab nor Ray's daemons account for, by host name of the nodes that have any."""
        found = {node.hostname: node.leftover_processes() for node in [self.control, *self.nodes]}
        return {hostname: processes for hostname, processes in found.items() if processes}

    def close(self) -> None:
        """Take everything down. Safe to call twice, and on a lab that came up halfway."""
        every = [*self.nodes, *([self._control] if self._control else [])]
        for node in every:
            node.shut_off()
        with contextlib.ExitStack() as stack:  # each step is taken even where one before it fails
            if self._folder is not None:
                stack.callback(self._folder.remove)
            for node in every:
                stack.callback(node.settle)
        self._control, self._folder, self.nodes, self.ray = None, None, [], []

    def _build(self) -> None:
        sshd = find_sshd()
        if sshd is not None:
            self.ssh = make_access(sshd, self.folder.path / "ssh", self.names)
        self._control = self._boot(0, "control", BootPlan(hostname="control", overlaid=(), emptied={}))
        network.build_bridges(self._control.machine.init_pid, self._rails)
        plans = {name: self._plan(name) for name in self.names if name != "control"}
        for number, (name, plan) in enumerate(plans.items(), start=1):
            self.nodes.append(self._boot(number, name, plan))
        network.connect([cable for node in self.nodes for cable in node.cables])
        for node in [self._control, *self.nodes]:
            node.machine.wait_ready()

    def _boot(self, number: int, hostname: str, plan: BootPlan) -> Node:
        machine = start_machine(plan, self.folder.path / f"{hostname}.log")
        control = self._control.machine if self._control else machine
        return Node(
            hostname=hostname,
            address=network.address_of(number),
            machine=machine,
            cables=[
                network.Cable(number=number, control_pid=control.init_pid, node_pid=machine.init_pid, rail=rail)
                for rail in range(self._rails)
            ],
            environment=_environment(),
        )

    def _plan(self, hostname: str) -> BootPlan:
        hosts = "".join(f"{address} {name}\n" for name, address in self.names.items())
        files = {
            "/etc/hostname": NodeFile(text=f"{hostname}\n"),
            "/etc/hosts": NodeFile(text=f"127.0.0.1 localhost\n{hosts}"),
            TOKEN_FILE: NodeFile(text=self._token, mode=0o600),
        }
        return BootPlan(
            hostname=hostname,
            visible=_bound([self.folder.shared, *self._visible]),
            files=files | (self.ssh.node_files() if self.ssh else {}),
            daemon=self.ssh.daemon if self.ssh else (),
        )


def parse_rate(text: str) -> int:
    """Bits per second in a rate as tc writes it: ``100mbit``, ``2.5gbit``. Raises ValueError."""
    for unit, factor in _UNITS.items():
        number = text.removesuffix(unit)
        if number != text:
            return round(float(number) * factor)
    raise ValueError(f"'{text}' is not a rate; write a number with gbit, mbit, kbit or bit, such as 100mbit")


def _bound(folders: Sequence[Path]) -> tuple[str, ...]:
    """The folders that a node would not see, or not write through, unless they are bound into it; outer ones first."""
    wanted = {path.resolve() for path in [*folders, _REPOSITORY, Path(sys.prefix), Path(sys.base_prefix)]}
    hidden = [path for path in wanted if any(path.is_relative_to(folder) for folder in _HIDDEN)]
    return tuple(str(path) for path in sorted(hidden))


def _environment() -> dict[str, str]:
    """What commands in a node start with: the same on every machine that runs the tests, but for where Python lies."""
    return {
        "HOME": "/root",
        "LANG": "C.UTF-8",
        "LOGNAME": "root",
        "PATH": f"{Path(sys.prefix, 'bin')}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "PYTHONPATH": str(_REPOSITORY),
        "SHELL": "/bin/bash",
        "USER": "root",
    }
