"""The shape of a run's cluster, from what its nodes said of themselves; or why it is not known."""

from collections.abc import Mapping, Sequence

from raybench.documents.run.cluster import ClusterInfo
from raybench.documents.run.facts import NodeFacts, RdmaPort
from raybench.expectations.nic_share import shared_nics
from raybench.expectations.regimes import Family, NoExpectation, System
from raybench.hardware.gpus import RACKS, Gpu, find_gpu, unknown_reason


def system_of(cluster: ClusterInfo, variables: Mapping[str, str]) -> System | NoExpectation:
    """GPUs, nodes and NICs of the run. ``variables`` are those of its ranks (NCCL_*)."""
    if cluster.emulated:
        return NoExpectation(reason="emulated nodes on one machine: these figures say nothing about a network")
    if cluster.backend != "nccl":
        return NoExpectation(reason=f"the backend is {cluster.backend}: expected values are those of NCCL between GPUs")
    gpu = _common_gpu(cluster)
    if isinstance(gpu, NoExpectation):
        return gpu
    per_node = {len(node.ranks) for node in cluster.nodes}
    if len(per_node) != 1:
        return NoExpectation(reason="the nodes have different numbers of ranks")
    if gpu.name in RACKS and len(cluster.nodes) > 1:
        return NoExpectation(reason="whether the nodes share an NVLink domain is not known")
    ports = _fabric_ports(cluster, variables)
    return System(
        gpu=gpu,
        ranks=cluster.world_size,
        nodes=len(cluster.nodes),
        nvlink_ranks=per_node.pop(),
        nics=_share_of_nics(cluster, len(ports)) or None,
        nic_gbit=ports[0].gbit if ports else None,
        family=_family(ports, variables),
        nvls=False if _without_nvls(variables) else None,
    )


def _common_gpu(cluster: ClusterInfo) -> Gpu | NoExpectation:
    names = {name for node in cluster.nodes for name in node.gpu_names}
    if not names or any(not node.gpu_names for node in cluster.nodes):
        return NoExpectation(reason="not every node said which GPUs it has")
    if len(names) > 1:
        return NoExpectation(reason=f"the nodes have different GPUs: {', '.join(sorted(names))}")
    name = names.pop()
    return find_gpu(name) or NoExpectation(reason=unknown_reason(name))


def _fabric_ports(cluster: ClusterInfo, variables: Mapping[str, str]) -> Sequence[RdmaPort]:
    """The ports that NCCL may use on the best equipped node, those of its fastest rate.

    Another node may have lost one, or have a slower one: that is what is to be found.
    """
    return max((_usable_ports(node.known_facts, variables) for node in cluster.nodes), key=_total_gbit, default=())


def _usable_ports(facts: NodeFacts, variables: Mapping[str, str]) -> list[RdmaPort]:
    wanted = variables.get("NCCL_IB_HCA") or (facts.settings or {}).get("NCCL_IB_HCA", "")
    active = [port for port in facts.rdma_ports or () if port.state == "ACTIVE" and chosen_by_nccl(port, wanted)]
    fastest = max((port.gbit for port in active), default=0)
    return [port for port in active if port.gbit == fastest]


def _share_of_nics(cluster: ClusterInfo, count: int) -> int:
    first = cluster.nodes[0]
    return shared_nics(count, ranks=len(first.ranks), installed=max(len(first.gpu_names), len(first.ranks)))


def _total_gbit(ports: Sequence[RdmaPort]) -> float:
    return float(sum(port.gbit for port in ports))


def chosen_by_nccl(port: RdmaPort, wanted: str) -> bool:
    """Whether NCCL_IB_HCA lets NCCL use a port.

    Prefixes of names, ``=`` exact names, ``^`` all but those, each with an optional ``:port``.
    """
    names = wanted.lstrip("^=")
    modifier = wanted[: len(wanted) - len(names)]
    listed = [name.partition(":") for name in names.split(",") if name]
    if not listed:
        return True
    hits = (
        (port.device == name if "=" in modifier else port.device.startswith(name)) and number in ("", port.port)
        for name, _, number in listed
    )
    return any(hits) != ("^" in modifier)


def _family(ports: Sequence[RdmaPort], variables: Mapping[str, str]) -> Family | None:
    if variables.get("NCCL_IB_DISABLE") == "1" or variables.get("NCCL_NET", "").lower() == "socket":
        return "sockets"
    if any(name.startswith("NCCL_FASTRAK") for name in variables):
        return "tcpxo"
    if not ports:
        return None
    return "efa" if ports[0].link_layer == "Unspecified" else "rdma"


def _without_nvls(variables: Mapping[str, str]) -> bool:
    algorithms = variables.get("NCCL_ALGO", "").lower()
    allowed = not algorithms or "nvls" in algorithms.lstrip("^")
    excluded = algorithms.startswith("^") and "nvls" in algorithms
    return variables.get("NCCL_NVLS_ENABLE") == "0" or excluded or not (allowed or algorithms.startswith("^"))
