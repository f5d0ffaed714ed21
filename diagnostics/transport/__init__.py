"""The three answers of the verdict, from facts alone: which network, GPUDirect or not, TCP fallback or not.

Each answers None or ``unknown`` where the log cannot tell; a missing line is never evidence.

``tcp_fallback``: False where the network that is shown is RDMA (``ib``, ``roce``, a plugin that brings its own), by
whichever line, also of a run that fails there; on one node; or where TCP was chosen. True where data crosses nodes over
sockets although RDMA is there, was wanted, or a plugin for it declined. None for all else: no network shown, sockets
with an unknown number of nodes or without a sign of RDMA, and ranks of which only some took sockets. A network goes by
what carries the data: ``aws-ofi-nccl`` for what NCCL prints as AWS Libfabric or OFI, ``ib`` or ``roce`` for IBext.
"""

from diagnostics.transport.declined import declined
from diagnostics.transport.evidence import (
    FABRIC_INTERFACE,
    interface_names,
    never_tried,
    rdma_evidence,
    read_any,
    tcp_by_choice,
)
from diagnostics.transport.fallback import handshake_refused, tcp_fallback, tcp_provider
from diagnostics.transport.gpudirect import data_channels, gpu_direct, gpus_without_gdr, nic_states
from diagnostics.transport.link_layer import link_layer
from diagnostics.transport.network import TCP_NETWORKS, job_network, network_class, network_refused, took_tcp
from diagnostics.transport.plugins import absent_named_plugin, broken_plugins, platform_signs, unloadable_plugins

__all__ = [
    "FABRIC_INTERFACE",
    "TCP_NETWORKS",
    "absent_named_plugin",
    "broken_plugins",
    "data_channels",
    "declined",
    "gpu_direct",
    "gpus_without_gdr",
    "handshake_refused",
    "interface_names",
    "job_network",
    "link_layer",
    "network_class",
    "network_refused",
    "never_tried",
    "nic_states",
    "platform_signs",
    "rdma_evidence",
    "read_any",
    "tcp_by_choice",
    "tcp_fallback",
    "tcp_provider",
    "took_tcp",
    "unloadable_plugins",
]
