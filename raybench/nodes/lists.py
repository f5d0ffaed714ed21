"""Nodes by state, as lists that other programs take. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence

from raybench.documents.preflight import PreflightReport
from raybench.host_ranges import folded
from raybench.verdicts import NODE_STATES, NodeState

_WORD = re.compile(r"(?!-)[^\s,\[\]]+")
_NUMBERED = re.compile(r"[A-Za-z0-9_.-]*?[0-9]{1,9}")


def by_state(report: PreflightReport) -> dict[NodeState, tuple[str, ...]]:
    """The hosts of each state, in the report's order; every state is there."""
    return {
        state: tuple(host.host for host in report.hosts if host.node is not None and host.node.state == state)
        for state in NODE_STATES
    }


def unfit(names: Iterable[str]) -> tuple[str, ...]:
    """Names that no list can hold: a list's reader would take them for several, or for an option."""
    return tuple(name for name in names if not _WORD.fullmatch(name) or not name.isprintable())


def slurm_hostlist(names: Iterable[str]) -> str:
    """``gpu-[01-07,09],login``: ranges stand at the end of a name alone, since older Slurm takes them nowhere else."""
    every = list(dict.fromkeys(names))
    numbered = [name for name in every if _NUMBERED.fullmatch(name) and "." not in name]
    others = [name for name in every if name not in set(numbered)]
    ranges = re.sub(r",\s+(?![^\[]*\])", ",", folded(numbered)) if numbered else ""
    return ",".join(filter(None, [ranges, *others]))


def listed(hosts: Mapping[NodeState, Sequence[str]], states: Sequence[NodeState], form: str) -> str:
    """The hosts of some states: ``slurm`` a host list on a line, ``plain`` a name a line."""
    names = [name for state in states for name in hosts[state]]
    return slurm_hostlist(names) if form == "slurm" else "\n".join(names)
