"""PCI's access control, the IOMMU and NUMA: advised on, and touched only when asked."""

import struct
from pathlib import Path

import pytest
from module_utils.raybench_configure.engine import carry_out
from module_utils.raybench_configure.journal import Journal
from module_utils.raybench_configure.rdma import rdma_interfaces
from module_utils.raybench_configure.resources.pci import access_control_offset

from .item_hosts import MLX, machine, planned, targets


def config_space(*capabilities: tuple[int, int]) -> bytes:
    """A configuration space with extended capabilities of these ids; the register of ACS holds the second number."""
    space, offset = bytearray(4096), 0x100
    for number, (identifier, control) in enumerate(capabilities):
        following = offset + 0x40 if number + 1 < len(capabilities) else 0
        struct.pack_into("<IHH", space, offset, identifier | 1 << 16 | following << 20, 0x5F, control)
        offset += 0x40
    return bytes(space)


def test_access_control_is_found_behind_other_capabilities() -> None:
    assert access_control_offset(config_space((0x0001, 0), (0x000D, 0x1D))) == 0x140
    assert access_control_offset(config_space((0x0001, 0), (0x000E, 0x1D))) is None
    assert access_control_offset(config_space((0x000D, 0))[:64]) is None  # all that others than root see
    assert access_control_offset(bytes(4096)) is None


@pytest.mark.parametrize(("control", "gpu", "advised"), [(0x1D, True, True), (0x00, True, False), (0x1D, False, False)])
def test_access_control_is_advised_on_and_cleared_only_when_asked(
    tmp_path: Path, control: int, gpu: bool, advised: bool
) -> None:
    bridge, card = "/sys/bus/pci/devices/0000:00:01.0", "/sys/bus/pci/devices/0000:01:00.0"
    files = {f"{bridge}/class": "0x060400\n", f"{card}/class": "0x030200\n", f"{card}/vendor": "0x10de\n"}
    host = machine(tmp_path, {name: text for name, text in files.items() if gpu or card not in name}, setpci="")
    host.path(f"{bridge}/config").write_bytes(config_space((0x000D, control)))
    plan = planned(host, "pcie_access_control.acs", disable=False)
    assert (bool(plan.advice), plan.settings) == (advised, [])
    asked = planned(host, "pcie_access_control.acs", disable=True)
    assert ("0000:00:01.0" in targets(asked)) is advised


def test_the_iommu_is_reported_and_never_touched(tmp_path: Path) -> None:
    card = "/sys/bus/pci/devices/0000:01:00.0"
    files = {f"{card}/class": "0x030200\n", f"{card}/vendor": "0x10de\n", f"{card}/iommu_group/type": "DMA-FQ\n"}
    plan = planned(machine(tmp_path, {**files, "/proc/cmdline": "intel_iommu=on\n"}), "pcie_access_control.iommu")
    assert (plan.settings, len(plan.reboot)) == ([], 1)
    assert "intel_iommu=on" in plan.advice[0]
    files[f"{card}/iommu_group/type"] = "identity\n"
    assert planned(machine(tmp_path / "b", files), "pcie_access_control.iommu").advice == []


def test_one_numa_node_needs_no_balancing_off(tmp_path: Path) -> None:
    host = machine(tmp_path, {"/proc/sys/kernel/numa_balancing": "0\n", "/sys/devices/system/node/node0/x": ""})
    assert "one NUMA node" in (planned(host, "system_limits.numa_balancing").skipped or "")
    host.put("/sys/devices/system/node/node1/x", "")
    assert (
        len(carry_out(host, Journal(host), "i", planned(host, "system_limits.numa_balancing"), check=True).changes) == 1
    )


def test_a_driver_without_priorities_is_skipped(tmp_path: Path) -> None:
    def dcb(_: tuple[str, ...]) -> str:
        raise ValueError("Operation not supported")

    options = {"apply": True, "interfaces": [], "dscp": 26, "priority": 3, "tool": "auto"}
    plan = planned(machine(tmp_path, MLX, dcb=dcb), "roce_qos.priorities", **options)
    assert "Operation not supported" in (plan.skipped or "")


def test_an_rdma_device_is_matched_to_its_interface_by_its_first_gid(tmp_path: Path) -> None:
    soft = {
        "/sys/class/infiniband/rxe0/ports/1/link_layer": "Ethernet\n",
        "/sys/class/infiniband/rxe0/ports/1/gid_attrs/ndevs/0": "eth1\n",
        "/sys/class/infiniband/ib0/ports/1/link_layer": "InfiniBand\n",
        "/sys/class/infiniband/ib0/ports/1/gid_attrs/ndevs/0": "ibp1\n",
    }
    assert rdma_interfaces(machine(tmp_path, {**MLX, **soft})) == {"eth2": "mlx5_0", "eth1": "rxe0"}
