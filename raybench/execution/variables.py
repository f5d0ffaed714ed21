"""Environment variables of the ranks: the user's, passed on from here, and those that we add, each recorded."""

import os
from collections.abc import Mapping
from typing import Any

from raybench.documents.run.facts import NodeFacts, typed

PASSED_ON = (
    "NCCL_",
    "TORCH_NCCL_",
    "TORCH_DISTRIBUTED_",
    "GLOO_",
    "TORCH_GLOO_",
    "UCX_",
    "FI_",
    "OFI_NCCL_",
    "RCCL_",
    "MLX5_",
    "IBV_",
    "RDMAV_",
    "SHARP_",
    "OMP_",
)


def common_variables(given: Mapping[str, str], environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """What every rank gets: NCCL, UCX and libfabric settings of this process, then ``given`` over them.

    Where nothing is said, NCCL logs what the diagnosis needs: INFO for INIT, ENV, NET and GRAPH (the lines that say
    which network and which transport each channel uses; per-operation subsystems stay off).
    """
    source = os.environ if environment is None else environment
    variables = {name: value for name, value in source.items() if name.startswith(PASSED_ON)}
    variables.pop("NCCL_DEBUG_FILE", None)  # each rank has a file of its own
    variables |= given
    if "NCCL_DEBUG" not in variables:
        variables["NCCL_DEBUG"] = "INFO"
        variables.setdefault("NCCL_DEBUG_SUBSYS", "INIT,BOOTSTRAP,ENV,NET,GRAPH")
    return variables


def node_variables(
    common: Mapping[str, str], facts: Mapping[str, Any], address: str, host_id: str | None
) -> dict[str, str | None]:
    """What the ranks of one node get: the common ones, the interface of the node's address, all of its GPUs.

    On a machine with several networks the choice of interface is the classic failure, so both libraries are told the
    one that Ray reaches the node by, exactly (``=``), unless the user chose. ``host_id`` makes emulated nodes different
    hosts to NCCL, so that their traffic takes the network.
    """
    variables: dict[str, str | None] = dict(common)
    known = typed(NodeFacts, facts)
    interface = (known.interfaces or {}).get(address)
    own = known.settings or {}  # what the node is configured with stands
    for name, value in (("GLOO_SOCKET_IFNAME", interface), ("NCCL_SOCKET_IFNAME", f"={interface}")):
        if interface and name not in own:
            variables.setdefault(name, value)
    if host_id is not None:
        variables.setdefault("NCCL_HOSTID", host_id)
    variables["CUDA_VISIBLE_DEVICES"] = known.visible_devices
    return variables
