"""Shapes of systems, and what limits a collective on each: the classes by which healthy figures can be compared."""

import math
from dataclasses import dataclass
from typing import Literal

from raybench.expectations.nccl_choice import sent_to_one_peer, two_node_choice
from raybench.hardware.gpus import RACKS, Gpu
from raybench.performance_model.layout import wire_factor

Family = Literal["rdma", "efa", "tcpxo", "sockets"]
FAMILIES: tuple[Family, ...] = ("rdma", "efa", "tcpxo", "sockets")
_GATHERS = ("all_gather", "reduce_scatter")
OPERATIONS = (
    "all_reduce",
    *_GATHERS,
    "all_to_all",
    "send_recv",
    "broadcast",
    "reduce",
)  # the first four on a mesh, too
# Boards on which every GPU reaches every other at full speed through switches, or, AMD's eight, in pairs. GPUs that
# bridges join (H200 NVL) have such a name, too, and no switch.
_SWITCHED = ("A100 SXM", "A800 SXM", "H100 SXM", "H800 SXM", "H20", "H200", "B100", "B200", "GB200", "B300", "GB300")
_MESHED = ("MI300X", "MI325X", "MI350X", "MI355X")
_MESH_RANKS = 8
_RING_SHARE = 0.83  # of NVLink, the most that rings within a node reach: 0.77 to 0.83
# How far healthy published systems differ: gathers over two nodes by 13 % (RDMA; those that are left out of the
# fit are at 0.957 of it at least, one with four slow NICs at 0.89), NVLink racks by 10 %, all_to_all over more than two
# nodes, whose flows meet in switches and NICs, by more than over two.
_GATHER_CAP, _RACK_CAP, _EXCHANGE_CAP, _ALL_TO_ALL_CAP = 0.91, 0.85, 0.85, 0.82
# One GPU to the next (0.86 and 0.99 of a NIC in two clusters), and from or to a root.
_SEND_CAP, _ROOTED_CAP = 0.85, 0.82
_EFA_PAIR_CAP = 0.88  # all_to_all of two nodes: P5 0.85 of its NICs, P5en 0.91, P6 0.96
_ROOTED = ("broadcast", "reduce")
_BOARD_NICS = 8
_FEW = 3  # ranks of a ring within a node that reach less of a link, the fewer the less
# Gathers within a board: by four of its GPUs 6 % less than by eight; by eight B300 0.938 of what other boards predict
# (0.71 of NVLink, and 0.84 for reduce_scatter).
_PART_CAP, _BOARD_CAP = 0.88, 0.92
# MI300X and MI325X: links of 64 GB/s within the node are near what its NICs carry, and the better of two published
# systems is 4 % above the other. MI355X has wider ones and reaches what others do.
_NARROW_MESH_GB_PER_S, _NARROW_MESH_CAP = 500.0, 0.90


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """A shape. ``nvlink_ranks``: ranks that NVLink joins (8 on a board, up to 72 in a rack).

    ``nics``, ``nic_gbit``: NICs of a node for GPU traffic and the line rate of each; None on one NVLink domain.
    ``nvls``: False where in-switch reduction is off, None where it is as NCCL chooses.
    """

    gpu: Gpu
    ranks: int
    nodes: int
    nvlink_ranks: int
    nics: int | None = None
    nic_gbit: float | None = None
    family: Family | None = None
    nvls: bool | None = None

    @property
    def domains(self) -> int:
        """NVLink domains that the ranks span: 1 where no NIC is needed."""
        return math.ceil(self.ranks / self.nvlink_ranks)

    @property
    def fabric_gb_per_s(self) -> float | None:
        """Line rate of all NICs of a node, one direction; None where they are not known."""
        return None if self.nics is None or self.nic_gbit is None else self.nics * self.nic_gbit / 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Regime:
    """What limits a collective: a class of systems (``key``), and the bus bandwidth that its link would allow."""

    key: str
    timing: str  # class for a and p: more special than the key where networks differ
    link_gb_per_s: float
    text: str
    cap: float = 1.0  # no limit above this: how far published healthy systems of the regime differ
    by_nics: bool = False  # a lost NIC lowers it by its share: all of them carry it
    left: float = 7 / 8  # of it, where a NIC is lost: of one, two or four NICs that is less
    most_gb_per_s: float = math.inf  # what a ring within the nodes allows, however fast the NICs are
    is_floor: bool = False  # NCCL may choose something faster: nothing is learned from such a table


