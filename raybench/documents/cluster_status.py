"""The nodes of raybench's own Ray cluster as a playbook found or left them: ``raybench cluster ... --json``.

Schema ``raybench.cluster_status/1``: keys are added, never renamed or removed. None is "not known".
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

from raybench.documents.plain import PlainDocument, PlainPart

ClusterAction = Literal["up", "status", "down"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterNode(PlainPart):
    """One host. Of one that was not reached nothing is known but the problem.

    ``alive`` is whether the head has the node in its table, ``running`` whether raybench's process runs on the host.
    """

    name: str
    role: str
    running: bool | None = None
    alive: bool | None = None
    changed: bool = False
    address: str | None = None
    gpus: int | None = None
    cpus: int | None = None
    ray: str | None = None
    python: str | None = None
    torch: str | None = None
    supervisor: str | None = None
    uptime_seconds: float | None = None
    unreachable: bool = False
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStatus(PlainDocument):
    """What a playbook found or did. ``address`` is the head's as it said itself; ``error`` is Ansible's own.

    ``strangers``: nodes in the head's table that are not in the inventory.
    """

    SCHEMA: ClassVar[str] = "raybench.cluster_status/1"
    action: ClusterAction
    status: str
    nodes: tuple[ClusterNode, ...]
    address: str | None = None
    strangers: tuple[str, ...] = ()
    error: str = ""
