"""Every item that can be configured, by name: ``role.item`` -> what plans it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from .agent_unit import plan_agent_unit
from .clock import plan_clock
from .host import Host
from .limits import plan_memlock, plan_nofile, plan_remove_ipc
from .memory import plan_shared_memory
from .mtu import plan_mtu
from .nccl_file import plan_nccl
from .parameters import plan_numa_balancing, plan_parameters
from .peer_memory import plan_peer_memory
from .plan import ItemPlan
from .processor import plan_governor
from .qos import plan_marks, plan_priorities
from .rails import plan_rails
from .rdma import plan_modules, plan_packages, plan_repository
from .topology import plan_access_control, plan_io_mmu

ITEMS: dict[str, Callable[[Host, dict[str, Any]], ItemPlan]] = {
    "rdma_driver.repository": plan_repository,
    "rdma_driver.packages": plan_packages,
    "rdma_driver.modules": plan_modules,
    "gpu_peer_memory.peer_memory": plan_peer_memory,
    "system_limits.memlock": plan_memlock,
    "system_limits.nofile": plan_nofile,
    "system_limits.remove_ipc": plan_remove_ipc,
    "system_limits.shared_memory": plan_shared_memory,
    "system_limits.numa_balancing": plan_numa_balancing,
    "system_limits.cpu_governor": plan_governor,
    "system_limits.sysctl": plan_parameters,
    "network_mtu.mtu": plan_mtu,
    "network_mtu.rails": plan_rails,
    "roce_qos.priorities": plan_priorities,
    "roce_qos.marks": plan_marks,
    "pcie_access_control.acs": plan_access_control,
    "pcie_access_control.iommu": plan_io_mmu,
    "time_sync.clock": plan_clock,
    "nccl_config.nccl_conf": plan_nccl,
    "raybench_agent.agent_unit": plan_agent_unit,
}


def chosen(names: Iterable[str], only: Iterable[str], skipped: Iterable[str]) -> list[str]:
    """Items of a role that a run's tags leave: those that are named, or all where none is, less those to be skipped."""
    listed = list(names)
    named = [name for name in listed if name in set(only)]
    return [name for name in named or listed if name not in set(skipped)]
