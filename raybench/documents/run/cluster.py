"""Where a run was: its nodes with their ranks, what each node said of itself, and nodes that took no part."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from msgspec import Struct, ValidationError, convert, field

from raybench.documents.part import Part, placed
from raybench.documents.plain import Json
from raybench.documents.quantity import Count


class GpuFacts(Struct, frozen=True):
    """A GPU as its driver names it."""

    name: str | None = None


class RdmaPort(Struct, frozen=True):
    """A port of an RDMA device. ``gbit``: its rate, Gbit/s; ``state``: ``ACTIVE`` where it is up."""

    device: str
    port: str = ""
    gbit: float = 0.0
    state: str = "unknown"
    link_layer: str = "unknown"


class TrafficCounters(Struct, frozen=True):
    """Bytes that a network device moved during the run."""

    sent_bytes: Count | None = None
    received_bytes: Count | None = None


class RankFacts(Struct, frozen=True):
    """What a rank said of itself. ``processor_wait``: ``counted`` where its own times are without that wait."""

    pid: str | int | None = None
    processor_wait: str | None = None


class NodeFacts(Struct, frozen=True):
    """What the package reads of a node's facts; there is more in them, for people. None is unknown.

    ``traffic`` by device, ``ranks`` by rank, ``settings``: NCCL's variables as the node is configured.
    """

    gpus: tuple[GpuFacts, ...] | None = None
    traffic: Mapping[str, TrafficCounters] | None = None
    ranks: Mapping[Count, RankFacts] | None = None
    settings: Mapping[str, str] | None = None
    rdma_ports: tuple[RdmaPort, ...] | None = None
    cpu_count: int | None = None


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
        return convert(dict(self.facts), NodeFacts, strict=False)

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

    def contradiction(self) -> str | None:
        """Whether those of its facts that are read have their types."""
        try:
            convert(dict(self.facts), NodeFacts, strict=False)
        except ValidationError as error:
            return str(placed(error, ".facts"))
        return None

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
