"""The nodes of a preflight in short: how many are in each state, and which, with the gravest reason. Pure."""

from collections.abc import Iterator, Sequence

from raybench.documents.preflight import PreflightHost, PreflightReport
from raybench.host_ranges import folded
from raybench.verdicts import NODE_STATES, NodeState

_WORST_FIRST: tuple[NodeState, ...] = ("drain", "unknown", "degraded")
_MOST_HOSTS = 8
_MOST_GROUPS = 6  # of reasons within a state: a screen has 24 lines


def nodes_in_short(report: PreflightReport) -> str:
    """``nodes: 480 healthy, 12 degraded, 3 drain, 5 unknown``; empty for a report of before there were states."""
    counts = {state: len(report.summary.nodes.get(state, ())) for state in NODE_STATES}
    return f"nodes: {', '.join(f'{count} {state}' for state, count in counts.items())}" if sum(counts.values()) else ""


def node_lines(report: PreflightReport) -> Iterator[tuple[NodeState, str]]:
    """``drain gpu-[01-03] (3 nodes): gpu-rows, reset-gpu`` for all that are not healthy, with the state of the line."""
    for state in _WORST_FIRST:
        groups: dict[tuple[str, str], list[str]] = {}
        for host in report.hosts:
            if host.node is not None and host.node.state == state:
                groups.setdefault(_gravest(host), []).append(host.host)
        ordered = sorted(groups.items(), key=lambda item: -len(item[1]))
        for (check, action), names in ordered[:_MOST_GROUPS]:
            yield state, f"{state} {_named(names)}: {check}, {action}"
        if ordered[_MOST_GROUPS:]:
            yield state, f"{state} {_named([name for _, names in ordered[_MOST_GROUPS:] for name in names])}: others"


def _gravest(host: PreflightHost) -> tuple[str, str]:
    first = host.node.reasons[0] if host.node is not None and host.node.reasons else None
    return (first.check, first.action) if first is not None else ("", "")


def _named(names: Sequence[str]) -> str:
    return folded(names, _MOST_HOSTS) + (f" ({len(names)} nodes)" if len(names) > 2 else "")
