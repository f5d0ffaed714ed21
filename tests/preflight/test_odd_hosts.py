"""Hosts that are fine in their own way, or sick in an unusual one: no false alarm on the ones, no pass for the others."""

from collections.abc import Mapping
from typing import Any

import pytest

from raybench.preflight.checks import selected
from raybench.preflight.expectations import read_expectations, unknown_variables
from raybench.preflight.parsers.nvidia_smi import parse_topology
from raybench.preflight.report import Gathered, build_report

from . import recorded
from .hosts import facts, files, host, result, value, verdict

AMD_GRAPHICS = "0000:05:00.0 VGA compatible controller [0300]: AMD/ATI Phoenix1 [1002:15bf] (rev c4)\n\tKernel driver in use: amdgpu\n"
NVIDIA = "0000:10:1c.0 3D controller [0302]: NVIDIA Corporation GA100 [A100 SXM4 80GB] [10de:20b2] (rev a1)\n\tLnkCap: Speed 16GT/s, Width x16\n\tLnkSta: Speed 16GT/s, Width x16\n"
SECOND = NVIDIA.replace("10:1c", "20:1c")
NO_DRIVER = {"nvidia_smi": {"status": "failed", "text": recorded.SMI_BROKEN}}
NIC = "0000:b1:00.0 Infiniband controller [0207]: Mellanox MT2910 Family [ConnectX-7] [15b3:1021]\n\tLnkCap: Port #0, Speed {can}GT/s, Width x16\n\tLnkSta: Speed 16GT/s, Width {width}\n\tATSCtl: Enable-, Smallest Translation Unit: 00\n\tKernel driver in use: mlx5_core\n"
SLOT = "0000:b0:01.0 PCI bridge [0604]: Intel Corporation Root Port [8086:347a]\n\tLnkCap: Port #9, Speed 16GT/s, Width {width}\n\tLnkSta: Speed 16GT/s, Width x8\n\n"
FUNCTION = "0000:b1:00.1 Infiniband controller [0207]: Mellanox ConnectX Family mlx5Gen Virtual Function [15b3:101e]\n\tMaxPayload 128 bytes, MaxReadReq 128 bytes\n\tLnkCap: Speed unknown, Width x0\n\tLnkSta: Speed unknown, Width x0\n\tKernel driver in use: mlx5_core\n"
UNDER_SLOT = {"pci_devices": value({"0000:b1:00.0": ["0000:b0:01.0", None]})}
EFA_PORT = {
    "/sys/class/infiniband/rdmap16s27/ports/1/state": "4: ACTIVE",
    "/sys/class/infiniband/rdmap16s27/ports/1/phys_state": "5: LinkUp",
    "/sys/class/infiniband/rdmap16s27/ports/1/rate": "100 Gb/sec (4X EDR)",
    "/sys/class/infiniband/rdmap16s27/ports/1/link_layer": "Unspecified",
}
EFA: dict[str, Any] = {
    "lspci": "0000:10:1b.0 Ethernet controller [0200]: Amazon.com, Inc. Elastic Fabric Adapter (EFA) [1d0f:efa1]\n\tKernel driver in use: efa\n",
    "ibstat": "",
    "rdma_devices": value(["rdmap16s27"]),
    "devices": value({"/dev/infiniband/uverbs0": True}),
    **files(infiniband=EFA_PORT, proc={"/proc/modules": "efa 1\nib_uverbs 1\nib_core 1\n"}),
}
BUILT_IN = {
    "ibstat": recorded.IBSTAT_ROCE,
    "rdma_devices": value(["mlx5_2"]),
    "lspci": NIC.format(can=16, width="x16"),
    **files(proc={"/proc/modules": "nvme 1\n"}),
}
OFF = recorded.IBSTAT_ROCE.replace("mlx5_2", "mlx5_3").replace("Active", "Down").replace("LinkUp", "Disabled")
ROCE = {
    "ibstat": recorded.IBSTAT_ROCE,
    "rdma_devices": value(["mlx5_2"]),
    "rdma_interfaces": value({"ens1f0": "mlx5_2"}),
}
PFC = '{{"pfc_cap":8,"macsec_bypass":false,"delay":0,"prio_pfc":{}}}'
NONE_UP = (
    "GPU 0: NVIDIA RTX A6000 (UUID: GPU-1)\n"
    + "".join(f"\t Link {number}: <inactive>\n" for number in range(4))
    + "GPU 1: NVIDIA RTX A6000 (UUID: GPU-2)\n\t Link 0: <inactive>\n"
)
A6000 = recorded.SMI_A100.replace("A100-SXM4-80GB", "RTX A6000")
PIX = recorded.TOPO_H100.replace("PIX", "NODE")
V100 = recorded.SMI_A100.replace(
    "            SRAM Correctable              : 0\n            SRAM Uncorrectable            : 0\n            DRAM Correctable              : 177\n            DRAM Uncorrectable            : 0\n",
    "            Single Bit\n                Total                     : 0\n            Double Bit\n                Device Memory             : {double}\n                Total                     : {double}\n", 1,
)  # fmt: skip
assert V100 != recorded.SMI_A100


