"""Ranks over nodes, groups of ranks that communicate, and the links between them."""

import math
from dataclasses import dataclass, replace
from typing import Literal

from raybench.errors import UsageError


class UnknownLinksError(UsageError):
    """A bandwidth is needed that is neither given nor in a table."""


_MOST_RANKS = 10_000_000
# Shares of the line rate that NCCL reaches with large messages, from published healthy logs (docs/methods.md); that of
# PCIe is assumed.
NVLINK_SHARE, PCIE_SHARE, NIC_SHARE = 0.80, 0.80, 0.92
Operation = Literal["all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "send_recv"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """``ranks`` that communicate, on ``nodes`` nodes. ``beside``: groups that do so on these nodes at the same time.

    In hybrid sharding, for example, each rank of a node has a group with its peers on other nodes: all of these groups
    share the node's NICs.
    """

    ranks: int
    nodes: int = 1
    beside: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """``world_size`` ranks, ``ranks_per_node`` on each node. Raises UsageError where they do not fit.

    A model may be cut over ``tensor`` x ``context`` x ``pipeline`` ranks; ``data`` such groups replicate or shard it.
    Ranks are numbered as by Megatron-LM: those of a tensor group are neighbours, then those of a context group, and
    pipeline stages are farthest apart. ``virtual_stages``: parts of the model per pipeline rank (interleaved schedule).

    A layer's experts are spread over ``expert`` ranks. These are context and data ranks, with each expert cut over the
    tensor ranks; or tensor ranks too, each with whole experts and its share of the tokens (Megatron-LM's
    ``expert-tensor-parallel-size`` 1). ``expert_cut`` says which: the ranks that each expert is cut over. None: nobody
    says; whole ones where ``expert`` does not divide the context and data ranks.
    """

    world_size: int
    ranks_per_node: int
    tensor: int = 1
    context: int = 1
    pipeline: int = 1
    expert: int = 1
    virtual_stages: int = 1
    expert_cut: int | None = None

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

        for name in ("tensor", "context", "pipeline", "expert", "virtual_stages"):
            if not 1 <= getattr(self, name) <= _MOST_RANKS:
                raise UsageError(f"{_option(name)} is {getattr(self, name)}; it must be at least 1")
        if self.world_size % self.cut_ranks:
            raise UsageError(
                f"{self.world_size} ranks cannot be divided by --tensor-parallel {self.tensor} x --context-parallel "
                f"{self.context} x --pipeline-parallel {self.pipeline}; choose others, or another --world-size"
            )
        same_stage = self.data * self.context * self.tensor
        if same_stage % self.expert:
            raise UsageError(
                f"--expert-parallel is {self.expert}; it must divide the {same_stage} ranks of a pipeline stage"
            )
        if self.expert_cut is not None and (
            self.expert_cut not in (1, self.tensor) or same_stage // self.expert_cut % self.expert
        ):
            raise UsageError(
                f"--expert-tensor-parallel is {self.expert_cut}; it must be 1 or --tensor-parallel ({self.tensor}), "
                f"and times --expert-parallel ({self.expert}) divide the {same_stage} ranks of a pipeline stage"
            )
        if self.virtual_stages > 1 and self.pipeline == 1:
            raise UsageError("--virtual-stages interleave a pipeline; give --pipeline-parallel of at least 2")

    @property
    def cut_ranks(self) -> int:
        """Ranks that compute a sample together."""
        return self.tensor * self.context * self.pipeline

    @property
    def cut_of_a_token(self) -> int:
        """Ranks that compute a token together."""
        return self.tensor * self.pipeline

    @property
    def is_cut(self) -> bool:
        """Whether a rank holds a part of the model, or of each sequence, whatever is sharded."""
        return self.cut_ranks * self.expert > 1

    @property
    def data(self) -> int:
        """Replicas of the model, each with samples of its own."""
        return self.world_size // self.cut_ranks

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
        if self.is_cut:
            inner = self.sharing_in_node.ranks
            return self._group(self.data * self.context // inner, self.tensor * inner)
        return Group(ranks=self.nodes, nodes=self.nodes, beside=self.node.ranks)

    @property
    def sharing(self) -> Group:
        """Ranks that hold the same part of the model: over which gradients are reduced, or the part is sharded."""
        return self._group(self.data * self.context, self.tensor) if self.is_cut else self.world

    @property
    def sharing_in_node(self) -> Group:
        """The same within one node."""
        most = max(1, self.ranks_per_node // self.tensor)
        return Group(ranks=math.gcd(self.data * self.context, most)) if self.is_cut else self.node

    @property
    def expert_tensor(self) -> int:
        """Ranks over which each expert is cut: the tensor ranks, or 1 where experts are spread over these too."""
        if self.expert_cut is not None:
            return self.expert_cut
        return 1 if self.data * self.context % self.expert else self.tensor

    @property
    def has_whole_experts(self) -> bool:
        """Whether tensor ranks have experts of their own."""
        return self.expert_tensor < self.tensor

    @property
    def sharing_experts(self) -> Group:
        """Ranks that hold the same experts."""
        apart = self.expert * self.expert_tensor
        return self._group(self.data * self.context * self.tensor // apart, apart)

    @property
    def tensor_group(self) -> Group:
        """Ranks over which each layer is cut."""
        return self._group(self.tensor, 1)

    @property
    def context_group(self) -> Group:
        """Ranks over which each sequence is cut."""
        return self._group(self.context, self.tensor)

    @property
    def expert_group(self) -> Group:
        """Ranks that have a layer's experts between them."""
        return self._group(self.expert, self.expert_tensor)

    @property
    def stage_group(self) -> Group:
        """A rank and its peer in the next pipeline stage, for the slowest hop of the pipeline, which all wait for.

        On several nodes some hop leaves a node, for as many of its ranks as the stage has there.
        """
        if self.pipeline == 1:
            return Group(ranks=1)
        between = self.nodes > 1
        beside = min(self.world_size // self.pipeline, self.node.ranks)
        return Group(ranks=2, nodes=2 if between else 1, beside=beside if between else 1)

    def _group(self, ranks: int, stride: int) -> Group:
        """A group of ``ranks`` that are ``stride`` apart, beside those of the ranks in between.

        Of all such groups the one on most nodes: where a node does not hold a whole number of groups, some lie on two.
        """
        per_node = max(1, min(ranks, self.ranks_per_node // stride))
        nodes = math.ceil(ranks / per_node)
        if nodes == 1 < self.nodes and ranks > 1 and self.ranks_per_node % (ranks * stride):
            nodes = 2
        return Group(ranks=ranks, nodes=nodes, beside=min(stride, self.node.ranks) if nodes > 1 else 1)


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}" + ("" if name == "virtual_stages" else "-parallel")


# The least that each rank has to send per byte of S (docs/methods.md, "Bandwidth", derives it).
def wire_factor(operation: str, ranks: int) -> float:
    """Bytes that each rank sends per byte of the message in a ring: busbw over algbw."""
    if ranks < 2:
        return 0.0
    share = (ranks - 1) / ranks
    return {"all_reduce": 2 * share, "all_gather": share, "reduce_scatter": share, "all_to_all": share}.get(
        operation, 1.0
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """What links really carry in one direction, GB/s (10^9 bytes): measured, or a share of the line rate.

    ``node_gb_per_s``: one rank's links to the other ranks of its node. ``fabric_gb_per_s``: all NICs of a node
    together. ``bus_gb_per_s``: a measured bus bandwidth over nodes, which replaces both where all ranks communicate.
    """

    node_gb_per_s: float
    fabric_gb_per_s: float | None = None
    bus_gb_per_s: float | None = None
    launch_seconds: float = 10e-6
    node_hop_seconds: float = 1e-6
    fabric_hop_seconds: float = 12e-6

    def bandwidth_gb_per_s(self, group: Group) -> float:
        """Bus bandwidth of a group.

        NCCL makes a ring per NIC, each of which enters and leaves a node once: together they have the slower of a
        rank's links and of all NICs. Groups beside each other share the NICs.
        Raises UnknownLinksError where the group spans nodes and nothing is known of the network between them.
        """
        if group.nodes > 1 and group.beside == 1 and self.bus_gb_per_s is not None:
            return self.bus_gb_per_s
        if group.nodes == 1:
            return self.node_gb_per_s
        if self.fabric_gb_per_s is None:
            raise UnknownLinksError(
                "nothing is known of the network between nodes; give --nics and --nic-gbit, --nic-gb-per-s, "
                "--node-type, or the --result of a raybench run"
            )
        fabric = self.fabric_gb_per_s / group.beside
        return min(self.node_gb_per_s, fabric) if group.ranks > group.nodes else fabric  # one rank a node: NICs alone

    def latency_seconds(self, operation: Operation, group: Group) -> float:
        """Time of an operation without data: the launch and the hops in sequence.

        An all_reduce goes along a node once, and up and down a tree of log2(nodes) levels. The others go around a ring,
        past every rank. With the defaults 8 bytes take 17 us on one node of eight and 41 us on two; published are 13,
        and 47 to 69 over RDMA (docs/methods.md).
        """
        within = (math.ceil(group.ranks / group.nodes) - 1) * self.node_hop_seconds
        if operation == "all_reduce":
            across = 2 * math.ceil(math.log2(group.nodes)) * self.fabric_hop_seconds
            return self.launch_seconds + within + across
        return self.launch_seconds + group.nodes * within + (group.nodes - 1) * self.fabric_hop_seconds

    def seconds(self, operation: Operation, message_bytes: float, group: Group) -> float:
        """alpha + beta S: latency, and the bytes that each rank sends over its bandwidth. 0 for a single rank."""
        if group.ranks < 2:
            return 0.0
        latency = self.latency_seconds(operation, group)
        if operation == "all_to_all" and group.nodes > 1:
            return latency + self._exchange_seconds(message_bytes, group)
        sent = message_bytes * wire_factor(operation, group.ranks)
        return latency + sent / (self.bandwidth_gb_per_s(group) * 1e9)

    def _exchange_seconds(self, message_bytes: float, group: Group) -> float:
        """An all_to_all over nodes, without its latency.

        In a ring the data of all ranks of a node cross its NICs once; here each rank sends its own to other nodes.
        """
        inside = math.ceil(group.ranks / group.nodes)
        whole = replace(group, beside=1)
        fabric = self.bus_gb_per_s or self.fabric_gb_per_s or self.bandwidth_gb_per_s(whole)
        each = message_bytes / group.ranks / 1e9
        across = each * (group.ranks - inside) * inside * group.beside / fabric
        return across + each * (inside - 1) / self.node_gb_per_s
