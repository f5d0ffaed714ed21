"""Between which links a step is sent where nobody says what joins the nodes: as nodes of that GPU have them."""

from dataclasses import replace

from raybench.hardware.gpus import Gpu
from raybench.hardware.nodes import NODE_TYPES
from raybench.performance_model.layout import NIC_SHARE, Network, UnknownLinksError
from raybench.performance_model.step.request import EstimateRequest

# What was made for a market to which the others may not be sold, in the same machines.
_SAME_MACHINES = {"A800": "A100", "H800": "H100", "H20": "H100"}
# GeForce GPUs may not read each other's memory: what they send goes through the host's, which all share. Two RTX 2080
# Ti behind one switch reach 5.7 of 15.75 GB/s (github.com/Anthony-Hoo/Anthony-Hoo.github.io, 2025), eight RTX 5090 28
# of 63 (NVIDIA/nccl issue 1639); by LOMO's table 2 eight RTX 3090 have some 2.5 of 31.5 GB/s, of which 0.8 is assumed.
_BY_HOST_TIMES = 8.0
_ASSUMED = "the share assumed"


def fabrics_of(gpu: Gpu) -> tuple[float, float]:
    """Line rates of all NICs of a node together, GB/s: lowest and highest of the node types that have such GPUs.

    Of a GPU that no node type has: of all whose GPUs are joined as those are, by NVLink or by PCIe alone.
    """
    family = _SAME_MACHINES.get(_family(gpu), _family(gpu))
    own = [node.fabric_gb_per_s for node in NODE_TYPES if _family(node.gpu) == family]
    by_pcie = gpu.board_gb_per_s is None
    rates = own or [node.fabric_gb_per_s for node in NODE_TYPES if (node.gpu.board_gb_per_s is None) == by_pcie]
    return min(rates), max(rates)


def networks_of(request: EstimateRequest) -> tuple[Network, Network] | None:
    """The fastest and the slowest that it may be: twice the same where all links are known; None where none are."""
    network = request.network
    if network is None or request.gpu is None:
        return None if network is None else (network, network)
    fastest = slowest = network
    if has_open_fabric(request):
        slowest, fastest = (replace(network, fabric_gb_per_s=NIC_SHARE * rate) for rate in fabrics_of(request.gpu))
    if _passes_the_host(request.gpu, request):
        slowest = replace(slowest, node_gb_per_s=slowest.node_gb_per_s / _BY_HOST_TIMES)
    return fastest, slowest


def _passes_the_host(gpu: Gpu, request: EstimateRequest) -> bool:
    """Whether what GPUs of a node send each other may go through the host's memory, and nobody has measured it."""
    of_games = any(name.startswith("GeForce") for name in gpu.devices)
    basis = request.basis.get("links within a node", _ASSUMED)
    return of_games and request.layout.node.ranks > 1 and _ASSUMED in basis


def has_open_fabric(request: EstimateRequest) -> bool:
    """Whether nodes send each other what nobody says the links of."""
    network = request.network
    if network is None:
        return False
    try:
        network.bandwidth_gb_per_s(request.layout.world)
    except UnknownLinksError:
        return True
    return False


def _family(gpu: Gpu) -> str:
    return gpu.name.split()[0]
