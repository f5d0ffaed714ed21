"""Which node of a scheduler a host of the inventory is. Pure.

What counts is what the scheduler says of its nodes: names and addresses. What a host calls itself is its own word, and
is taken only where the user says so: else a host could have another one drained.
"""

from collections.abc import Collection, Mapping, Sequence

from raybench.nodes.intent import Intent

Names = Mapping[str, Collection[str]]


def nodes_by_host(intents: Sequence[Intent], names: Names, *, by_hostname: bool) -> dict[str, tuple[str, str]]:
    """The node of each host, or an empty name and why there is none.

    ``names`` are the names and addresses of each node. ``by_hostname``: hosts may say which node they are.
    """
    known: dict[str, set[str]] = {}
    for node, others in names.items():
        for name in {node, *others}:
            known.setdefault(name, set()).add(node)
    found = {one.host: _node_of(one, known, names, by_hostname=by_hostname) for one in intents}
    claims: dict[str, list[str]] = {}
    for host, (node, _) in found.items():
        if node:
            claims.setdefault(node, []).append(host)
    return {
        host: ("", f"{' and '.join(claims[node][:3])} would all be the node {node}")
        if node and len(claims[node]) > 1
        else (node, why)
        for host, (node, why) in found.items()
    }


def _node_of(one: Intent, known: Mapping[str, set[str]], names: Names, *, by_hostname: bool) -> tuple[str, str]:
    own = [one.host, _short(one.host)]
    for name in dict.fromkeys([*own, *([one.reported_name, _short(one.reported_name)] if by_hostname else [])]):
        if name in names:
            return name, ""
        nodes = known.get(name, set()) if name else set()
        if len(nodes) > 1:
            return "", f"{name} is the name or address of several nodes: {', '.join(sorted(nodes)[:3])}"
        if nodes:
            return next(iter(nodes)), ""
    hint = "" if by_hostname or not one.reported_name else f"; it calls itself {one.reported_name[:80]}: --by-hostname"
    return "", f"the scheduler has no node {one.host}{hint}"


def _short(name: str) -> str:
    """Before the first dot; an address is whole."""
    return name if name.replace(".", "").isdigit() else name.partition(".")[0]
