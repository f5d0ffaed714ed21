"""What nodes and ranks said of themselves: what all share once, then who differs. Pure."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from diagnostics.limits import LOOPBACK
from raybench.documents.run.cluster import ClusterInfo, NodeInfo
from raybench.reports.agreement import Agreement, agreement_of, difference_grid, omitted_facts
from raybench.reports.model import Cell, Grid
from raybench.reports.spans import names_in_short, ranks_in_short, spans_in_short
from raybench.reports.text import counted

# Names that differ from node to node and rank to rank by their nature: never a difference. They are in result.json.
_IDENTITIES = (
    *("hostname", "address", "node_id", "gpu_ids", "uuid", "bus_id", "serial", "index", "pid", "machine_id"),
    "NCCL_DEBUG_FILE",
)
_ELSEWHERE = ("ranks", "traffic")  # tables of their own


@dataclass(frozen=True, slots=True, kw_only=True)
class FactView:
    """Facts of the nodes, or of the ranks: ``differing`` is None where all agree; ``notes`` go below it."""

    shared_title: str
    shared: tuple[tuple[str, str], ...]
    differing: Grid | None
    notes: tuple[str, ...]


def node_grid(cluster: ClusterInfo) -> Grid:
    """A row a node: as wide with one fact as with a hundred."""
    return Grid(headings=("node", "address", "ranks", "GPUs"), rows=tuple(map(_node_cells, cluster.nodes)))


def _node_cells(node: NodeInfo) -> tuple[Cell, ...]:
    name, address = Cell(text=node.name, tone="strong"), Cell(text=node.address)
    return name, address, Cell(text=spans_in_short(node.ranks)), Cell(text=str(node.gpu_count))


def node_facts(cluster: ClusterInfo) -> FactView:
    """The facts of nodes."""
    names = [node.name for node in cluster.nodes]
    found = agreement_of([dict(_comparable(node)) for node in cluster.nodes])
    return _view(found, "node", len(names), lambda who: names_in_short([names[index] for index in who]))


def rank_facts(cluster: ClusterInfo) -> FactView:
    """The facts of ranks. What follows from the place of a rank on its node, alike on all nodes, is no difference."""
    known = [
        (rank, place, _rank_facts(facts))
        for node in cluster.nodes
        for place, (rank, facts) in enumerate(node.rank_facts.items())
    ]
    by_place, names = _by_place([(place, facts) for _, place, facts in known])
    facts = [{name: text for name, text in one.items() if name not in names} for _, _, one in known]
    found = agreement_of(facts)
    found = Agreement(shared=(*found.shared, *by_place), differences=found.differences)
    return _view(found, "rank", len(known), lambda who: ranks_in_short([known[index][0] for index in who]))


def _view(found: Agreement, noun: str, count: int, named: Any) -> FactView:
    omitted = omitted_facts(found.differences)
    everyone = f"all {counted(count, noun)}" if count > 1 else f"the only {noun}"
    return FactView(
        shared_title=f"The same on {everyone}" if count > 1 else f"Facts of {everyone}",
        shared=found.shared,
        differing=difference_grid(found.differences, noun, named) if found.differences else None,
        notes=(omitted,) if omitted else (),
    )


def _comparable(node: NodeInfo) -> Iterator[tuple[str, str]]:
    """Facts of a node that can be compared with another's: interfaces by name, not by address; no loopback."""
    told = {name: value for name, value in node.facts.items() if name not in _ELSEWHERE}
    if node.interface_names is not None:
        told["interfaces"] = ", ".join(name for name in node.interface_names if name != LOOPBACK)
    yield from ((name, text) for name, text in facts_of(told) if not name.endswith(_IDENTITIES))


def _rank_facts(facts: Mapping[str, Any]) -> dict[str, str]:
    return {name: text for name, text in facts_of(facts) if not name.endswith(_IDENTITIES)}


def _by_place(facts: Sequence[tuple[int, Mapping[str, str]]]) -> tuple[list[tuple[str, str]], set[str]]:
    """Facts that follow from a rank's place on its node, such as its device: (name, text) of each, and their names.

    One node alone shows no such rule: there every fact follows from the place.
    """
    places = [place for place, _ in facts]
    if max(places, default=0) < 1 or places.count(1) < 2:
        return [], set()
    told = []
    for name in dict.fromkeys(name for _, one in facts for name in one):
        values: dict[int, set[str | None]] = {}
        for place, one in facts:
            values.setdefault(place, set()).add(one.get(name))
        texts = [next(iter(values[place])) or "not said" for place in sorted(values)]
        if all(len(found) == 1 for found in values.values()) and len(set(texts)) > 1:
            told.append((name, f"by local rank: {', '.join(texts)}"))
    return told, {name for name, _ in told}


def facts_of(values: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """(name, text) of each value: nested names joined by dots, lists of records as ``8 x NVIDIA H200``."""
    return tuple(_flat(values, ""))


def _flat(values: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{name}.")
        elif _is_records(value):
            yield from _flat(_counted(value), f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", _text(value)


def _is_records(value: Any) -> bool:
    return isinstance(value, Sequence) and bool(value) and all(isinstance(item, Mapping) for item in value)


def _counted(records: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Each field over all records: equal values counted."""
    fields = dict.fromkeys(name for record in records for name in record)
    counts = {name: Counter(_text(record.get(name)) for record in records) for name in fields}
    return {name: ", ".join(f"{n} x {text}" for text, n in counter.items()) for name, counter in counts.items()}


def _text(value: Any) -> str:
    if value is None or value in ([], {}, ()):
        return "none"
    return value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
