"""What nodes said of themselves: what all share once, what differs as columns. Pure."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from raybench.reports.pairs import rank_spans
from raybench.reports.view import Cell, Grid
from raybench.results import ClusterInfo, NodeInfo

# Names that are meant to differ from node to node: not shown as differences. They are in result.json.
_IDENTITIES = ("hostname", "address", "node_id", "gpu_ids", "uuid", "bus_id", "serial", "index", "pid", "machine_id")


def node_grid(cluster: ClusterInfo) -> tuple[Grid, tuple[tuple[str, str], ...]]:
    """Nodes with the facts in which they differ as columns; the facts that all share as (name, value)."""
    facts = [dict(facts_of(node.facts)) for node in cluster.nodes]
    names = [name for name in dict.fromkeys(name for node in facts for name in node) if not name.endswith(_IDENTITIES)]
    shared = [name for name in names if len({node.get(name) for node in facts}) == 1]
    differing = [name for name in names if name not in shared]
    rows = tuple(
        (*_node_cells(node), *(Cell(text=values.get(name, "-"), tone="warn") for name in differing))
        for node, values in zip(cluster.nodes, facts, strict=True)
    )
    grid = Grid(headings=("node", "address", "ranks", "GPUs", *differing), rows=rows)
    return grid, tuple((name, facts[0][name]) for name in shared)


def _node_cells(node: NodeInfo) -> tuple[Cell, ...]:
    name, address = Cell(text=node.name, tone="strong"), Cell(text=node.address)
    return name, address, Cell(text=rank_spans(node.ranks)), Cell(text=str(node.gpu_count))


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
