"""Which node of a run a file means by the name of a host: ``gpu-01``, ``gpu-01.dc1.example`` or an address. Pure.

A file may have the hosts of several data centres, which share short names, and two files may call one host by two
names. Samples of one host are never taken for those of another: what may be either is refused.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import combinations

from raybench.documents.run.cluster import NodeInfo
from raybench.timeline.importing.sample import ImportedFileError


def nodes_of_hosts(hosts: Iterable[str], nodes: Sequence[NodeInfo]) -> dict[str, str]:
    """The name of the node of each host that is one. Raises ImportedFileError where it may be one or another."""
    known: dict[str, list[str]] = defaultdict(list)  # hosts by node, whose names or addresses fit
    shortened: dict[str, list[str]] = defaultdict(list)  # in another domain than the node says
    for host in sorted(hosts):
        fitting = _fitting(host, nodes)
        if len(fitting) > 1:
            raise ImportedFileError(f"{host} may be {_either(fitting)} of the run: {_WAY_OUT}")
        if fitting:
            known[fitting[0]].append(host)
        elif len(alike := _shortened(host, nodes)) == 1:
            shortened[alike[0]].append(host)
    found = {node: known.get(node) or shortened[node] for node in {*known, *shortened}}
    for node, its in found.items():
        different = next((pair for pair in combinations(its, 2) if not _may_be_one(*pair, nodes)), None)
        if different is not None:
            raise ImportedFileError(f"{different[0]} and {different[1]} may both be node {node} of the run: {_WAY_OUT}")
    return {host: node for node, its in found.items() for host in its}


_WAY_OUT = "give a file of one host with --node"


def _fitting(host: str, nodes: Sequence[NodeInfo]) -> list[str]:
    """Nodes of that name, else of that address, else of that name with or without a domain."""
    named = [one.name for one in nodes if one.name == host]
    addressed = [one.name for one in nodes if one.address == host]
    return named or addressed or [one.name for one in nodes if _extends(one.name, host) or _extends(host, one.name)]


def _shortened(host: str, nodes: Sequence[NodeInfo]) -> list[str]:
    return [one.name for one in nodes if _short(one.name) == _short(host)]


def _may_be_one(first: str, second: str, nodes: Sequence[NodeInfo]) -> bool:
    """Whether two names of a file may be of one host: one has a domain more, or an address is among them."""
    addresses = {one.address for one in nodes}
    return bool({first, second} & addresses) or _extends(first, second) or _extends(second, first)


def _extends(longer: str, name: str) -> bool:
    """``gpu-01.dc1`` extends ``gpu-01``; no name of letters begins an address."""
    return bool(name) and longer.startswith(f"{name}.") and not longer.replace(".", "").isdecimal()


def _short(name: str) -> str:
    return name if name.replace(".", "").isdecimal() else name.partition(".")[0]


def _either(names: Sequence[str]) -> str:
    return f"node {' or '.join(names[:3])}{' or another' if len(names) > 3 else ''}"