@dataclass(frozen=True, slots=True, kw_only=True)
class NoExpectation:
    """Why there is none."""

    reason: str


def regime_of(operation: str, system: System) -> Regime | NoExpectation:
    """What limits a collective on a system."""
    reason = _why_unknown(operation, system)
    if reason is not None:
        return NoExpectation(reason=reason)
    is_meshed = system.gpu.name in _MESHED
    if system.domains == 1:
        return _within(operation, system, is_meshed=is_meshed)
    return _across(operation, system, system.fabric_gb_per_s or 0.0, is_meshed=is_meshed)


def _why_unknown(operation: str, system: System) -> str | None:
    """What the corpus has nothing like; None where it has."""
    name, is_meshed = system.gpu.name, system.gpu.name in _MESHED
    across = system.domains > 1
    reasons = (
        (not is_meshed and not _is_switched(system.gpu), f"no published figures of {name} behind a switch or a mesh"),
        (
            is_meshed and min(system.ranks, system.nvlink_ranks) != _MESH_RANKS,
            f"on {name} only all {_MESH_RANKS} GPUs of a node have published figures",
        ),
        (
            not is_meshed and system.nvlink_ranks > _most_joined(name),
            f"NVLink does not join {system.nvlink_ranks} of {name}",
        ),
        (
            name.startswith(RACKS) and across and system.nvlink_ranks <= _MESH_RANKS,
            "whether NVLink joins these nodes is not known; if one rack does, count them as one node of all its ranks",
        ),
        (operation not in OPERATIONS[: 4 if is_meshed else None], f"no published healthy figures of {operation}"),
        (system.ranks < 2, "a single rank moves no data"),
        (across and system.family == "sockets", "TCP sockets have no healthy figure: use RDMA, or measure each link"),
        (across and not system.fabric_gb_per_s, "the NICs of the nodes are not known"),
        (
            across and system.family is None,
            "the kind of network is not known, or has no published healthy figures (GPUDirect-TCPX)",
        ),
        (across and system.nvlink_ranks > _MESH_RANKS, "published figures of several NVLink racks follow no one rule"),
    )
    return next((reason for applies, reason in reasons if applies), None)


def _is_switched(gpu: Gpu) -> bool:
    return gpu.name.startswith(_SWITCHED) and gpu.board_gb_per_s is not None


def _most_joined(name: str) -> int:
    """GPUs that NVLink can join: 16 of A100 in HGX with two boards, a rack of 72, else the 8 of a board."""
    return 72 if name.startswith(RACKS) else 16 if name.startswith("A100") else 8


def _within(operation: str, system: System, *, is_meshed: bool) -> Regime:
    """One NVLink domain, or one node of AMD GPUs."""
    link = system.gpu.nvlink_gb_per_s or 0.0
    kind = "Infinity Fabric" if is_meshed else f"NVLink {system.gpu.nvlink_generation}"
    text = f"{kind}, {link:g} GB/s a GPU"
    few = not is_meshed and system.ranks <= _FEW
    pairs = {"send_recv": ("hop", "to the next", _SEND_CAP)} | dict.fromkeys(_ROOTED, ("chain", "a chain", _ROOTED_CAP))
    if operation in pairs:
        key, how, cap = pairs[operation]
    elif few:
        key, how, cap = f"few-{operation}", f"{system.ranks} of them", _EXCHANGE_CAP
    elif operation == "all_to_all":
        key, how, cap = "exchange", "each with each", _EXCHANGE_CAP
    elif is_meshed:
        key, how, cap = "mesh", "seven links", 1.0
    else:
        return _switched(operation, system, kind, link)
    return Regime(key=key, timing=key, link_gb_per_s=link, text=f"{text}, {how}", cap=cap)


