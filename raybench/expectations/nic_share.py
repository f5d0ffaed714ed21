"""Which of a node's NICs carry the traffic of the ranks that run on it: the same rule for a run and for a question."""

import math

_BOARD = 8  # GPUs of a board with switches, where nothing says how many a node has


def shared_nics(nics: int, *, ranks: int, installed: int) -> int:
    """NICs that belong to ``ranks`` of a node's ``installed`` GPUs: of four of eight, NCCL takes the four beside them.

    NICs beyond a whole number a GPU are for storage, as the two more of a DGX. A single GPU of four that share a NIC
    has all of that NIC.
    """
    for_gpus = nics // installed * installed if nics > installed else nics
    return math.ceil(for_gpus * min(ranks, installed) / installed)


def likely_installed(*, ranks: int, nics: int | None) -> int:
    """GPUs of a node of which only the ranks and the NICs were told.

    A node with fewer NICs than ranks, or as many, is taken as told. More NICs than ranks are those of a board of eight:
    no GPU has eight NICs to itself, its PCIe carries one of 400 Gbit/s.
    """
    return ranks if nics is None or nics <= ranks else max(ranks, _BOARD)
