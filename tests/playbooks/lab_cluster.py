"""``raybench cluster`` and ``collect`` on the control node of a lab, against its nodes by real SSH."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.lab.cluster import Lab
from tests.lab.fixtures import require_lab
from tests.lab.node import Node
from tests.lab.process import Process
from tests.playbooks.local import require_ansible

_ENTRY = "from raybench.cli import main; main()"
_REPOSITORY = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, kw_only=True)
class LabController:
    """The lab's control node as the machine on which an administrator works. Its state is in the shared folder."""

    lab: Lab

    @property
    def inventory(self) -> Path:
        """The inventory of all nodes, node 1 the head."""
        return self.lab.folder.shared / "hosts.yml"

    @property
    def state(self) -> Path:
        """Where the record of the cluster and its token are."""
        return self.lab.folder.shared / "state" / "raybench" / "cluster"

    @property
    def environment(self) -> dict[str, str]:
        """What its commands are started with."""
        control = self.lab.folder.shared / "cp"
        return {
            "XDG_STATE_HOME": str(self.lab.folder.shared / "state"),
            "ANSIBLE_SSH_CONTROL_PATH_DIR": str(control),  # labs have the same host names: never each other's sockets
        }

    def write_inventory(self, of_nodes: Mapping[str, Mapping[str, Any]] | None = None, **variables: Any) -> None:
        """Write the inventory, with variables beside those that a lab needs; ``of_nodes`` are those of some alone.

        A name that no node has is a worker more.
        """
        assert self.lab.ssh is not None
        needed = {
            "ansible_ssh_common_args": f"-F {self.lab.ssh.config_file}",
            "ansible_python_interpreter": sys.executable,
            "raybench_python": sys.executable,
            "ray_node_environment": {"PYTHONPATH": str(_REPOSITORY)},
            "ray_node_cpus": 2,
        }
        own = {node.hostname: {} for node in self.lab.nodes} | {
            name: dict(one) for name, one in (of_nodes or {}).items()
        }
        head, *workers = own
        groups = {
            "ray_head": {"hosts": {head: own[head]}},
            "ray_workers": {"hosts": {name: own[name] for name in workers}},
        }
        self.inventory.write_text(yaml.safe_dump({"all": {"vars": needed | variables, "children": groups}}))

    def start(self, *arguments: object, node: Node | None = None) -> "subprocess.Popen[str]":
        """Start ``raybench``."""
        return (node or self.lab.control).popen(
            [sys.executable, "-c", _ENTRY, *map(str, arguments)],
            environment=self.environment if node is None else {},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def raybench(
        self,
        *arguments: object,
        node: Node | None = None,
        seconds: float = 400,
        environment: Mapping[str, str] | None = None,
    ) -> "subprocess.CompletedProcess[str]":
        """Run ``raybench`` to its end."""
        settings = (self.environment if node is None else {}) | dict(environment or {})
        command = [sys.executable, "-c", _ENTRY, *map(str, arguments)]
        return (node or self.lab.control).run(command, environment=settings, timeout=seconds)

    def cluster(self, action: str, *arguments: object, status: int = 0) -> dict[str, Any]:
        """The JSON of ``raybench cluster ACTION``, after checking how it ended."""
        done = self.raybench("cluster", action, "--json", "-q", *arguments)
        assert done.returncode == status, done.stdout[-3000:] + done.stderr[-3000:]
        report: dict[str, Any] = json.loads(done.stdout)
        return report

    def playbook(self, name: str, *arguments: object) -> "subprocess.CompletedProcess[str]":
        """Run ``ansible-playbook playbooks/NAME`` in the checkout's root."""
        program = Path(sys.executable).with_name("ansible-playbook")
        return self.lab.control.run(
            [program, "-i", self.inventory, f"playbooks/{name}", *map(str, arguments)],
            environment=self.environment | {"ANSIBLE_NOCOLOR": "1"},
            folder=_REPOSITORY,
            timeout=400,
        )


@contextmanager
def lab_hosts(count: int) -> Iterator[LabController]:
    """A lab of a head and workers with its inventory written; the test is skipped where there can be none."""
    require_lab()
    require_ansible()
    with Lab(nodes=count) as lab:
        if lab.ssh is None:
            pytest.skip("no sshd on this machine: apt-get install openssh-server")
        controller = LabController(lab=lab)
        controller.write_inventory()
        yield controller


def supervisor(node: Node) -> Process:
    """raybench's own process on a node, of which there is one."""
    (found,) = [one for one in node.processes() if "supervise.py" in one.command]
    return found


def by_name(report: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The rows of a report by host."""
    return {row["name"]: row for row in report["nodes"]}


def commands(nodes: Iterable[Node], but: Callable[[Process], bool] = lambda _: False) -> dict[str, list[str]]:
    """What runs on nodes beside their pid 1 and sshd, whose sessions come and go."""
    return {
        node.hostname: [
            process.command
            for process in node.processes()
            if process.node_pid != 1 and not process.command.startswith("sshd") and not but(process)
        ]
        for node in nodes
        if node.alive
    }


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    """Whether a condition comes true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True