def _switched(operation: str, system: System, kind: str, link: float) -> Regime:
    """Reductions and gathers of GPUs behind NVSwitch."""
    generation = system.gpu.nvlink_generation
    if operation == "all_reduce" and _has_nvls(system):
        factor = wire_factor("all_reduce", system.ranks)
        cap = _RACK_CAP if system.ranks > _MESH_RANKS else 1.0
        text = f"{kind} with NVLS, {link:g} GB/s a GPU x {factor:.3g}"
        key = f"nvls-{generation}"
        return Regime(key=key, timing=key, link_gb_per_s=link * factor, text=text, cap=cap)
    is_floor = operation == "all_reduce" and _may_have_nvls(system)
    text = f"{kind}, ring, {link:g} GB/s a GPU" + (" (NVLS may be chosen, and is faster)" if is_floor else "")
    is_part = system.ranks < _MESH_RANKS
    key, cap = f"ring-{generation}", 1.0 if operation not in _GATHERS else _PART_CAP if is_part else _BOARD_CAP
    return Regime(key=key, timing=key, link_gb_per_s=link, text=text, cap=cap, is_floor=is_floor)


def _has_nvls(system: System) -> bool:
    """NCCL reduces in the NVSwitch where all eight GPUs of a board take part, or more of a rack."""
    return _may_have_nvls(system) and min(system.ranks, system.nvlink_ranks) >= _MESH_RANKS


def _may_have_nvls(system: System) -> bool:
    """From five GPUs on (NVLink 4) or six (NVLink 5) AWS's tuner chooses it; NCCL's stays with the ring up to seven."""
    least = {4: 5, 5: 6}.get(system.gpu.nvlink_generation or 0)
    return system.nvls is not False and least is not None and min(system.ranks, system.nvlink_ranks) >= least


def _across(operation: str, system: System, fabric: float, *, is_meshed: bool) -> Regime:
    """Over nodes: the NICs of a node, or its own links where they are slower."""
    nics = f"{system.nics} x {system.nic_gbit:g} Gbit/s a node"
    family = system.family or ""
    if operation == "all_to_all":
        away = (system.domains - 1) / system.domains * system.ranks / (system.ranks - 1)
        link = fabric / _shares(system) / away
        text = f"{nics}, {link:.3g} GB/s a GPU as its own part stays"
        pair_cap = _EFA_PAIR_CAP if family == "efa" else 1.0
        kind, cap = ("pairwise", pair_cap) if system.domains == 2 else ("crowded", _ALL_TO_ALL_CAP)  # else flows meet
        return Regime(
            key=f"{kind}-nic-{family}",
            timing=f"exchange-nic-{family}",
            link_gb_per_s=link,
            text=text,
            cap=cap,
            by_nics=True,
            left=_left(system),
        )
    if operation == "send_recv":
        return _from_node_to_node(system, fabric, family)
    if operation == "all_reduce" and system.domains == 2 and not is_meshed:
        return _two_nodes(system, fabric, nics, family)
    if operation in _ROOTED:
        most = _RING_SHARE * (system.gpu.nvlink_gb_per_s or 0.0)
        key, text = f"rooted-nic-{family}", f"{nics}, a chain over nodes"
        return Regime(
            key=key,
            timing=key,
            link_gb_per_s=fabric,
            text=text,
            cap=_ROOTED_CAP,
            by_nics=True,
            left=_left(system),
            most_gb_per_s=most,
        )
    is_gather = operation in _GATHERS
    key = f"gather-nic-{family}" if is_gather else "across-nic"
    most = math.inf if is_meshed else _RING_SHARE * (system.gpu.nvlink_gb_per_s or 0.0)
    narrow = is_meshed and (system.gpu.nvlink_gb_per_s or 0.0) < _NARROW_MESH_GB_PER_S
    return Regime(
        key=key,
        timing=f"{'gather' if is_gather else 'across'}-nic-{family}",
        link_gb_per_s=fabric,
        text=f"{nics}, ring over nodes" + (" and NVLink within them" if most < fabric else ""),
        cap=_GATHER_CAP if is_gather and family != "tcpxo" else _NARROW_MESH_CAP if narrow else 1.0,
        most_gb_per_s=most,
        by_nics=True,
        left=_left(system),
    )


