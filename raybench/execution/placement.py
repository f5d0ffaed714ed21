"""Which nodes and how many ranks on each: a pure plan, made before Ray is asked for anything."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from raybench.errors import GLOO_INSTEAD, ClusterUnavailableError, UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A node that is alive, as Ray knows it. ``gpu_count`` and ``cpu_count`` are what it offers to Ray."""

    node_id: str
    name: str
    address: str
    gpu_count: int
    cpu_count: int
    port: int = 0  # of its raylet; 0 where it is not known

    def __str__(self) -> str:
        return f"{self.name} ({self.address}, {self.gpu_count} GPUs, {self.cpu_count} CPUs)"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementPlan:
    """Nodes in rank order, with the same number of ranks on each, adjacent: node i has ranks i*g to (i+1)*g - 1."""

    nodes: tuple[Candidate, ...]
    ranks_per_node: int
    backend: str

    @property
    def world_size(self) -> int:
        """Ranks over all nodes."""
        return len(self.nodes) * self.ranks_per_node

    @property
    def bundles(self) -> list[dict[str, float]]:
        """One placement-group bundle a node: its GPUs, and one CPU for the node actor."""
        bundle: dict[str, float] = {"CPU": 1.0}
        if self.backend == "nccl":
            bundle["GPU"] = float(self.ranks_per_node)
        return [dict(bundle) for _ in self.nodes]

    def ranks_of(self, node_index: int) -> tuple[int, ...]:
        """Ranks of the node at that place in the plan."""
        first = node_index * self.ranks_per_node
        return tuple(range(first, first + self.ranks_per_node))

    def node_of(self, rank: int) -> Candidate:
        """The node of a rank."""
        return self.nodes[rank // self.ranks_per_node]


def candidates_of(nodes: Sequence[Mapping[str, Any]]) -> tuple[Candidate, ...]:
    """Alive nodes of ``ray.nodes()`` in a stable order: by name with numbers as numbers, then address, then id.

    A node that offers no CPU takes no node actor: it is not there for ranks.
    """
    found = [
        Candidate(
            node_id=node["NodeID"],
            name=_name(node),
            address=node["NodeManagerAddress"],
            gpu_count=int(node["Resources"].get("GPU", 0)),
            cpu_count=int(node["Resources"].get("CPU", 0)),
            port=int(node.get("NodeManagerPort", 0)),
        )
        for node in nodes
        if node["Alive"] and node["Resources"].get("CPU", 0) >= 1
    ]
    return tuple(sorted(found, key=lambda node: (_natural(node.name), _natural(node.address), node.node_id)))


def plan_of(
    candidates: Sequence[Candidate], *, nodes: int | None, ranks_per_node: int | None, backend: str | None
) -> PlacementPlan:
    """The plan for a request; None takes all nodes, all GPUs of the node with the fewest, and NCCL where there are any.

    Raises ClusterUnavailableError when there are fewer nodes, or GPUs on a node, than asked for, naming what exists.
    """
    chosen_backend = backend or ("nccl" if any(node.gpu_count for node in candidates) else "gloo")
    usable = [node for node in candidates if chosen_backend != "nccl" or node.gpu_count]
    count = len(usable) if nodes is None else nodes
    exist = "; ".join(str(node) for node in candidates) or "none"
    if candidates and not usable:
        raise ClusterUnavailableError(
            f"--backend nccl needs a GPU for every rank, and no node has one: {exist}. "
            f"{GLOO_INSTEAD} with --address HOST:PORT."
        )
    if len(usable) < max(count, 1):
        kind = " with GPUs" if chosen_backend == "nccl" else ""
        raise ClusterUnavailableError(
            f"{max(count, 1)} nodes{kind} were asked for and the cluster has {len(usable)}. Nodes that exist: {exist}. "
            "Ask for fewer with --nodes, or start Ray on the missing ones."
        )
    chosen = tuple(usable[:count])
    ranks = ranks_per_node or (min(node.gpu_count for node in chosen) if chosen_backend == "nccl" else 1)
    short = [node for node in chosen if chosen_backend == "nccl" and node.gpu_count < ranks]
    if short:
        raise ClusterUnavailableError(
            f"{ranks} GPUs on each node were asked for; fewer are on: {'; '.join(str(node) for node in short)}. "
            "Ask for fewer with --gpus-per-node."
        )
    return PlacementPlan(nodes=chosen, ranks_per_node=ranks, backend=chosen_backend)


def device_index(gpu_id: str, visible_devices: str | None) -> int:
    """The index, among the GPUs that a node's processes see, of a GPU id that Ray granted.

    Ray's ids are positions on the node, or entries of the node's own CUDA_VISIBLE_DEVICES where that is set (then as
    text, and it may list UUIDs). Raises UsageError for an id that is not among them.
    """
    if visible_devices is None:
        return int(gpu_id)
    entries = [entry.strip() for entry in visible_devices.split(",") if entry.strip()]
    if gpu_id in entries:
        return entries.index(gpu_id)
    raise UsageError(
        f"Ray granted GPU {gpu_id}, but the node's CUDA_VISIBLE_DEVICES is '{visible_devices}'; "
        "start Ray on that node with the variable unset, or with the ids of its GPUs"
    )


def _name(node: Mapping[str, Any]) -> str:
    name, address = node.get("NodeName") or "", node["NodeManagerAddress"]
    return str(node.get("NodeManagerHostname") or address) if name in ("", address) else str(name)


def _natural(text: str) -> tuple[tuple[int, int | str], ...]:
    parts = re.findall(r"[0-9]+|[^0-9]+", text)
    return tuple((0, int(part)) if part.isdecimal() else (1, part) for part in parts)
