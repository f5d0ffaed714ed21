"""The checks: a literal table of what is asked of every host. Each is a function from a host to a judgement.

A check raises UnavailableError where it cannot read what it needs; ``evaluate`` turns that into ``unknown``, and any
other exception into ``error``: a fault of ours is neither a fault of the host nor a pass.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from raybench.documents.preflight import CheckResult
from raybench.errors import nearest
from raybench.preflight.checks import (
    clock,
    dcgm,
    efa,
    gpu,
    gpu_alarms,
    gpu_health,
    gpu_links,
    gpu_settings,
    host,
    identity,
    kernel_log,
    limits,
    network,
    optics,
    pci,
    rdma,
    rdma_counters,
    roce,
    software,
    storage,
    variables,
    xid,
)
from raybench.preflight.checks.amd import driver as amd_driver
from raybench.preflight.checks.amd import health as amd_health
from raybench.preflight.checks.amd import links as amd_links
from raybench.preflight.checks.amd import ras as amd_ras
from raybench.preflight.host_view import HostView, UnavailableError
from raybench.preflight.verdict import Judgement


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A check: ``concern`` is the tag that selects it together with its neighbours."""

    name: str
    concern: str
    title: str
    judge: Callable[[HostView], Judgement]


def _check(name: str, title: str, judge: Callable[[HostView], Judgement]) -> Check:
    return Check(name=name, concern=name.partition("-")[0], title=title, judge=judge)


CHECKS: tuple[Check, ...] = (
    _check("host-probe", "Probes that ended in time", host.probe),
    _check("host-os", "Operating system", host.operating_system),
    _check("host-kernel", "Kernel", host.kernel),
    _check("host-governor", "CPU frequency governor", host.governor),
    _check("host-numa-balancing", "Automatic NUMA balancing", host.numa_balancing),
    _check("host-hugepages", "Transparent huge pages", host.hugepages),
    _check("host-memory", "Memory", storage.memory),
    _check("host-swap", "Swap in use", storage.swap),
    _check("host-disk", "Free disk space", storage.disk),
    _check("host-folders", "Folders that jobs write to", storage.folders),
    _check("host-mounts", "File systems mounted read-only", storage.read_only),
    _check("host-shm", "Shared memory", storage.shared_memory),
    _check("host-dstate", "Processes that hang in the kernel", host.uninterruptible),
    _check("host-ecc", "Errors of the host's memory", host.memory_errors),
    _check("host-log", "Kernel log", kernel_log.host_messages),
    _check("host-clock", "Time synchronisation", clock.synchronisation),
    _check("host-memlock", "Limit of locked memory", limits.memlock),
    _check("host-nofile", "Limit of open files", limits.nofile),
    _check("host-removeipc", "RemoveIPC", limits.remove_ipc),
    _check("host-name", "Address of the own name", identity.own_name),
    _check("host-mtu", "MTU", network.mtu),
    _check("host-firewall", "Firewall", network.firewall),
    _check("pci-link", "PCIe width and speed", pci.link),
    _check("pci-acs", "PCIe access control", pci.access_control),
    _check("pci-iommu", "IOMMU", pci.iommu),
    _check("pci-ats", "Address translation services", pci.address_translation),
    _check("pci-mrr", "PCIe maximum read request", pci.read_request),
    _check("gpu-driver", "GPU driver", gpu.driver),
    _check("gpu-count", "GPUs", gpu.count),
    _check("gpu-lost", "GPUs that do not answer", gpu_alarms.lost),
    _check("gpu-recovery", "Recovery action of GPUs", gpu_alarms.recovery),
    _check("gpu-cuda", "CUDA", gpu.cuda),
    _check("gpu-persistence", "Persistence mode", gpu.persistence),
    _check("gpu-mig", "MIG", gpu.mig),
    _check("gpu-mode", "Modes of GPUs", gpu_settings.mode),
    _check("gpu-power", "Power limit", gpu_settings.power_limit),
    _check("gpu-clock-limits", "Clocks that were set", gpu_settings.clock_limits),
    _check("gpu-firmware", "VBIOS and infoROM", gpu_alarms.firmware),
    _check("gpu-pcie", "PCIe replays and generation of GPUs", gpu_alarms.pcie),
    _check("gpu-processes", "Processes on GPUs", gpu.processes),
    _check("gpu-ecc", "ECC errors", gpu_health.ecc),
    _check("gpu-rows", "Row remapping", gpu_health.row_remapping),
    _check("gpu-xid", "Xid in the kernel log", xid.xid),
    _check("gpu-dcgm", "Health by DCGM", dcgm.health),
    _check("gpu-log", "Messages of the GPU driver", kernel_log.gpu_messages),
    _check("gpu-clocks", "Clocks and throttling", gpu_health.clocks),
    _check("gpu-temperature", "Temperature", gpu_health.temperature),
    _check("gpu-nvlink", "NVLink", gpu_links.nvlink),
    _check("gpu-nvlink-errors", "Errors of NVLinks", gpu_alarms.nvlink_errors),
    _check("gpu-fabric", "Fabric Manager", gpu_links.fabric_manager),
    _check("gpu-fabric-health", "Health of the NVLink fabric", gpu_links.fabric_health),
    _check("gpu-peermem", "GPU memory for RDMA", gpu_links.peer_memory),
    _check("gpu-topology", "Distance from GPU to NIC", gpu_links.topology),
    _check("amd-driver", "AMD's driver", amd_driver.driver),
    _check("amd-count", "AMD's GPUs", amd_driver.count),
    _check("amd-ecc", "Memory errors of AMD's GPUs", amd_health.ecc),
    _check("amd-pages", "Retired pages of AMD's GPUs", amd_ras.pages),
    _check("amd-ras", "Blocks of AMD's GPUs that watch for errors", amd_ras.blocks),
    _check("amd-xgmi", "XGMI links", amd_links.xgmi),
    _check("amd-xgmi-rate", "Rates of XGMI links", amd_links.rates),
    _check("amd-throttle", "Throttling of AMD's GPUs", amd_health.throttle),
    _check("amd-temperature", "Temperature of AMD's GPUs", amd_health.temperature),
    _check("amd-limits", "Power and PCIe of AMD's GPUs", amd_health.limits),
    _check("amd-memory", "Memory of AMD's GPUs", amd_health.memory),
    _check("amd-partition", "Partitions of AMD's GPUs", amd_driver.partition),
    _check("amd-rccl", "torch for AMD's GPUs", amd_driver.rccl),
    _check("amd-log", "Messages of AMD's driver", kernel_log.amd_messages),
    _check("rdma-modules", "RDMA drivers", rdma.modules),
    _check("rdma-nodes", "RDMA device nodes", rdma.device_nodes),
    _check("rdma-software", "RDMA without a NIC", rdma.software),
    _check("rdma-port", "RDMA port state", rdma.port_state),
    _check("rdma-rate", "RDMA port rate", rdma.rate),
    _check("rdma-firmware", "NIC firmware", rdma.firmware),
    _check("rdma-layer", "Link layer", rdma.link_layer),
    _check("rdma-sm", "Subnet manager", rdma.subnet_manager),
    _check("rdma-pkey", "Partition keys", rdma.partition_keys),
    _check("rdma-verbs", "RDMA devices that programs see", optics.verbs),
    _check("rdma-link", "Bit errors and why links are down", optics.link),
    _check("rdma-optics", "Cables and modules", optics.optics),
    _check("rdma-ethernet", "Counters of Ethernet ports", optics.counters),
    _check("rdma-log", "Messages of NIC drivers", kernel_log.nic_messages),
    _check("rdma-flaps", "Link flaps", rdma_counters.flaps),
    _check("rdma-counters", "Error counters", rdma_counters.errors),
    _check("rdma-sharp", "SHARP", rdma.sharp),
    _check("rdma-efa", "EFA by libfabric", efa.libfabric),
    _check("rdma-efa-versions", "Versions of EFA's parts", efa.versions),
    _check("roce-gid", "RoCE v2 GIDs", roce.gid_table),
    _check("roce-mtu", "RoCE MTU", roce.mtu),
    _check("roce-pfc", "Priority flow control", roce.flow_control),
    _check("roce-ecn", "Congestion notification", roce.congestion_notification),
    _check("roce-trust", "Trust and DSCP", roce.trust),
    _check("software-python", "Python", software.python),
    _check("software-torch", "torch", software.torch),
    _check("software-nccl", "NCCL", software.nccl),
    _check("software-variables", "Variables of NCCL in files", variables.variables),
    _check("software-ray", "Ray", software.ray),
    _check("software-raybench", "raybench", software.raybench),
    _check("software-rdma", "RDMA software", software.rdma_stack),
)


