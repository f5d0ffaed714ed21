"""What the verdict wants of each node, whatever the scheduler: of one that is unknown nothing at all. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from raybench.documents.node_actions import NodeStep
from raybench.documents.preflight import NodeReason, PreflightHost, PreflightReport
from raybench.errors import UsageError
from raybench.verdicts import NodeState

_MOST_SEEN = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """What is wanted of one host's node. ``reported_name`` is what the host calls itself: anybody's word."""

    host: str
    state: NodeState
    step: NodeStep
    why: str
    reasons: tuple[NodeReason, ...] = ()
    reported_name: str = ""

    @property
    def brief(self) -> str:
        """``gpu-rows, reset-gpu: 2 rows failed`` of the gravest reason; empty where there is none."""
        if not self.reasons:
            return ""
        first = self.reasons[0]
        return f"{first.check}, {first.action}: {' '.join(first.seen.split())[:_MOST_SEEN]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Which states drain and resume. ``degraded``: what a node that is degraded gets."""

    degraded: NodeStep = "none"

    def step(self, state: NodeState) -> NodeStep:
        """What a state wants by itself."""
        steps: Mapping[NodeState, NodeStep] = {"drain": "drain", "healthy": "resume", "degraded": self.degraded}
        return steps.get(state, "none")


def intents_of(report: PreflightReport, policy: Policy) -> tuple[Intent, ...]:
    """One a host, in the report's order. Raises UsageError for a report of before nodes had states."""
    if any(host.node is None for host in report.hosts):
        raise UsageError("this preflight report has no node states: it is of an older raybench; run preflight again")
    return tuple(intent_of(host, policy.step(host.node.state)) for host in report.hosts if host.node is not None)


def intent_of(host: PreflightHost, step: NodeStep, why: str = "") -> Intent:
    """What is wanted of a host; ``why`` stands in for the verdict's own words."""
    assert host.node is not None
    first = host.node.reasons[0] if host.node.reasons else None
    told = f"{first.check}: {' '.join(first.seen.split())[:_MOST_SEEN]}" if first else "no check is against it"
    return Intent(
        host=host.host,
        state=host.node.state,
        step=step,
        why=why or (f"unknown: {told}" if host.node.state == "unknown" else told),
        reasons=host.node.reasons,
        reported_name=host.hostname or "",
    )


def limit_of(text: str, nodes: int) -> int:
    """How many nodes ``10%`` or ``12`` allow of so many; a share allows at least one. Raises UsageError."""
    number, percent = text.strip().removesuffix("%"), text.strip().endswith("%")
    if not (number.isascii() and number.isdigit()) or len(number) > 6 or (percent and int(number) > 100):
        raise UsageError(f"'{text}' is not a limit of nodes: write a number, such as 12, or a share, such as 10%")
    return max(1, int(number) * nodes // 100) if percent else int(number)


def too_many(drained: int, new: int, limit: str, nodes: int) -> str:
    """Why so many nodes are not drained at once; empty where they may be."""
    allowed = limit_of(limit, nodes)
    if not new or drained + new <= allowed:
        return ""
    before = f" beside {drained} that raybench drained before" if drained else ""
    return (
        f"{new} nodes would be drained{before}, of {nodes}, and the limit is {allowed} ({limit}): so many at once are "
        "rather a fault of the network, of a setting or of this tool; look at the reasons, then use --force or "
        "--most-drained"
    )


def names_in(hosts: Sequence[str]) -> str:
    """Some names, for a message."""
    return ", ".join(hosts[:5]) + (f" and {len(hosts) - 5} more" if len(hosts) > 5 else "")
