"""The nodes of raybench's own Ray cluster as a playbook found or left them: ``raybench cluster ... --json``.

Schema ``raybench.cluster_status/1``: keys are added, never renamed or removed. None is "not known".
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

from raybench.documents.plain import Json, PlainDocument, PlainPart
from raybench.verdicts import Verdict, exit_code_of

ClusterAction = Literal["up", "status", "down"]
NodeState = Literal[
    "alive", "running", "not running", "not in the head's table", "ended", "was not running", "not asked", "failed",
    "unreachable",
]  # fmt: skip
_ENDED: frozenset[NodeState] = frozenset({"ended", "was not running"})
_MISSING: frozenset[NodeState] = frozenset({"unreachable", "not running", "not in the head's table", "not asked"})
_CUT_SHORT = ("canceled", "timeout")  # how Ansible calls a play that was ended half-way


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterNode(PlainPart):
    """One host. Of one that was not reached nothing is known but the problem.

    ``alive`` is whether the head has the node in its table, ``running`` whether raybench's process runs on the host. A
    head may have a node in its table for a while that has gone: what counts is the ``state``, which its JSON has too.
    ``rebooted``: the host has another boot id than when raybench's process was started there, which nobody had ended.
    """

    DERIVED: ClassVar[frozenset[str]] = frozenset({"state"})
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
    rebooted: bool | None = None

    def state(self, action: ClusterAction) -> NodeState:
        """What is known of it after ``action``, in a word or two."""
        if self.unreachable:
            return "unreachable"
        if action == "down" and self.running is False:
            return "ended" if self.changed else "was not running"
        if self.problem:
            return "failed"
        if self.running is None:
            return "not asked"
        if self.alive is None and self.running:
            return "running"
        return "not running" if not self.running else "alive" if self.alive else "not in the head's table"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStatus(PlainDocument):
    """What a playbook found or did. ``address`` is the head's as it said itself; ``error`` is Ansible's own.

    ``strangers``: nodes in the head's table that are not in the inventory. ``allow_missing``: workers may be missing.
    ``check``: nothing was done.
    """

    SCHEMA: ClassVar[str] = "raybench.cluster_status/1"
    action: ClusterAction
    status: str
    nodes: tuple[ClusterNode, ...]
    address: str | None = None
    strangers: tuple[str, ...] = ()
    error: str = ""
    allow_missing: bool = False
    check: bool = False

    @property
    def cut_short(self) -> bool:
        """Whether the play was ended half-way."""
        return self.status in _CUT_SHORT

    @property
    def missing(self) -> tuple[ClusterNode, ...]:
        """Workers that are missing where that is allowed; one that was reached and failed is none of them."""
        missing = frozenset[NodeState]({"unreachable"}) if self.check else _MISSING
        workers = [node for node in self.nodes if self.allow_missing and node.role != "head"]
        return tuple(node for node in workers if node.state(self.action) in missing)

    @property
    def verdict(self) -> Verdict:
        """Whether it is as was asked. ``up`` and ``down`` are incomplete where it is not: they were to make it so."""
        kept = [node for node in self.nodes if node not in self.missing]
        if self.cut_short or self.error or any(node.problem for node in kept):
            return "incomplete"
        states = {node.state(self.action) for node in kept}
        if self.check or states <= (_ENDED if self.action == "down" else {"alive"}):
            return "warning" if self.missing else "ok"
        if "not asked" in states:
            return "unknown"
        return "critical" if self.action == "status" else "incomplete"

    @property
    def exit_code(self) -> int:
        """That of the command."""
        return exit_code_of(self.verdict)

    def to_json(self) -> Json:
        """Each node with its state after the action."""
        content = PlainDocument.to_json(self)
        states = [node.state(self.action) for node in self.nodes]
        rows = [{**row, "state": state} for row, state in zip(content["nodes"], states, strict=True)]
        return {**content, "nodes": rows}