def concerns() -> tuple[str, ...]:
    """The concerns, in the order of the table."""
    return tuple(dict.fromkeys(check.concern for check in CHECKS))


def _unknown_check(name: str, known: Iterable[str]) -> ValueError:
    near = nearest(name, [*known, "drift"])
    guess = f"did you mean {' or '.join(map(repr, near))}? Concerns" if near else "concerns"
    return ValueError(f"there is no check {name}; {guess}: {', '.join(concerns())}, drift; checks: --list-checks")


def selected(only: Sequence[str] = (), skip: Sequence[str] = ()) -> tuple[Check, ...]:
    """Checks by name or concern; all where ``only`` is empty. Raises ValueError on a name that is neither."""
    known = {check.name for check in CHECKS} | set(concerns())
    unknown_names = [name for name in (*only, *skip) if name not in known]
    if unknown_names:
        raise _unknown_check(unknown_names[0], known)

    def named(check: Check, names: Sequence[str]) -> bool:
        return check.name in names or check.concern in names

    return tuple(check for check in CHECKS if (not only or named(check, only)) and not named(check, skip))


def evaluate(view: HostView, checks: Sequence[Check]) -> Iterator[CheckResult]:
    """The result of each check on a host."""
    for check in checks:
        judgement = _judged(check, view)
        yield CheckResult(
            check=check.name,
            verdict=judgement.verdict,
            seen=judgement.seen,
            expected=judgement.expected,
            basis=judgement.basis,
            advice=judgement.advice,
            effect=judgement.effect,
            action=judgement.action,
        )


def _judged(check: Check, view: HostView) -> Judgement:
    try:
        return check.judge(view)
    except UnavailableError as missing:
        return Judgement(
            verdict="unknown",
            seen=missing.why,
            expected=f"{missing.reading} can be read",
            advice=_ADVICE.get(missing.status, ""),
        )
    except Exception as error:  # noqa: BLE001 - the one place: a check of ours that broke says so
        return Judgement(
            verdict="error",
            seen=f"{type(error).__name__}: {error}",
            advice="a fault of raybench: please report it with the report's JSON file",
        )


_ADVICE = {
    "missing": "install the program on the host, or leave the check out with --skip",
    "timeout": "find out why the program hangs; host-probe names it",
    "denied": "run preflight as root (become: true), or leave the check out with --skip",
    "failed": "run the program by hand on the host",
}
