"""The links that an estimate is of: each given, measured or looked up, within nodes and between them."""

from dataclasses import replace
from typing import TYPE_CHECKING

from raybench.errors import UsageError
from raybench.services.estimating.results import links_in_results

if TYPE_CHECKING:
    from raybench.performance_model.layout import Layout, Network
    from raybench.performance_model.measured import MeasuredLinks
    from raybench.services.estimating.machine import Machine
    from raybench.services.estimating.options import EstimateOptions

_SLOWEST = 1e-6  # GB/s, Gbit/s: slower than any line


def network_of(options: "EstimateOptions", machine: "Machine", layout: "Layout") -> "Network":
    """Bandwidths and latencies. Raises UnknownLinksError where what the layout needs is neither given nor known."""
    from raybench.performance_model.layout import Network

    _check_speeds(options)
    links = links_in_results(options)
    if links is not None and (links.nodes == 1 or (layout.nodes > 1 and not options.bandwidth)):
        machine.basis["all ranks" if links.nodes > 1 else "links within a node"] = links.basis
    bus = options.bandwidth or (links.bus_gb_per_s if links and links.nodes > 1 else None)
    within = links.bus_gb_per_s if links and links.nodes == 1 else None
    network = Network(
        node_gb_per_s=_node_speed(replace(options, bandwidth=bus), machine, layout, within),
        fabric_gb_per_s=_fabric_speed(options, machine, layout.ranks_per_node),
        bus_gb_per_s=bus,
    )
    over_nodes = links is not None and links.nodes > 1 and layout.nodes > 1
    if links is not None and over_nodes and links.ranks == links.nodes * layout.ranks_per_node:
        network = _measured_fabric(network, links, machine)
    if options.latency_us is not None:
        network = replace(network, fabric_hop_seconds=options.latency_us * 1e-6)
    elif (
        links is not None and links.latency_seconds and (links.nodes, links.ranks) == (layout.nodes, layout.world_size)
    ):
        network = replace(network, launch_seconds=links.latency_seconds, node_hop_seconds=0.0, fabric_hop_seconds=0.0)
    if machine.gpu is None:  # of one that is known its nodes' usual links are
        network.bandwidth_gb_per_s(layout.world)  # refuses here, before anything is computed
    return network


def _measured_fabric(network: "Network", links: "MeasuredLinks", machine: "Machine") -> "Network":
    """All NICs of a node carry what a ring over all of its ranks did; more only where the ring waited in the node."""
    least = links.bus_gb_per_s
    known = network.fabric_gb_per_s
    if known is not None and least >= min(known, network.node_gb_per_s):
        return network
    machine.basis["network between nodes"] = f"all NICs of a node as all ranks, {links.basis}"
    return replace(network, fabric_gb_per_s=least)


def _check_speeds(options: "EstimateOptions") -> None:
    for name in ("nic_gb_per_s", "node_gb_per_s", "bandwidth", "nics", "nic_gbit"):
        value = getattr(options, name)
        if value is not None and not _SLOWEST <= value < 1e6:
            raise UsageError(f"--{name.replace('_', '-')} is {value:g}; it must be from {_SLOWEST:g} to a million")
    if (options.nics is None) != (options.nic_gbit is None) and not options.node_type:
        raise UsageError("--nics and --nic-gbit belong together: so many NICs of so many Gbit/s each")
    hop = options.latency_us
    if hop is not None and not 0 <= hop < 1e7:
        raise UsageError(f"--latency-us is {hop:g}; it must be at least 0 and below ten seconds")


def _node_speed(
    options: "EstimateOptions", machine: "Machine", layout: "Layout", measured_gb_per_s: float | None
) -> float:
    """Of one GPU's links within its node: given, else measured, else a share of the line rate."""
    from raybench.hardware.gpus import RACKS
    from raybench.performance_model.layout import NVLINK_SHARE, PCIE_SHARE, UnknownLinksError

    if options.node_gb_per_s is None and measured_gb_per_s is not None:
        return measured_gb_per_s
    if options.node_gb_per_s is not None:
        machine.basis["links within a node"] = "given"
        return float(options.node_gb_per_s)
    if machine.gpu is None:
        if layout.node.ranks > 1 and options.bandwidth is None:
            raise UnknownLinksError("nothing is known of the links within a node; give --gpu or --node-gb-per-s")
        return float(options.bandwidth or 1.0)
    line = machine.gpu.board_gb_per_s
    rack = " of a rack of 72" if machine.gpu.name in RACKS else ""
    published = (NVLINK_SHARE, f"NVLink{rack}, as published healthy systems reach")
    share, kind = published if line else (PCIE_SHARE, f"PCIe {machine.gpu.pcie_generation}, the share assumed")
    if line is None and machine.gpu.nvlink_gb_per_s is not None:
        kind += "; with a bridge give --node-gb-per-s"
    speed = line or machine.gpu.pcie_gb_per_s
    machine.basis["links within a node"] = f"{share:.0%} of {speed:g} GB/s, {kind}"
    return share * speed


def _fabric_speed(options: "EstimateOptions", machine: "Machine", ranks: int) -> float | None:
    """Of the NICs of a node that its ``ranks`` use: given, else a share of their line rate; None: nothing is known."""
    from raybench.expectations.nic_share import likely_installed, shared_nics
    from raybench.performance_model.layout import NIC_SHARE

    if options.nic_gb_per_s is not None:
        machine.basis["network between nodes"] = "given"
        return float(options.nic_gb_per_s)
    count, rate, node = options.nics, options.nic_gbit, machine.node
    if node is not None:
        count, rate = count or node.nics, rate or node.nic_gbit
    if count is None or rate is None:
        return None
    installed = node.gpus if node is not None else likely_installed(ranks=ranks, nics=count)
    used = shared_nics(count, ranks=ranks, installed=installed)
    beside = "" if used == count else f" (beside {ranks} of {installed} GPUs, of {count})"
    machine.basis["network between nodes"] = (
        f"{NIC_SHARE:.0%} of {used} x {rate:g} Gbit/s{beside}, as published healthy systems reach"
    )
    return float(NIC_SHARE * used * rate / 8)
