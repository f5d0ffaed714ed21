"""Ranks over nodes, and the links between them: what a communication estimate needs to know of a cluster."""

import math
from dataclasses import dataclass
from typing import Literal

from raybench.errors import UsageError


class UnknownLinksError(UsageError):
    """A bandwidth is needed that was neither given nor can be looked up."""


_MOST_RANKS = 10_000_000
Operation = Literal["all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Ranks that communicate: ``ranks`` of them on ``nodes`` nodes, ``beside`` such groups on the same nodes at once.

    In hybrid sharding each of a node's ranks has its own group with its peers on other nodes: all of them share the
    node's NICs.
    """

    ranks: int
    nodes: int = 1
    beside: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """``world_size`` ranks, ``ranks_per_node`` on each node. Raises UsageError where they do not fit."""

    world_size: int
    ranks_per_node: int

    def __post_init__(self) -> None:
        if not (1 <= self.world_size <= _MOST_RANKS and 1 <= self.ranks_per_node <= _MOST_RANKS):
            raise UsageError(
                f"--world-size is {self.world_size}, with {self.ranks_per_node} ranks a node (--gpus-per-node): both "
                f"must be from 1 to {_MOST_RANKS}"
            )
        if self.world_size > self.ranks_per_node and self.world_size % self.ranks_per_node:
            raise UsageError(
                f"{self.world_size} ranks cannot be spread evenly over nodes of {self.ranks_per_node}; choose a "
                "multiple as --world-size, or another --gpus-per-node"
            )

    @property
    def nodes(self) -> int:
        """Nodes that the ranks fill."""
        return math.ceil(self.world_size / self.ranks_per_node)

    @property
    def world(self) -> Group:
        """All ranks."""
        return Group(ranks=self.world_size, nodes=self.nodes)

    @property
    def node(self) -> Group:
        """The ranks of one node."""
        return Group(ranks=min(self.world_size, self.ranks_per_node))

    @property
    def replicas(self) -> Group:
        """One rank of each node, beside the groups of the node's other ranks."""
        return Group(ranks=self.nodes, nodes=self.nodes, beside=self.node.ranks)


# Least transfers each rank's link must make per byte of S with n ranks (docs/methods.md derives them).
def wire_factor(operation: str, ranks: int) -> float:
    """Bytes that each rank sends per byte of the message, with a ring: the factor that makes busbw of algbw."""
    if ranks < 2:
        return 0.0
    share = (ranks - 1) / ranks
    return {"all_reduce": 2 * share, "all_gather": share, "reduce_scatter": share, "all_to_all": share}.get(
        operation, 1.0
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """What links really carry, one direction, GB/s (10^9 bytes): measured, or a share of the line rate.

    ``node_gb_per_s``: one rank's links to its node's others. ``fabric_gb_per_s``: all NICs of a node together.
    ``bus_gb_per_s``: a measured bus bandwidth over nodes that replaces both where all ranks communicate.
    """

    node_gb_per_s: float
    fabric_gb_per_s: float | None = None
    bus_gb_per_s: float | None = None
    launch_seconds: float = 10e-6
    node_hop_seconds: float = 1e-6
    fabric_hop_seconds: float = 12e-6

    def bandwidth_gb_per_s(self, group: Group) -> float:
        """Bus bandwidth of a group.

        A ring over nodes enters and leaves each node once for each of its NICs: it has the slower of a rank's
        links and of all NICs together. Groups beside each other share the NICs.
        Raises UnknownLinksError where the group spans nodes and nothing is known of the network between them.
        """
        if group.nodes > 1 and group.beside == 1 and self.bus_gb_per_s is not None:
            return self.bus_gb_per_s
        if group.nodes == 1:
            return self.node_gb_per_s
        if self.fabric_gb_per_s is None:
            raise UnknownLinksError(
                "nothing is known of the network between nodes; give --nic-gb-per-s, --nics with --nic-gbit, "
                "--node-type, or a measured --bandwidth"
            )
        if group.beside > 1:  # one rank a node: nothing within a node is shared
            return self.fabric_gb_per_s / group.beside
        return min(self.node_gb_per_s, self.fabric_gb_per_s) if group.ranks > group.nodes else self.fabric_gb_per_s

    def latency_seconds(self, operation: Operation, group: Group) -> float:
        """Time of an operation without data: the launch and the hops in sequence.

        all_reduce has trees: along a node once, log2(nodes) hops up and as many down. The others go around a ring, past
        every rank. With the defaults 8 bytes take 17 us on one node of eight and 41 us on two; published: 13, and 47 to
        69 over RDMA (docs/methods.md).
        """
        within = (math.ceil(group.ranks / group.nodes) - 1) * self.node_hop_seconds
        if operation == "all_reduce":
            across = 2 * math.ceil(math.log2(group.nodes)) * self.fabric_hop_seconds
            return self.launch_seconds + within + across
        return self.launch_seconds + group.nodes * within + (group.nodes - 1) * self.fabric_hop_seconds

    def seconds(self, operation: Operation, message_bytes: float, group: Group) -> float:
        """alpha + beta S: latency and the bytes each rank sends over its bandwidth. Nothing for a single rank."""
        if group.ranks < 2:
            return 0.0
        sent = message_bytes * wire_factor(operation, group.ranks)
        return self.latency_seconds(operation, group) + sent / (self.bandwidth_gb_per_s(group) * 1e9)
