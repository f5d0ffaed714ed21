"""The network of a step where nobody says what joins the nodes: as node types with that GPU have it."""

from dataclasses import replace

from raybench.hardware.gpus import RACKS, Gpu
from raybench.hardware.nodes import NODE_TYPES
from raybench.performance_model.layout import NIC_SHARE, Layout, Network, UnknownLinksError
from raybench.performance_model.request.request import EstimateRequest

# GPUs that are sold in the same machines as another: export variants, and B100.
_SAME_MACHINES = {"A800": "A100", "H800": "H100", "H20": "H100", "B100": "B200"}
# Of GPUs that NVLink joins over the nodes of a rack (NVIDIA's NVL72: 18 trays of four).
_RACK_RANKS = 72
# NICs of a tray of GB300: 400 Gbit/s a GPU as with GB200 (a public baseline of Azure's), or the 800 of its ConnectX-8
# (Oracle's, Google's).
_TRAYS = {"GB300": (200.0, 400.0)}
# GeForce GPUs have no peer-to-peer access: what they send goes through host memory, which all of them share. Two RTX
# 2080 Ti behind one switch reach 5.7 of 15.75 GB/s (github.com/Anthony-Hoo/Anthony-Hoo.github.io, 2025), eight RTX 5090
# 28 of 63 (NVIDIA/nccl issue 1639); by LOMO's table 2 eight RTX 3090 have some 2.5 of 31.5 GB/s. For other GPUs 0.8 of
# the line rate is assumed: 1.8 times the most of these, and ten times the least.
_BY_HOST_TIMES = (1.8, 8.0)
_ASSUMED = "the share assumed"
_MOST_NODES = 0.8
_LEAST_GPUS = 4  # of a node that is joined with others: one of a single GPU has the network of a web server


def fabrics_of(gpu: Gpu) -> tuple[float, float]:
    """Line rates of all NICs of a node together, GB/s: lowest and highest of the types with four such GPUs or more.

    They are what four in five of them have at least, since one cloud's first H100 nodes have a quarter of all others',
    and at most. For a GPU that no node type has: of those whose GPUs are joined likewise, by NVLink or by PCIe alone.
    A type whose network is not made for GPUs is none of them: who joins such nodes has to say so.
    """
    family = _SAME_MACHINES.get(_family(gpu), _family(gpu))
    if family in _TRAYS:
        return _TRAYS[family]
    joined = [
        (node.gpu, node.fabric_gb_per_s)
        for node in NODE_TYPES
        if node.gpus >= _LEAST_GPUS and node.has_network_for_gpus and node.fabric_gb_per_s is not None
    ]
    by_pcie = gpu.board_gb_per_s is None
    own = [rate for other, rate in joined if _family(other) == family]
    rates = sorted(own or [rate for other, rate in joined if (other.board_gb_per_s is None) == by_pcie])
    return rates[int((1 - _MOST_NODES) * len(rates))], rates[int(_MOST_NODES * len(rates))]


def linked_layout(request: EstimateRequest) -> Layout:
    """The layout in which all ranks that NVLink joins are one node: a rack's, except with hybrid sharding.

    A job's ranks fill racks evenly (with a power of two 64 of the 72 of each), so that a group of experts lies in one.
    """
    layout, gpu = request.layout, request.gpu
    if gpu is None or _family(gpu) not in RACKS or layout.nodes == 1 or request.setup.strategy == "fsdp-hybrid":
        return layout
    most = _RACK_RANKS // layout.ranks_per_node
    nodes = max(count for count in range(1, max(1, most) + 1) if layout.nodes % count == 0)
    return replace(layout, ranks_per_node=nodes * layout.ranks_per_node)


def exchanges_over_nodes(request: EstimateRequest) -> bool:
    """Whether tokens leave a node for their experts, or a rack whose nodes NVLink joins."""
    return request.model.experts > 0 and linked_layout(request).expert_group.nodes > 1


def may_send_beside(request: EstimateRequest) -> bool:
    """Whether tokens may be sent while another micro-batch is computed: by programs with kernels of their own."""
    fused = request.setup.kernels == "fused" or not request.kernels_known
    return fused and request.model.experts > 0 and request.layout.expert > 1


def linked_network(request: EstimateRequest) -> Network | None:
    """The network between such nodes: the NICs of all of a rack's nodes together."""
    network = request.network
    if network is None or network.fabric_gb_per_s is None:
        return network
    nodes = linked_layout(request).ranks_per_node // request.layout.ranks_per_node
    return replace(network, fabric_gb_per_s=nodes * network.fabric_gb_per_s)


def networks_of(request: EstimateRequest) -> tuple[Network, Network] | None:
    """The fastest and the slowest network that it may be: the same twice where all links are known; None: none are."""
    network = linked_network(request)
    if network is None or request.gpu is None:
        return None if network is None else (network, network)
    fastest = slowest = network
    if has_open_fabric(request):
        nodes = linked_layout(request).ranks_per_node // request.layout.ranks_per_node
        slowest, fastest = (
            replace(network, fabric_gb_per_s=nodes * NIC_SHARE * rate) for rate in fabrics_of(request.gpu)
        )
    if _passes_the_host(request.gpu, request):
        fastest, slowest = (
            replace(one, node_gb_per_s=one.node_gb_per_s / times)
            for one, times in zip((fastest, slowest), _BY_HOST_TIMES, strict=True)
        )
    return fastest, slowest


def _passes_the_host(gpu: Gpu, request: EstimateRequest) -> bool:
    """Whether GPUs of a node may have to send through host memory, and no bandwidth is measured or given."""
    of_games = any(name.startswith("GeForce") for name in gpu.devices)
    basis = request.basis.get("links within a node", _ASSUMED)
    return of_games and request.layout.node.ranks > 1 and _ASSUMED in basis


def has_open_fabric(request: EstimateRequest) -> bool:
    """Whether the step needs a network between nodes that nobody says."""
    network = request.network
    if network is None:
        return False
    try:
        network.bandwidth_gb_per_s(linked_layout(request).world)
    except UnknownLinksError:
        return True
    return False


def _family(gpu: Gpu) -> str:
    """Its name without its form; of what is called RTX with the word that tells a game's GPU from a server's."""
    words = gpu.name.split()
    return " ".join(words[:2]) if words[0] == "RTX" else words[0]