def smi(old: str, new: str, text: str = recorded.SMI_A100) -> dict[str, str]:
    assert old in text
    return {"nvidia_smi": text.replace(old, new, 1)}


# check, readings that fire, the verdict, the near miss, its verdict
CASES: list[tuple[str, Mapping[str, Any], str, Mapping[str, Any], str]] = [
    # the graphics of an AMD CPU is no GPU that nvidia-smi misses, and no GPU host at all
    ("gpu-count", {"lspci": NVIDIA + "\n" + SECOND + "\n" + SECOND.replace("20:", "30:"), "nvidia_smi": recorded.SMI_A100}, "fail",
     {"lspci": NVIDIA + "\n" + SECOND + "\n" + AMD_GRAPHICS, "nvidia_smi": recorded.SMI_A100}, "pass"),
    ("host-memlock", {"lspci": NVIDIA, "memlock": value([65536, 65536])}, "fail",
     {"lspci": AMD_GRAPHICS, "memlock": value([65536, 65536])}, "warn"),
    # an image with the driver's programs on a machine without a GPU
    ("gpu-driver", {"lspci": NVIDIA, **NO_DRIVER}, "fail", {"lspci": AMD_GRAPHICS, **NO_DRIVER}, "skipped"),
    ("gpu-driver", smi("Temperature\n        GPU Current Temp                  : 34 C", "Temperature\n        GPU Current Temp : ERR!"), "fail",
     smi("34 C", "N/A"), "pass"),
    ("gpu-driver", smi("Performance State                     : P0", "Performance State : [GPU requires reset]"), "fail",
     smi("Performance State                     : P0", "Performance State : [Not Supported]"), "pass"),
    ("gpu-ecc", {"nvidia_smi": V100.format(double=1)}, "fail", {"nvidia_smi": V100.format(double=0)}, "pass"),
    ("gpu-ecc", {"nvidia_smi": recorded.SMI_A100.replace("Correctable              : 0", "Correctable : N/A")
                 .replace("Uncorrectable            : 0", "Uncorrectable : N/A").replace(": 177", ": N/A")}, "unknown",
     {"nvidia_smi": recorded.SMI_A100}, "pass"),
    ("gpu-ecc", smi("Threshold Exceeded       : No", "Threshold Exceeded : Yes", recorded.SMI_H200), "fail",
     smi("Threshold Exceeded       : No", "Threshold Exceeded : N/A", recorded.SMI_H200), "pass"),
    ("gpu-processes", {"nvidia_smi": recorded.SMI_H200.replace("17012 MiB", "100 MiB")}, "warn",
     {"nvidia_smi": recorded.SMI_H200.replace("17012 MiB", "100 MiB").replace(": C\n", ": G\n")}, "pass"),
    # cards that a bridge could join and none does; boards that NVLink always joins
    ("gpu-nvlink", {"nvidia_smi": recorded.SMI_A100, "nvidia_smi_nvlink": NONE_UP}, "fail",
     {"nvidia_smi": A6000, "nvidia_smi_nvlink": NONE_UP}, "skipped"),
    ("gpu-nvlink", {"nvidia_smi": A6000, "nvidia_smi_nvlink": NONE_UP.replace("<inactive>", "14.062 GB/s", 1)}, "warn",
     {"nvidia_smi": recorded.SMI_H200, "nvidia_smi_nvlink": NONE_UP}, "skipped"),  # one GPU of a board, in a virtual machine
    ("gpu-fabric", {"nvidia_smi": recorded.SMI_A100, "lspci": "0000:c1:00.0 Bridge [0680]: NVIDIA NVSwitch [10de:1af1]\n",
                    "fabricmanager": "LoadState=loaded\nActiveState=failed\n"}, "fail",
     {"nvidia_smi": recorded.SMI_A100, "lspci": "0000:c1:00.0 Bridge [0680]: NVIDIA NVSwitch [10de:1af1]\n",
      "fabricmanager": "LoadState=loaded\nActiveState=active\n"}, "skipped"),
    # Grace: no PCIe switch between GPU and NIC by design, the other socket is still far
    ("gpu-topology", ROCE | {"nvidia_smi": recorded.SMI_A100, "nvidia_smi_topo": PIX}, "warn",
     ROCE | {"nvidia_smi": recorded.SMI_A100.replace("A100-SXM4-80GB", "GB200"), "nvidia_smi_topo": PIX}, "pass"),
    ("gpu-topology", ROCE | {"nvidia_smi": recorded.SMI_A100, "nvidia_smi_topo": recorded.TOPO_AZURE}, "warn",
     ROCE | {"nvidia_smi": recorded.SMI_A100, "nvidia_smi_topo": "\t\x1b[4m" + recorded.TOPO_H100[1:].replace("\n", "\x1b[0m\n", 1)}, "pass"),
    # a link that its slot has no more for is how the machine was built
    ("pci-link", {"lspci": SLOT.format(width="x16") + NIC.format(can=16, width="x8"), **UNDER_SLOT}, "fail",
     {"lspci": SLOT.format(width="x8") + NIC.format(can=16, width="x8"), **UNDER_SLOT}, "warn"),
    ("pci-link", {"lspci": NIC.format(can=32, width="x16")}, "fail",
     {"lspci": SLOT.format(width="x16") + NIC.format(can=32, width="x16"), **UNDER_SLOT}, "warn"),
    ("pci-link", {"lspci": FUNCTION + "\n" + NIC.format(can=16, width="x8")}, "fail", {"lspci": FUNCTION}, "skipped"),
    ("pci-link", {"lspci": "0000:b1:00.0 Infiniband controller [0207]: Mellanox X [15b3:1021]\n\tCapabilities: <access denied>\n",
                  **files(pci={"/sys/bus/pci/devices/0000:b1:00.0/current_link_width": "8",
                               "/sys/bus/pci/devices/0000:b1:00.0/max_link_width": "16"})}, "fail",
     {"lspci": "0000:b1:00.0 Infiniband controller [0207]: Mellanox X [15b3:1021]\n\tCapabilities: <access denied>\n"}, "unknown"),
    ("pci-mrr", {"lspci": NIC.format(can=16, width="x16") + "\tMaxPayload 512 bytes, MaxReadReq 512 bytes\n"}, "warn",
     {"lspci": FUNCTION}, "skipped"),
    ("pci-ats", {"lspci": NIC.format(can=16, width="x16"), "is_virtual": value(True)}, "warn",
     {"lspci": NIC.format(can=16, width="x16"), "is_virtual": value(False)}, "pass"),
    ("pci-ats", {"lspci": NIC.format(can=16, width="x16"), "is_virtual": value(True)}, "warn",
     {"lspci": NVIDIA + "\tATSCtl: Enable-, Smallest Translation Unit: 00\n", "is_virtual": value(True)}, "skipped"),
    # what the kernel does counts, not what its command line says; and a laptop has nothing to lose
    ("pci-iommu", {"lspci": NVIDIA, **files(proc={"/proc/cmdline": "quiet"}), "pci_devices": value({"0000:10:1c.0": [None, "DMA-FQ"]})}, "warn",
     {"lspci": NVIDIA, **files(proc={"/proc/cmdline": "quiet intel_iommu=on"}), "pci_devices": value({"0000:10:1c.0": [None, "identity"]})}, "pass"),
    ("pci-iommu", {"lspci": NVIDIA, **files(proc={"/proc/cmdline": "intel_iommu=on,sm_on"})}, "warn",
     {"lspci": AMD_GRAPHICS, **files(proc={"/proc/cmdline": "intel_iommu=on"})}, "skipped"),
    # EFA has neither management datagrams nor a connection manager
    ("rdma-modules", {**EFA, **files(proc={"/proc/modules": "ib_uverbs 1\nib_core 1\n"})}, "fail", EFA, "pass"),
    ("rdma-nodes", {**ROCE, "devices": value({"/dev/infiniband/uverbs0": True})}, "warn", EFA, "pass"),
    # drivers built into the kernel are in no list of modules
    ("rdma-modules", {**BUILT_IN, "devices": value({})}, "fail", {**BUILT_IN, "devices": value({"/dev/infiniband/uverbs0": True})}, "pass"),
    # an Ethernet port that nobody has set up beside one that is used
    ("rdma-port", {"ibstat": recorded.IBSTAT_ROCE + OFF.replace("Disabled", "Polling")}, "fail",
     {"ibstat": recorded.IBSTAT_ROCE + OFF}, "warn"),
    ("rdma-rate", {"ibstat": recorded.IBSTAT_ROCE + recorded.IBSTAT_ROCE.replace("mlx5_2", "mlx5_3").replace("100", "25")}, "fail",
     {"ibstat": recorded.IBSTAT_ROCE + recorded.IBSTAT_ROCE.replace("mlx5_2", "mlx5_3").replace("100", "25").replace("Ethernet", "InfiniBand")}, "pass"),
    ("rdma-flaps", ROCE | {"dmesg": "[9.0] bnxt_en 0000:41:00.0 ens1f0: NIC Link is Down\n" * 5}, "fail",
     ROCE | {"dmesg": "[9.0] bnxt_en 0000:41:00.0 ens1f0: NIC Link is Up, 100000 Mbps\n" * 5}, "pass"),
    ("roce-pfc", ROCE | {"dcb_pfc:ens1f0": PFC.format("[false,false,false,false,false,false,false,false]")}, "warn",
     ROCE | {"dcb_pfc:ens1f0": PFC.format("[false,false,false,true,false,false,false,false]")}, "pass"),
    ("roce-pfc", ROCE | {"dcb_pfc:ens1f0": "{nonsense"}, "unknown", ROCE | {"dcb_pfc:ens1f0": '{"prio-pfc":["off","on"]}'}, "pass"),
    ("roce-ecn", ROCE | files(net={"/sys/class/net/ens1f0/ecn/roce_np/enable/3": "0"}), "warn",
     ROCE | files(net={"/sys/class/net/other/ecn/roce_np/enable/3": "1"}), "unknown"),
    # rules that root could not read either, as in a container
    ("host-firewall", {"nft": {"status": "denied", "text": ""}, "iptables": {"status": "failed", "text": ""}}, "unknown",
     {"nft": {"status": "denied", "text": ""}, "iptables": ":INPUT ACCEPT [0:0]\n"}, "pass"),
    ("host-disk", {"file_systems": value({"/": {"total": 100, "free": 90, "inodes": 0, "inodes_free": 0}}),
                   "file_system:/scratch": {"status": "timeout", "error": "no answer in time"}}, "fail",
     {"file_systems": value({"/": {"total": 100, "free": 90, "inodes": 0, "inodes_free": 0}})}, "pass"),
    ("software-python", {"python": "sitecustomize says hello"}, "unknown",
     {"python": 'hello\n{"python": "3.12.1", "executable": "/usr/bin/python3", "packages": {}}\n'}, "pass"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_a_check_fires_and_its_near_miss_does_not(
    case: tuple[str, Mapping[str, Any], str, Mapping[str, Any], str],
) -> None:
    name, firing, wanted, missing, other = case
    fired = result(name, host(firing))
    assert fired.verdict == wanted, fired
    assert result(name, host(missing)).verdict == other, result(name, host(missing))


def test_amd_gpus_are_counted_and_the_checks_of_nvidias_tools_left_out() -> None:
    bus = "\n".join(
        f"0000:{n:02x}:00.0 Processing accelerators [1200]: AMD/ATI Aqua Vanjaram [Instinct MI300X] [1002:74a1]\n"
        for n in range(8)
    )
    node = host({"lspci": bus, "rdma_devices": value([]), "ibstat": ""})
    assert result("gpu-count", node).seen == "8 AMD on the bus"
    others = [check.name for check in selected(["gpu"]) if check.name != "gpu-count"]
    assert {result(name, node).verdict for name in others} == {"skipped"}
    assert verdict("gpu-count", {"lspci": bus}, gpu_count=7) == "fail"
    assert verdict("gpu-count", {"lspci": bus}, gpu_count=8) == "pass"


def test_a_port_that_is_switched_off_counts_where_ports_are_counted() -> None:
    both = {"ibstat": recorded.IBSTAT_ROCE + OFF}
    assert verdict("rdma-port", both, port_count=2) == "fail"
    assert verdict("rdma-port", both, port_count=1) == "pass"


def test_counters_of_a_port_that_is_not_used_are_nobodys() -> None:
    path = "mlx5_3/ports/1/counters/link_downed"
    counters = {"counters": {"status": "ok", "before": {path: 0}, "after": {path: 9}, "seconds": 1.0}}
    assert verdict("rdma-counters", counters) == "fail"
    assert verdict("rdma-counters", counters, ports_ignored=["mlx5_2/1"]) == "fail"
    assert verdict("rdma-counters", counters, ports_ignored=["mlx5_3/1"]) == "skipped"


def test_an_mtu_may_be_expected_of_some_interfaces_only() -> None:
    two = {"addresses": value({"eno1": "10.0.0.1", "ens1f0": "10.1.0.1"})}
    sizes = files(net={"/sys/class/net/eno1/mtu": "1500", "/sys/class/net/ens1f0/mtu": "9000"})
    assert verdict("host-mtu", two | sizes, mtu=9000) == "fail"
    assert verdict("host-mtu", two | sizes, mtu=9000, mtu_interfaces=["ens*"]) == "pass"
    assert verdict("host-mtu", two | sizes, mtu=4200, mtu_interfaces=["ens*"]) == "fail"
    assert verdict("host-mtu", two | sizes, mtu=9000, mtu_interfaces=["ib*"]) == "skipped"


def test_the_underlined_heading_of_topo_gives_the_same_table() -> None:
    underlined = "\t\x1b[4m" + recorded.TOPO_H100[1:].replace("\n", "\x1b[0m\n", 1)
    assert host({"nvidia_smi_topo": underlined}).topology == parse_topology(recorded.TOPO_H100)


def test_thresholds_may_differ_by_type_of_gpu() -> None:
    hot = smi("34 C", "80 C")
    assert verdict("gpu-temperature", hot, gpu_types={"A100": {"temperature_max_c": 75}}) == "warn"
    assert verdict("gpu-temperature", hot, gpu_types={"H100": {"temperature_max_c": 75}}) == "pass"
    slow = smi("                Max                       : 4\n", "                Max                       : 3\n")
    assert verdict("pci-link", slow | {"lspci": NVIDIA}) == "warn"
    assert verdict("pci-link", slow | {"lspci": NVIDIA}, gpu_types={"A100": {"pcie_generation": 3}}) == "pass"
    assert verdict("pci-link", slow | {"lspci": NVIDIA, "is_virtual": value(True)}) == "pass"


@pytest.mark.parametrize(
    "table",
    [{"H100": 18}, {"H100": {"nvlink": 18}}, {"H100": {"nvlinks": "many"}}, {"H100": None}, ["H100"]],
)
def test_a_table_of_types_that_no_check_could_read_is_said(table: object) -> None:
    expected, problems = read_expectations({"preflight_gpu_types": table})
    assert [problem.split()[0] for problem in problems] == ["preflight_gpu_types"]
    assert expected.gpu_types == {}
    assert read_expectations({"preflight_gpu_types": {"H100": {"nvlinks": "18"}}})[1] == ()


def test_lists_may_be_written_as_on_a_command_line() -> None:
    expected, problems = read_expectations(
        {"preflight_xid_ignored": "31,43", "preflight_ports_ignored": "mlx5_4, mlx5_5"}
    )
    assert (problems, expected.xid_ignored, expected.ports_ignored) == ((), (31, 43), ("mlx5_4", "mlx5_5"))


def test_a_misspelt_variable_is_said_and_one_of_the_role_is_not() -> None:
    given = facts({}, gpu_cuont=8, timeout_seconds=5)
    (entry,) = build_report([Gathered(host="a", facts=given)], finished_at=0.0).to_json()["hosts"]
    (found,) = [check for check in entry["checks"] if check["check"] == "host-expectations"]
    assert (found["verdict"], found["seen"]) == ("warn", "no such variable: preflight_gpu_cuont")
    assert unknown_variables(facts({}, timeout_seconds=5, gpu_count=8)["expectations"]) == ()
