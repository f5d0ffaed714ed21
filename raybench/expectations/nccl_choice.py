"""What NCCL chooses: a ring or a tree over two nodes behind NVSwitch, and over how many channels a GPU sends to a peer.

A ring of n ranks moves S at its bandwidth x n/(2(n-1)), a tree at half of its. The ring's bandwidth is that of the
NICs, the tree's that of its channels within the nodes: 0.92 of their speed, at most a figure of each generation. A
channel is a NIC, or half of one where few channels are fast ones; a tree's channels may be twice as fast inside the
node as outside, in the steps that NCCL tries. From src/graph/tuning.cc (the two models), search.cc (steps, doubling)
and topo.h (NVLink, 12 GB/s per 100 Gbit/s) of NVIDIA/nccl@5067397c, 2.30.7.

What is left out: NVLS and NVLSTree (the caller's), CollNet, PCIe on the way, and the plug-ins that choose for a cloud.

What is sent to one peer takes few channels where there are many ranks, since NCCL tunes it for all to all: since 2.29
as many as the NICs of a GPU need at 14 GB/s each, halved until all peers fit into one round of eight a channel
(src/graph/paths.cc@5067397c); from 2.20 to 2.28 two, or one where two ranks or more share a channel (the same file,
v2.20.5-1 and v2.28.9-1). Channels are two a NIC.
"""

import math
from dataclasses import dataclass
from typing import Literal

Choice = Literal["ring", "tree", "either"]
_NIC_GB_PER_S = 12 / 100  # a Gbit/s, as NCCL counts
_TREE_SHARE = 0.92
_SURE = 1.1  # the two models differ by at least this
_FEW_CHANNELS, _FAST_GB_PER_S, _VERY_FAST_GB_PER_S = 4, 25.0, 50.0
_CHANNEL_GB_PER_S = 14.0  # NCCL_P2P_PER_CHANNEL_NET_BW: what NCCL counts on from a channel to a peer
_OLD_CHANNEL_GB_PER_S = 17.0  # what one reaches where only one or two are taken: 17.2 in a cluster of 64 nodes
_BATCH = 8  # NCCL_MAX_DEV_WORK_P2P_PER_BATCH
_OLD_CHANNELS, _OLD_RANKS_A_CHANNEL, _FEWEST_CHANNELS = 2, 4, 4


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


def sent_to_one_peer(*, ranks: int, nics: int, gpu_gb_per_s: float) -> tuple[float, float]:
    """GB/s that NCCL's channels to one peer carry over the NICs of a GPU: since 2.29, and from 2.20 to 2.28."""
    channels = max(_FEWEST_CHANNELS, _power_of_two(2 * nics))
    now = _power_of_two(math.ceil(gpu_gb_per_s / _CHANNEL_GB_PER_S))
    while now * math.ceil(ranks / _BATCH) > channels and now > 1:
        now //= 2
    before = 1 if _OLD_CHANNELS * ranks > _OLD_RANKS_A_CHANNEL * channels else _OLD_CHANNELS
    return now * _CHANNEL_GB_PER_S, before * _OLD_CHANNEL_GB_PER_S


def _power_of_two(number: int) -> int:
    """The least power of two that is not below a number."""
    return 1 << max(0, number - 1).bit_length()
