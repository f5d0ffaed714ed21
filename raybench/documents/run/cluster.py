"""Where a run was: its nodes with their ranks, what each node said of itself, and nodes that took no part."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from msgspec import field

from raybench.documents.part import Part
from raybench.documents.plain import Json
from raybench.documents.quantity import Count
from raybench.documents.run.facts import NodeFacts, damage_of, typed


class NodeInfo(Part, frozen=True, kw_only=True):
    """One node of the run. ``facts`` are what it said of itself: versions, GPUs, niceness, threads, TCP settings."""

    name: str
    address: str
    ranks: tuple[Count, ...]
    gpu_count: Count
    facts: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def known_facts(self) -> NodeFacts:
        """Those of its facts that have a type."""
        return typed(NodeFacts, self.facts)

    @property
    def gpu_names(self) -> tuple[str, ...]:
        """The model of each GPU, where the driver told it."""
        return tuple(str(gpu.name) for gpu in self.known_facts.gpus or ())

    @property
    def sent_bytes(self) -> Mapping[str, int]:
        """What each of its network devices sent during the run; empty where nothing was counted."""
        counted = self.known_facts.traffic or {}
        return {device: one.sent_bytes for device, one in counted.items() if one.sent_bytes is not None}

    @property
    def rank_pids(self) -> Mapping[int, str]:
        """The process id of each of its ranks."""
        return {rank: str(one.pid) for rank, one in (self.known_facts.ranks or {}).items() if one.pid is not None}

    @property
    def rank_facts(self) -> Mapping[int, Mapping[str, Any]]:
        """All that each of its ranks said of itself, in order of rank."""
        told = self.facts.get("ranks")
        ranks = told.items() if isinstance(told, Mapping) else ()
        return dict(sorted((int(rank), facts) for rank, facts in ranks if str(rank).isdecimal()))

    @property
    def addresses(self) -> tuple[str, ...]:
        """All that are known to be its own."""
        return tuple(dict.fromkeys((self.address, *(self.known_facts.interfaces or {}))))

    @property
    def interface_names(self) -> tuple[str, ...] | None:
        """Its network interfaces by name, each once; None where it did not say."""
        interfaces = self.known_facts.interfaces
        return None if interfaces is None else tuple(sorted(set(interfaces.values())))

    def contradiction(self) -> str | None:
        """Whether those of its facts that are read have their types."""
        return damage_of(NodeFacts, self.facts, ".facts")

    def to_json(self) -> Json:
        """The node as in the schema."""
        return self.with_unknown(
            {
                "name": self.name,
                "address": self.address,
                "ranks": list(self.ranks),
                "gpu_count": self.gpu_count,
                "facts": dict(self.facts),
            }
        )


class DroppedNode(Part, frozen=True, kw_only=True):
    """A node that was asked for, or was there, and took no part or was lost, and why."""

    node: str
    reason: str

    def to_json(self) -> Json:
        """The node as in the schema."""
        return self.with_unknown({"node": self.node, "reason": self.reason})


TCP_BACKENDS = ("gloo", "mlx")  # they use processors, and know no network but TCP


class ClusterInfo(Part, frozen=True, kw_only=True):
    """The machines and ranks of a run. ``emulated``: the nodes are processes on one machine."""

    nodes: tuple[NodeInfo, ...]
    world_size: Count
    backend: str
    emulated: bool
    dropped: tuple[DroppedNode, ...] = ()

    def node_of_rank(self, rank: int) -> NodeInfo:
        """The node that a rank ran on. Raises KeyError for a rank that no node has."""
        for node in self.nodes:
            if rank in node.ranks:
                return node
        raise KeyError(f"no node has rank {rank}")

    def to_json(self) -> Json:
        """The cluster as in the schema."""
        return self.with_unknown(
            {
                "nodes": [node.to_json() for node in self.nodes],
                "world_size": self.world_size,
                "backend": self.backend,
                "emulated": self.emulated,
                "dropped": [dropped.to_json() for dropped in self.dropped],
            }
        )
