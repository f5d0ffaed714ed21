"""What a healthy system of a shape reaches, by message size, without having one."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from raybench.documents.expectation import ExpectedBandwidth, ExpectedPoint
from raybench.errors import UsageError

if TYPE_CHECKING:
    from raybench.expectations.regimes import System

CHOICES: Mapping[str, tuple[str, ...]] = {
    "operation": ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv", "broadcast", "reduce"),
    "network": ("rdma", "efa", "tcpxo", "sockets"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemOptions:
    """The shape of a system. None: the ``node_type``'s, else eight ranks a node and an RDMA network.

    ``nics`` are all NICs of a node for GPU traffic, ``gpus_installed`` its GPUs: ``gpus_per_node`` ranks on it use
    their share of them.
    """

    node_type: str | None = None
    gpu: str | None = None
    nodes: int = 1
    gpus_per_node: int | None = None
    gpus_installed: int | None = None
    nics: int | None = None
    nic_gbit: float | None = None
    network: str | None = None
    no_nvls: bool = False


def expected_bandwidth(options: SystemOptions, *, operation: str = "all_reduce", sizes: str) -> ExpectedBandwidth:
    """The bus bandwidth of a healthy system at ``sizes`` (``1M:16G:4``), from published tables; nothing is measured.

    Raises UsageError for a machine that is not named, and for names and sizes that are not known.
    """
    from raybench.expectations.expected import Expectation, expect
    from raybench.expectations.regimes import NoExpectation
    from raybench.sizes import parse_sizes

    system = _system(options)
    answers = {size: expect(operation, size, system) for size in parse_sizes(sizes)}
    points = tuple(
        ExpectedPoint(message_bytes=size, busbw_gb_per_s=one.bus_gb_per_s, limit=one.limit, basis=one.basis)
        for size, one in answers.items()
        if isinstance(one, Expectation)
    )
    return ExpectedBandwidth(
        operation=operation,
        points=points,
        unknown=next((answer.reason for answer in answers.values() if isinstance(answer, NoExpectation)), None),
    )


def _system(options: SystemOptions) -> "System":
    from raybench.expectations.nic_share import likely_installed, shared_nics
    from raybench.expectations.regimes import System
    from raybench.hardware.gpus import RACKS
    from raybench.hardware.nodes import machine_named

    gpu, node = machine_named(options.gpu, options.node_type)
    if gpu is None:
        raise UsageError("name the machine: --node-type, or --gpu with --nics and --nic-gbit")
    _check_counts(options)
    per_node = options.gpus_per_node or (node.gpus if node else 8)
    trays = math.ceil(per_node / node.gpus) if node and gpu.name.startswith(RACKS) else 1  # told as one node
    nics = options.nics or (trays * node.nics if node and node.nics else None)
    installed = options.gpus_installed or (trays * node.gpus if node else likely_installed(ranks=per_node, nics=nics))
    if per_node > installed:
        raise UsageError(f"--gpus-per-node is {per_node}; a node has {installed} GPUs (--gpus-installed)")
    return System(
        gpu=gpu,
        ranks=options.nodes * per_node,
        nodes=options.nodes,
        nvlink_ranks=per_node,
        nics=shared_nics(nics, ranks=per_node, installed=installed) if nics else None,
        nic_gbit=options.nic_gbit or (node.nic_gbit if node else None),
        family=options.network or (_family(node.network) if node else "rdma"),  # type: ignore[arg-type]  # of the choices
        nvls=False if options.no_nvls else None,
    )


def _check_counts(options: SystemOptions) -> None:
    for name in ("nodes", "gpus_per_node", "gpus_installed", "nics"):
        value = getattr(options, name)
        if value is not None and not 0 < value <= 100_000:
            raise UsageError(f"--{name.replace('_', '-')} is {value}; it must be at least 1 and at most 100000")
    rate = options.nic_gbit
    if rate is not None and not 0 < rate <= 100_000:
        raise UsageError(f"--nic-gbit is {rate:g}; it must be above 0 and at most 100000")


def _family(network: str) -> Any:
    """Of a node type's network, by its name in nodes.csv."""
    sockets = dict.fromkeys(("ENA", "gVNIC", "Ethernet"), "sockets")
    known = {"EFA": "efa", "GPUDirect-TCPXO": "tcpxo", "GPUDirect-TCPX": None, **sockets}
    return known.get(network.split(" ", maxsplit=1)[0], "rdma")
