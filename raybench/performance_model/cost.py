"""What measured or estimated throughput costs: plain arithmetic on a price per node hour.

Prices age; those of ``nodes.csv`` are list prices on the date each line names, for orientation, and every command that
shows a cost also says where its price comes from. ``--price`` replaces them.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from raybench.documents.price import Price
from raybench.errors import UsageError
from raybench.hardware.nodes import NodeType, find_node_type, node_key
from raybench.hardware.tables import parse_table

__all__ = ["Cost", "Price", "list_price", "why_unpriced"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Of work at a steady rate on ``nodes`` nodes, in the price's currency."""

    price: Price
    nodes: int
    samples_per_second: float
    tokens_per_second: float = 0.0

    @property
    def per_hour(self) -> float:
        """All nodes for an hour."""
        return self.price.per_node_hour * self.nodes

    @property
    def per_1k_samples(self) -> float | None:
        """1000 samples; None without throughput."""
        return self._of(1000, self.samples_per_second)

    @property
    def per_million_tokens(self) -> float | None:
        """10^6 tokens; None where none were counted."""
        return self._of(1e6, self.tokens_per_second)

    def per_epoch(self, samples: float) -> float | None:
        """One pass over a data set."""
        return self._of(samples, self.samples_per_second)

    def _of(self, amount: float, rate: float) -> float | None:
        return self.per_hour * amount / rate / 3600 if rate > 0 else None


def list_price(node_type: str, table: str | None = None) -> Price | None:
    """The list price of a node type, such as ``p5.48xlarge``; None where the table of node types has none for it.

    ``table``: CSV text with name, usd_per_node_hour, date and source, in place of that table. Raises UsageError where
    it lacks the node type.
    """
    if table is None:
        node = find_node_type(node_type)
        return _listed(node) if node else None
    for row in parse_table(table):
        if node_key(row.get("name") or "") == node_key(node_type):
            return _price(row)
    raise UsageError(f"the price table has no line '{node_type}' (columns: name,usd_per_node_hour,date,source)")


def why_unpriced(node_type: str) -> str | None:
    """What to give, and why a node type has no list price; None for one that has, or that is not in the table."""
    node = find_node_type(node_type)
    if node is None or not node.unpriced:
        return None
    return f"give --price, of a node for an hour: no list price on demand of {node.name} is known; {node.unpriced}"


def _listed(node: NodeType) -> Price | None:
    if node.usd_per_hour is None:
        return None
    source = f"list price of {node.name} on {node.priced_on}, {node.price_source}; override with --price"
    return Price(per_node_hour=node.usd_per_hour, source=source)


def _price(row: Mapping[str, str | None]) -> Price:
    name, text = row.get("name"), row.get("usd_per_node_hour")
    try:
        amount = float(text or "")
    except ValueError:
        raise UsageError(f"usd_per_node_hour of '{name}' in the price table is '{text}', not a number") from None
    day, source = row.get("date") or "an unknown day", row.get("source") or "an unknown source"
    return Price(per_node_hour=amount, source=f"list price of {name} on {day}, {source}; override with --price")