def _left(system: System) -> float:
    """Of a node's bandwidth, where a NIC is lost; of more than eight, those of a GPU."""
    return 1 - 1 / min(max(system.nics or 0, 1), _BOARD_NICS)


def _shares(system: System) -> int:
    """Shares of a node's NICs of which a GPU has one, where several GPUs share a NIC: the smallest of them.

    One of three GPUs with two NICs has its own, and waits for the two others.
    """
    ranks, nics = system.nvlink_ranks, system.nics or 0
    return nics * math.ceil(ranks / nics) if 0 < nics < ranks else ranks


def _from_node_to_node(system: System, fabric: float, family: str) -> Regime:
    """send_recv: of each node one GPU sends to the next node and one receives, with the NICs beside it, whole ones.

    Over InfiniBand and RoCE in as many channels as NCCL takes for one peer; it took fewer before 2.29.
    """
    link = max((system.nic_gbit or 0.0) / 8, fabric / system.nvlink_ranks)
    text = f"{link:g} GB/s of NICs beside the GPU that sends to the next node (the other NICs are idle)"
    key, cap = f"send-nic-{family}", _SEND_CAP
    if family == "rdma":
        now, before = sent_to_one_peer(ranks=system.ranks, nics=system.nics or 0, gpu_gb_per_s=link)
        if now < link:
            text = f"{now:g} GB/s of channels that NCCL takes for one peer of {system.ranks} ranks, of {text}"
        link = min(link, now)
        cap *= min(1.0, before / link)
    return Regime(key=key, timing=key, link_gb_per_s=link, text=text, cap=cap)


def _two_nodes(system: System, fabric: float, nics: str, family: str) -> Regime:
    """all_reduce over two nodes: each sends its sum once, so a tree may pass what all NICs would do in a ring."""
    left = _left(system)
    factor = wire_factor("all_reduce", system.ranks)
    within = (system.gpu.nvlink_gb_per_s or 0.0) * (0.58 * factor if _has_nvls(system) else 0.78)
    if 0.93 * factor * fabric < within and (_has_nvls(system) or _choice(system) == "tree"):
        text = f"{nics}, two nodes: each sends its sum once, x {factor:.3g}"
        first_efa = family == "efa" and system.gpu.name.startswith("A100")  # cannot write remotely, only read
        key = "efa1" if first_efa else "across-nic"
        return Regime(
            key=key, timing=f"across-nic-{family}", link_gb_per_s=factor * fabric, text=text, by_nics=True, left=left
        )
    if _has_nvls(system):
        key, link = f"pair{system.gpu.nvlink_generation}", (system.gpu.nvlink_gb_per_s or 0.0) * factor
        text = f"two nodes, limited by NVLS within them (a lost NIC need not show; NCCL_ALGO=Ring would), not by {nics}"
        return Regime(key=key, timing=f"{key}-{family}", link_gb_per_s=link, text=text)
    may = "; as NCCL's tuning model chooses" if _choice(system) == "ring" else ""
    text = f"{nics}, ring over two nodes{may} (a tree may be faster, and hide a lost NIC)"
    return Regime(
        key="across-nic", timing=f"across-nic-{family}", link_gb_per_s=fabric, text=text, by_nics=True, left=left
    )


def _choice(system: System) -> str:
    nics, nic_gbit, generation = system.nics or 0, system.nic_gbit or 0.0, system.gpu.nvlink_generation
    return two_node_choice(ranks=system.ranks, nics=nics, nic_gbit=nic_gbit, nvlink_generation=generation)


def kinds_of(key: str) -> tuple[str, ...]:
    """A key and what it is a kind of, most special first: ``across-nic-efa``, ``across-nic``, ..., then the place."""
    parts = key.split("-")
    within = parts[0] in ("nvls", "ring", "mesh", "few") or key in ("exchange", "hop", "chain")
    place = "within" if within else "across-nodes"
    return (*("-".join(parts[:count]) for count in range(len(parts), 0, -1)), place)
