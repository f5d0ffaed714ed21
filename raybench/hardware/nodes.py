"""Node types with their NICs and prices."""

from dataclasses import dataclass

from raybench.errors import UsageError, unknown_name
from raybench.hardware.gpus import Gpu, gpu_for
from raybench.hardware.tables import number, read_table

# Google's A2, G2, G4 and small A3, and Azure's NC: no RDMA, and for eight GPUs the rate that others have for one.
_NETWORKS_OF_SERVERS = ("gVNIC", "Ethernet")
_BY_ITS_PARTS = "of another machine say --gpu, and of several nodes --nics and --nic-gbit"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeType:
    """A machine as it is sold. ``nic_gbit`` is the line rate of each of its ``nics`` NICs for GPU traffic, Gbit/s.

    Both are None, and ``network`` is empty, where no source says what joins such nodes: of many it is a single node.
    ``usd_per_hour``: the list price on demand, on the day ``priced_on``; None: none, ``unpriced`` says why.
    """

    name: str
    gpu: Gpu
    gpus: int
    nics: int | None
    nic_gbit: float | None
    network: str
    source: str
    usd_per_hour: float | None = None
    priced_on: str = ""
    price_source: str = ""
    unpriced: str = ""

    @property
    def is_of_aws(self) -> bool:
        """Whether AWS sells it: its own page says what it is."""
        return self.source.startswith("aws.amazon.com")

    @property
    def fabric_gb_per_s(self) -> float | None:
        """Line rate of all NICs together, one direction, GB/s; None: not known."""
        return None if self.nics is None or self.nic_gbit is None else self.nics * self.nic_gbit / 8

    @property
    def has_network_for_gpus(self) -> bool:
        """Whether its NICs are made for what GPUs exchange: not a virtual machine's own, which carry TCP alone."""
        return bool(self.network) and self.network not in _NETWORKS_OF_SERVERS


def node_key(name: str) -> str:
    """What the names of one node type have in common: no case, and not Azure's ``Standard_``."""
    return name.strip().lower().removeprefix("standard_")


def find_node_type(name: str) -> NodeType | None:
    """The node type of that name; None where the table has none."""
    return next((node for node in NODE_TYPES if node_key(node.name) == node_key(name)), None)


def node_type_named(name: str) -> NodeType:
    """The same. Raises UsageError where the table has none, with the names there are and what else to say."""
    found = find_node_type(name)
    if found is None:
        raise unknown_name("node type", name, [node.name for node in NODE_TYPES], else_=_BY_ITS_PARTS)
    return found


def machine_named(gpu: str | None, node_type: str | None, *, else_: str = "") -> tuple[Gpu | None, NodeType | None]:
    """The GPU and the node type of those names; the node type's GPU where none is named, or its name in part (A100).

    Raises UsageError for names that the tables do not have, of a GPU with ``else_``, and for a node type that has
    other GPUs.
    """
    node = node_type_named(node_type) if node_type else None
    named = gpu_for(gpu, else_=else_) if gpu else node.gpu if node else None
    if node is not None and gpu and node.gpu.name.lower().startswith(" ".join(gpu.lower().split())):
        return node.gpu, node
    if node is not None and named != node.gpu:
        raise UsageError(
            f"--gpu is {gpu}, and a {node.name} has {node.gpu.name}; leave --gpu out, or say --nics, --nic-gbit and "
            "--price in place of --node-type"
        )
    return named, node


NODE_TYPES: tuple[NodeType, ...] = tuple(
    NodeType(
        name=row["name"],
        gpu=gpu_for(row["gpu"]),
        gpus=int(row["gpus"]),
        nics=int(row["nics"]) if row["nics"] else None,
        nic_gbit=number(row["nic_gbit"]),
        network=row["network"],
        source=row["source"],
        usd_per_hour=number(row["usd_per_node_hour"]),
        priced_on=row["priced_on"],
        price_source=row["price_source"] if row["usd_per_node_hour"] else "",
        unpriced="" if row["usd_per_node_hour"] else row["price_source"],
    )
    for row in read_table("raybench.hardware", "nodes.csv")
)
