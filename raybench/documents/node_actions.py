"""What a scheduler was told, or would be told, to do with nodes: printed by ``raybench nodes``.

Schema ``raybench.node_actions/1``: keys are added, never renamed or removed.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

from raybench.documents.plain import PlainDocument, PlainPart
from raybench.verdicts import NodeState

# ``none``: it stays as it is, for the reason given.
NodeStep = Literal["drain", "resume", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAction(PlainPart):
    """What is done with one node.

    ``node`` is the scheduler's name of the host, empty where it has none. ``state`` is the verdict, ``commands`` what
    was or would be called, each as its words. ``done`` is None where nothing was tried, and ``error`` why it failed.
    """

    host: str
    node: str
    state: NodeState
    step: NodeStep
    why: str
    commands: tuple[tuple[str, ...], ...] = ()
    done: bool | None = None
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeActions(PlainDocument):
    """All nodes of a preflight. ``refused`` says why nothing of it is done; empty where it may be.

    ``unchecked`` says why the scheduler was not asked for its nodes; empty where it was. ``applied``: it was told, else
    this is a dry run.
    """

    SCHEMA: ClassVar[str] = "raybench.node_actions/1"
    scheduler: Literal["slurm", "kubernetes"]
    judged_at: str
    applied: bool
    actions: tuple[NodeAction, ...]
    refused: str = ""
    unchecked: str = ""

    @property
    def failed(self) -> bool:
        """Whether something that was to be done was not."""
        return bool(self.refused) or any(one.done is False for one in self.actions)

    @property
    def exit_code(self) -> int:
        """3 where something was refused or failed; 1 where a node is to be drained; 3 where one is unknown; else 0."""
        states = {one.state for one in self.actions}
        if self.failed:
            return 3
        return 1 if "drain" in states else 3 if "unknown" in states else 0
