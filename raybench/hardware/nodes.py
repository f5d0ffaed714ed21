"""Node types with their NICs, and the rates that NICs and links can have."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from raybench.errors import unknown_name
from raybench.hardware.gpus import Gpu, gpu_for
from raybench.hardware.tables import read_table

# Gbit/s of data of a 4-lane InfiniBand port, by the name that ibstat and iblinkinfo give the rate (IBTA).
INFINIBAND_GBIT: Mapping[str, float] = MappingProxyType(
    {"QDR": 32, "FDR": 54.5, "EDR": 100, "HDR100": 100, "HDR": 200, "NDR200": 200, "NDR": 400, "XDR": 800}
)

# Gbit/s of one NIC at its fastest, all ports: vendors' product briefs; EFA: one device, by generation.
NIC_GBIT: Mapping[str, float] = MappingProxyType(
    {
        "ConnectX-4": 100,
        "ConnectX-5": 100,
        "ConnectX-6": 200,
        "ConnectX-6 Dx": 200,
        "ConnectX-7": 400,
        "ConnectX-8": 800,
        "BlueField-2": 200,
        "BlueField-3": 400,
        "Thor 2": 400,
        "Pollara 400": 400,
        "EFA v1": 100,
        "EFA v2": 100,
        "EFA v3": 200,
        "EFA v4": 400,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeType:
    """A machine as it is sold. ``nic_gbit`` is the line rate of each of its ``nics`` NICs for GPU traffic, Gbit/s."""

    name: str
    gpu: Gpu
    gpus: int
    nics: int
    nic_gbit: float
    network: str
    source: str

    @property
    def fabric_gb_per_s(self) -> float:
        """Line rate of all NICs together, one direction, GB/s."""
        return self.nics * self.nic_gbit / 8


def node_type_named(name: str) -> NodeType:
    """The node type of that name. Raises UsageError for another name, with those there are."""
    key = name.strip().lower().removeprefix("standard_")
    for node in NODE_TYPES:
        if node.name.lower() == key:
            return node
    raise unknown_name("node type", name, [node.name for node in NODE_TYPES])


NODE_TYPES: tuple[NodeType, ...] = tuple(
    NodeType(
        name=row["name"],
        gpu=gpu_for(row["gpu"]),
        gpus=int(row["gpus"]),
        nics=int(row["nics"]),
        nic_gbit=float(row["nic_gbit"]),
        network=row["network"],
        source=row["source"],
    )
    for row in read_table("raybench.hardware", "nodes.csv")
)
