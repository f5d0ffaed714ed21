"""Nodes of a preflight by their state."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from raybench.errors import UsageError
from raybench.nodes.intent import Policy, intents_of
from raybench.nodes.lists import by_state, listed, unfit
from raybench.services.nodes.judged import read_report
from raybench.verdicts import NODE_STATES


def node_list(path: Path, states: Sequence[str], form: str) -> str | dict[str, Any]:
    """The hosts of the states; with none named all of them, each state with its name in front.

    ``form`` is ``slurm``, ``plain`` or ``json``: there each host has its state, reasons and since. Raises UsageError,
    too, where a program is to take the list, and a host's name would be taken for several.
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
    odd = unfit(name for state in chosen for name in hosts[state])
    if states:
        if odd:
            raise UsageError(f"{path} has a host {odd[0]!r:.80}, which no list can hold: correct it in the inventory")
        return listed(hosts, chosen, form)
    hosts = {state: tuple(name.replace("\n", "\\n") for name in names) for state, names in hosts.items()}
    separator = " " if form == "slurm" else "\n"
    return "\n".join(f"{state}:{separator}{listed(hosts, [state], form)}".rstrip() for state in chosen)
