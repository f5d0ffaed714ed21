"""Whether NCCL reduces over two nodes in a ring or in a tree: its own tuning model, for nodes behind NVSwitch.

A ring of n ranks moves S at its bandwidth x n/(2(n-1)), a tree at half of its. The ring's bandwidth is that of the
NICs, the tree's that of its channels within the nodes: 0.92 of their speed, at most a figure of each generation. A
channel is a NIC, or half of one where few channels are fast ones; a tree's channels may be twice as fast inside the
node as outside, in the steps that NCCL tries. From src/graph/tuning.cc (the two models), search.cc (steps, doubling)
and topo.h (NVLink, 12 GB/s per 100 Gbit/s) of NVIDIA/nccl@5067397c, 2.30.7.

What is left out: NVLS and NVLSTree (the caller's), CollNet, PCIe on the way, and the plug-ins that choose for a cloud.
"""

from dataclasses import dataclass
from typing import Literal

Choice = Literal["ring", "tree", "either"]
_NIC_GB_PER_S = 12 / 100  # a Gbit/s, as NCCL counts
_TREE_SHARE = 0.92
_SURE = 1.1  # the two models differ by at least this
_FEW_CHANNELS, _FAST_GB_PER_S, _VERY_FAST_GB_PER_S = 4, 25.0, 50.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """A generation of GPUs: NVLink in GB/s as NCCL counts it, the most of a tree's channel on two nodes, the steps."""

    nvlink_gb_per_s: float
    tree_channel_gb_per_s: float
    steps: tuple[float, ...]
    doubles_always: bool = False


# By the generation of NVLink: 12 x 20, 18 x 20.6, 18 x 40.1.
_GENERATIONS = {
    3: Generation(
        nvlink_gb_per_s=240.0,
        tree_channel_gb_per_s=23.6,
        steps=(48, 30, 28, 24, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3),
        doubles_always=True,
    ),
    4: Generation(
        nvlink_gb_per_s=370.8,
        tree_channel_gb_per_s=41.4,
        steps=(48, 45, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3),
    ),
    5: Generation(
        nvlink_gb_per_s=721.8,
        tree_channel_gb_per_s=42.8,
        steps=(96, 86, 80, 48, 45.1, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3),
    ),
}


def two_node_choice(*, ranks: int, nics: int, nic_gbit: float, nvlink_generation: int | None) -> Choice:
    """What NCCL takes for large all_reduces of ``ranks`` ranks with ``nics`` of each node; either where it is close."""
    generation = _GENERATIONS.get(nvlink_generation or 0)
    if generation is None or ranks <= 2:
        return "ring"
    fabric = nics * nic_gbit * _NIC_GB_PER_S
    ring = fabric * ranks / (2 * (ranks - 1))
    channels = _channels(nics, nic_gbit * _NIC_GB_PER_S, generation)
    within = _within(fabric / channels, channels, generation)
    tree = 0.5 * channels * min(_TREE_SHARE * within, generation.tree_channel_gb_per_s)
    if max(ring, tree) < _SURE * min(ring, tree):
        return "either"
    return "tree" if tree > ring else "ring"


def _channels(nics: int, nic_gb_per_s: float, generation: Generation) -> int:
    if nic_gb_per_s < _FAST_GB_PER_S:
        return nics
    single = not generation.doubles_always and nic_gb_per_s < _VERY_FAST_GB_PER_S and nics > _FEW_CHANNELS
    return nics if single else 2 * nics


def _within(outside: float, channels: int, generation: Generation) -> float:
    """The speed of a tree's channel in the node: the first step at twice what it has outside, or the last below."""
    best = outside
    for step in sorted(generation.steps):
        if step <= outside:
            continue
        if step * channels > generation.nvlink_gb_per_s or best >= 2 * outside:
            break
        best = step
    return best
