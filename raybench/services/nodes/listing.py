"""Nodes of a preflight by their state."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from raybench.nodes.intent import Policy, intents_of
from raybench.nodes.lists import by_state, listed
from raybench.services.nodes.judged import read_report
from raybench.verdicts import NODE_STATES


def node_list(path: Path, states: Sequence[str], form: str) -> str | dict[str, Any]:
    """The hosts of the states; with none named all of them, each state with its name in front.

    ``form`` is ``slurm``, ``plain`` or ``json``: there each host has its state, reasons and since. Raises UsageError.
    """
    report = read_report(path)
    intents_of(report, Policy())  # it has states
    chosen = [state for state in NODE_STATES if not states or state in states]
    if form == "json":
        return {
            host.host: host.node.to_json()
            for host in report.hosts
            if host.node is not None and host.node.state in chosen
        }
    hosts = by_state(report)
    if states:
        return listed(hosts, chosen, form)
    separator = " " if form == "slurm" else "\n"
    return "\n".join(f"{state}:{separator}{listed(hosts, [state], form)}".rstrip() for state in chosen)
