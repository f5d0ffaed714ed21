"""Every check: what makes it fire, and the near miss beside it that must not."""

from collections.abc import Mapping
from importlib import import_module
from inspect import get_annotations, isfunction
from pkgutil import walk_packages
from typing import Any

import pytest

from raybench.preflight import checks
from raybench.preflight.checks import CHECKS, Check, selected
from raybench.preflight.host_view import HostView
from raybench.preflight.probe_answer import wrong_form
from raybench.preflight.verdict import Judgement

from . import recorded
from .alarm_nic_cases import EFA_LIST, EFA_OLD
from .alarm_table import ALARM_CASES
from .hosts import facts, files, host, result, value, verdict

GIB = 2**30
UP = recorded.IBSTAT_CONNECTX7.format(state="Active", physical="LinkUp", rate=400, lid=49, sm=1)
RDMA = {"ibstat": UP, "rdma_devices": value(["mlx5_0", "mlx5_1"])}
ROCE = {
    "ibstat": recorded.IBSTAT_ROCE,
    "rdma_devices": value(["mlx5_2"]),
    "rdma_interfaces": value({"ens1f0": "mlx5_2"}),
}
SOFT = {
    "ibstat": recorded.IBSTAT_RXE,
    "rdma_devices": value(["rxe0"]),
    "rdma_drivers": value({"rxe0": "rdma_rxe"}),
    "rdma_interfaces": value({"eth1": "rxe0"}),
}
EFA = {
    "ibstat": recorded.rdma("ibstat_efa.txt"),
    "rdma_devices": value(["efa_0"]),
    "rdma_drivers": value({"efa_0": "efa"}),
}
MC0 = "/sys/devices/system/edac/mc/mc0"
MODULES = "mlx5_core 1 0 - Live 0x0\nmlx5_ib 1 0 - Live 0x0\nib_uverbs 1 0 - Live 0x0\nib_core 1 0 - Live 0x0\n"
LINKS = "".join(f"\t Link {number}: 25 GB/s\n" for number in range(12))
A100_LINKS = recorded.NVLINK_H100.format(first=LINKS, second=LINKS)


def smi(old: str = "", new: str = "", text: str = recorded.SMI_A100) -> dict[str, Any]:
    assert old in text
    return {"nvidia_smi": text.replace(old, new, 1)}


def proc(**names: str) -> dict[str, Any]:
    paths = {
        "cmdline": "/proc/cmdline",
        "meminfo": "/proc/meminfo",
        "modules": "/proc/modules",
        "uptime": "/proc/uptime",
    }
    return files(proc={paths[name]: content for name, content in names.items()})


def room(total: float, free: float, path: str = "/dev/shm") -> dict[str, Any]:
    state = {"total": total * GIB, "free": free * GIB, "inodes": 1000, "inodes_free": 900}
    return {"file_systems": value({path: state})}


def folders(*, writable: int = 1, programs: int = 1, home: bool = True) -> dict[str, Any]:
    found = room(100, 90, "/tmp")
    found["file_systems"]["value"]["/tmp"] |= {"writable": writable, "programs": programs}
    return found | {"home": value({"path": "/home/someone", "writable": home})}


def log(text: str, uptime: float = 20000) -> dict[str, Any]:
    return {"dmesg": text, **proc(uptime=f"{uptime} 1.0"), "devices": value({"/dev/nvidia0": True})}


_PORT: dict[str, object] = {"state": "Active", "physical": "LinkUp", "rate": 400, "lid": 49, "sm": 1}


def ib(**fields: object) -> dict[str, Any]:
    return RDMA | {"ibstat": recorded.IBSTAT_CONNECTX7.format(**_PORT | fields)}


def qos(trust: str = "dscp", enabled: str = "0 0 0 1 0 0 0 0") -> dict[str, Any]:
    return ROCE | {"mlnx_qos:ens1f0": recorded.MLNX_QOS.format(trust=trust, enabled=enabled)}


def pci(acs: str = "-", mrr: int = 4096, link: str = "Speed 16GT/s, Width x16") -> dict[str, Any]:
    return {"lspci": recorded.LSPCI_CONNECTX6.format(acs=acs, mrr=mrr, link=link)}


def grown(counter: str, before: int, after: int) -> dict[str, Any]:
    path = f"mlx5_0/ports/1/counters/{counter}"
    return {"counters": {"status": "ok", "before": {path: before}, "after": {path: after}, "seconds": 1.0}}


GID = ["mlx5_2", 1, 3, "0000:0000:0000:0000:0000:ffff:0a0a:0a01", "RoCE v2", "ens1f0"]
HUNG = {"nvidia_smi": {"status": "timeout", "text": "", "error": "nvidia-smi did not end within 20 g s"}}
PYTHON = '{"python": "%s", "executable": "/usr/bin/python3", "packages": {"torch": "2.13.0+cu128"}}'

NAMED: dict[str, Any] = {
    "addresses": value({"eth0": "10.0.0.1", "eth1": "10.1.0.1", "lo": "127.0.0.1"}),
    "default_interface": value("eth0"),
}
# check, readings that fire, the verdict, the near miss, its verdict
CASES: list[tuple[str, Mapping[str, Any], str, Mapping[str, Any], str]] = [
    ("host-probe", HUNG, "fail", {"nvidia_smi": {"status": "missing", "text": ""}}, "pass"),
    ("host-os", files(os_release={"/etc/os-release": "ID=alpine\n"}), "warn",
     files(os_release={"/etc/os-release": 'ID=rocky\nID_LIKE="rhel centos"\n'}), "pass"),
    ("host-governor", files(kernel={"/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave"}), "warn",
     files(kernel={"/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance"}), "pass"),
    ("host-numa-balancing",
     files(proc={"/proc/sys/kernel/numa_balancing": "1"}, kernel={"/sys/devices/system/node/online": "0-1"}), "warn",
     files(proc={"/proc/sys/kernel/numa_balancing": "1"}, kernel={"/sys/devices/system/node/online": "0"}), "pass"),
    ("host-hugepages", files(kernel={"/sys/kernel/mm/transparent_hugepage/enabled": "always madvise [never]"}), "warn",
     files(kernel={"/sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never"}), "pass"),
    ("host-memory", proc(meminfo="MemTotal: 1000 kB\nMemAvailable: 99 kB\n"), "warn",
     proc(meminfo="MemTotal: 1000 kB\nMemAvailable: 100 kB\n"), "pass"),
    ("host-swap", proc(meminfo="SwapTotal: 4194304 kB\nSwapFree: 2097152 kB\n"), "warn",
     proc(meminfo="SwapTotal: 4194304 kB\nSwapFree: 3145728 kB\n"), "pass"),
    ("host-disk", room(100, 4, "/"), "fail", room(100, 11, "/"), "pass"),
    ("host-shm", room(0.0625, 0.05), "fail", room(8, 7.9), "pass"),
    ("host-dstate", {"uninterruptible": value([["12", "nfsd"]])}, "warn", {"uninterruptible": value([])}, "pass"),
    ("host-ecc", files(kernel={f"{MC0}/ce_count": "0", f"{MC0}/ue_count": "1"}), "fail",
     files(kernel={f"{MC0}/ce_count": "7", f"{MC0}/ue_count": "0"}), "pass"),
    ("host-log", log("[19999.0] {1}[Hardware Error]: event severity: fatal"), "fail",
     log("[1.0] mce: CPU0: Thermal monitoring enabled"), "pass"),
    ("host-log", log("[19999.0] mce: [Hardware Error]: CPU 3: Machine Check Exception: 5 Bank 6: be00"), "fail",
     log("[19999.0] mce: [Hardware Error]: Machine check events logged"), "warn"),  # corrected ones are logged so as well
    ("host-log", log("[9.0] blk_update_request: I/O error, dev sda", 2 * 86400), "pass",
     log("[172000.0] blk_update_request: I/O error, dev sda", 2 * 86400), "warn"),
    ("host-clock", {"chronyc": recorded.CHRONY.format(offset="0.0500", direction="slow")}, "fail",
     {"chronyc": recorded.CHRONY.format(offset="0.0009", direction="fast")}, "pass"),
    ("host-clock", {"chronyc": recorded.CHRONY_LOST}, "warn", {"timedatectl": "NTPSynchronized=yes\n"}, "pass"),
    ("host-clock", {"time_services": value([])}, "warn", {"time_services": value(["phc2sys", "ptp4l"])}, "pass"),
    ("host-clock", {"time_services": value([]), "chronyc": {"status": "failed", "text": "506 Cannot talk to daemon"}}, "warn",
     {"time_services": value(["chronyd"]), "chronyc": {"status": "denied", "text": "501 Not authorised"}}, "unknown"),
    ("host-folders", folders(home=False), "warn", folders(), "pass"),
    ("host-folders", folders(programs=0), "warn", folders() | room(100, 90, "/data"), "unknown"),
    ("host-folders", folders(writable=0, programs=0), "fail", folders(), "pass"),
    ("host-mounts", {"mounts": value([["/", "ext4", True, False]])}, "fail",
     {"mounts": value([["/data", "xfs", False, False], ["/iso", "ext4", True, True], ["/sysroot", "xfs", True, None]])}, "pass"),
    ("host-name", NAMED | {"own_name": value({"name": "gpu-01", "addresses": ["127.0.1.1"]})}, "warn",
     NAMED | {"own_name": value({"name": "gpu-01", "addresses": ["127.0.1.1", "10.0.0.1"]})}, "pass"),
    ("host-name", NAMED | {"own_name": value({"name": "gpu-01", "addresses": ["10.0.0.2"]})}, "fail",
     NAMED | {"own_name": value({"name": "gpu-01", "addresses": ["10.1.0.1"]})}, "pass"),  # its second network
    ("host-name", NAMED | {"own_name": value({"name": "gpu-01", "addresses": ["10.0.0.1", "10.0.0.2"]})}, "warn",
     NAMED | {"own_name": value({"name": "gpu-01", "addresses": ["10.0.0.1", "10.1.0.1"]})}, "pass"),  # two of its own
    ("host-name", NAMED | {"own_name": value({"name": "gpu-01", "addresses": []})}, "warn",
     {"own_name": value({"name": "laptop", "addresses": ["127.0.1.1"]}), "addresses": value({"lo": "127.0.0.1"})}, "skipped"),
    ("software-variables", RDMA | {"variables": value([["NCCL_IB_DISABLE", "1", "/etc/nccl.conf"]])}, "warn",
     RDMA | {"variables": value([["NCCL_IB_DISABLE", "0", "/root/.nccl.conf"], ["NCCL_IB_DISABLE", "1", "/etc/nccl.conf"]])}, "pass"),
    ("software-variables", {"variables": value([["NCCL_NVLS_ENABLE", "0", "/etc/environment"]])}, "warn",
     {"variables": value([["NCCL_NVLS_ENABLE", "1", "/etc/environment"], ["NCCL_IB_DISABLE", "1", "/etc/nccl.conf"]])}, "pass"),
    ("host-memlock", RDMA | {"memlock": value([65536, 65536])}, "fail", RDMA | {"memlock": value([-1, -1])}, "pass"),
    ("host-memlock", {"memlock": value([8388608, 8388608])}, "warn", {"memlock": value([32 * GIB, 32 * GIB])}, "pass"),
    ("host-nofile", {"nofile": value([1023, 4096])}, "fail", {"nofile": value([65535, 65535])}, "pass"),
    ("host-removeipc", files(limits={"/etc/systemd/logind.conf": "[Login]\n#RemoveIPC=no\n"}), "warn",
     files(limits={"/etc/systemd/logind.conf": "[Login]\n", "/etc/systemd/logind.conf.d/a.conf": "RemoveIPC=no\n"}), "pass"),
    ("host-firewall", {"iptables": ":INPUT DROP [0:0]\n", "nft": ""}, "warn", {"iptables": ":INPUT ACCEPT [0:0]\n", "nft": ""}, "pass"),
    ("pci-link", pci(link="Speed 16GT/s, Width x8 (downgraded)"), "fail", pci(), "pass"),
    ("pci-link", pci(link="Speed 8GT/s (downgraded), Width x16"), "fail", pci(), "pass"),
    ("pci-acs", pci(acs="+"), "warn", pci(), "pass"),
    ("pci-iommu", proc(cmdline="quiet intel_iommu=on"), "warn", proc(cmdline="quiet intel_iommu=on iommu=pt"), "pass"),
    ("pci-mrr", pci(mrr=512), "warn", pci(mrr=4096), "pass"),
    ("gpu-driver", {"nvidia_smi": {"status": "failed", "text": recorded.SMI_BROKEN}}, "fail", smi(), "pass"),
    ("gpu-driver", HUNG, "fail", {}, "skipped"),
    ("gpu-count", smi() | {"lspci": recorded.LSPCI_CONNECTX6.replace("[0207]", "[0302]").replace("15b3", "10de")
                           + "\n0000:20:1c.0 3D controller [0302]: NVIDIA GA100 [10de:20b2]\n"}, "fail",
     smi() | {"lspci": "0000:20:1c.0 3D controller [0302]: NVIDIA GA100 [10de:20b2]\n"}, "pass"),
    ("gpu-persistence", smi("Persistence Mode                      : Enabled", "Persistence Mode : Disabled"), "warn", smi(), "pass"),
    ("gpu-mig", smi("Current                           : Disabled", "Current : Enabled"), "fail", smi(), "pass"),
    ("gpu-processes", smi(text=recorded.SMI_H200), "warn", smi(), "pass"),
    ("gpu-processes", smi("Used                              : 4 MiB", "Used : 4000 MiB"), "fail",
     smi("Used                              : 4 MiB", "Used : 600 MiB"), "pass"),
    ("gpu-ecc", smi("DRAM Uncorrectable            : 0", "DRAM Uncorrectable            : 2"), "fail", smi(), "pass"),
    ("gpu-ecc", smi("SRAM Uncorrectable Parity     : 0", "SRAM Uncorrectable Parity     : 1", recorded.SMI_H200), "fail",
     smi(text=recorded.SMI_H200), "pass"),
    ("gpu-rows", smi("Pending                           : No", "Pending : Yes"), "fail", smi(), "pass"),
    ("gpu-rows", smi("Remapping Failure Occurred        : No", "Remapping Failure Occurred : Yes"), "fail", smi(), "pass"),
    ("gpu-rows", smi("Correctable Error                 : 1", "Correctable Error : 512"), "fail",
     smi("Correctable Error                 : 1", "Correctable Error : 511"), "pass"),
    ("gpu-xid", log(recorded.DMESG_XID.format(number=79)), "fail", log("[1.0] NVRM: loading NVIDIA UNIX Kernel Module"), "pass"),
    ("gpu-xid", log(recorded.DMESG_XID.format(number=13)), "warn", log(recorded.DMESG_XID.format(number=79), 200000), "pass"),
    ("gpu-xid", log(recorded.DMESG_SXID.format(kind="Fatal")), "fail", log(recorded.DMESG_SXID.format(kind="Non-fatal")), "warn"),
    ("gpu-clocks", smi("HW Thermal Slowdown           : Not Active", "HW Thermal Slowdown : Active"), "fail",
     smi(text=recorded.SMI_H200), "pass"),
    ("gpu-temperature", smi("34 C", "90 C"), "warn", smi("34 C", "87 C"), "pass"),
    ("gpu-nvlink", smi() | {"nvidia_smi_nvlink": A100_LINKS.replace(" 25 GB/s", " <inactive>", 1)}, "fail",
     smi() | {"nvidia_smi_nvlink": A100_LINKS}, "pass"),
    ("gpu-fabric", smi("State                             : Completed", "State : In Progress", recorded.SMI_H200), "fail",
     smi(text=recorded.SMI_H200), "pass"),
    ("gpu-fabric", smi("Status                            : Success", "Status : Insufficient Resources", recorded.SMI_H200), "fail",
     smi(), "skipped"),
    ("gpu-peermem", smi() | RDMA | {"kernel_release": value("5.15.0-91-generic")}, "fail",
     smi() | RDMA | {"kernel_release": value("5.15.0-91-generic")}
     | files(proc={"/proc/driver/nvidia/version": "NVIDIA UNIX Open Kernel Module for x86_64  535.161.08"}), "pass"),
    ("gpu-peermem", smi() | RDMA | {"kernel_release": value("5.4.0-1")}
     | files(proc={"/proc/driver/nvidia/version": "NVIDIA UNIX Open Kernel Module for x86_64  535.161.08"}), "fail",
     smi() | RDMA | {"kernel_release": value("5.4.0-1")} | proc(modules="nvidia_peermem 16384 0 - Live 0x0\n"), "pass"),
    ("gpu-topology", smi() | RDMA | {"nvidia_smi_topo": recorded.TOPO_AZURE}, "warn",
     smi() | RDMA | {"nvidia_smi_topo": recorded.TOPO_H100}, "pass"),
    ("rdma-modules", RDMA | pci() | proc(modules=MODULES), "fail",
     RDMA | pci() | proc(modules=MODULES + "ib_umad 1 0 - Live 0x0\n"), "pass"),
    ("rdma-nodes", RDMA | {"devices": value({"/dev/infiniband/uverbs0": True, "/dev/infiniband/rdma_cm": True})}, "fail",
     RDMA | {"devices": value({f"/dev/infiniband/{name}": True for name in ("uverbs0", "uverbs1", "rdma_cm")})}, "pass"),
    ("rdma-modules", EFA | proc(modules="ib_core 1 0 - Live 0x0\n"), "fail",
     EFA | proc(modules="ib_core 1 0 - Live 0x0\nib_uverbs 1 0 - Live 0x0\n"), "pass"),  # ib_umad is InfiniBand's
    ("rdma-nodes", RDMA | {"devices": value({f"/dev/infiniband/{name}": True for name in ("uverbs0", "uverbs1")})}, "warn",
     EFA | {"devices": value({"/dev/infiniband/uverbs0": True})}, "pass"),  # EFA knows no rdma_cm
    ("rdma-software", SOFT, "warn", ROCE | {"rdma_drivers": value({"mlx5_2": "mlx5_core"})}, "pass"),
    ("rdma-software", SOFT | {"rdma_devices": value(["mlx5_2", "rxe0"]), "rdma_drivers": value({"mlx5_2": "", "rxe0": "rdma_rxe"})}, "warn",
     ROCE | {"rdma_devices": value([])}, "skipped"),
    ("rdma-efa", EFA | {"fi_info": {"status": "failed", "text": "", "error": recorded.rdma("fi_info_nothing.txt")}}, "fail",
     EFA | {"rdma_drivers": value({"rdmap0s29": "efa"}), "fi_info": recorded.rdma("fi_info_efa.txt")}, "pass"),
    ("rdma-efa", EFA | {"rdma_drivers": value({"rdmap16s27": "efa", "rdmap33s27": "efa"}), "fi_info": recorded.rdma("fi_info_efa_older.txt")},
     "fail", EFA | {"rdma_drivers": value({"rdmap16s27": "efa", "rdmap32s27": "efa"}), "fi_info": recorded.rdma("fi_info_efa_older.txt")}, "pass"),
    ("rdma-efa-versions", EFA | files(kernel={EFA_LIST: EFA_OLD}) | {"dpkg": "aws-ofi-nccl 1.9.1 installed"}, "fail",
     EFA | files(kernel={EFA_LIST: EFA_OLD.replace("1.17.0", "1.22.0"), "/sys/module/efa/version": "2.10.0g"})
     | {"dpkg": "aws-ofi-nccl 1.9.1 installed"}, "pass"),
    ("rdma-efa-versions", EFA | files(kernel={EFA_LIST: EFA_OLD}), "warn",
     EFA | files(kernel={EFA_LIST: EFA_OLD}) | {"dpkg": "aws-ofi-nccl 1.7.4 installed"}, "pass"),
    ("rdma-efa-versions", EFA | files(kernel={EFA_LIST: EFA_OLD.replace("1.17.0", "1.22.0")})
     | {"dpkg": "libfabric1-aws 2.1.0amzn5.0 installed"}, "warn",
     EFA | files(kernel={EFA_LIST: EFA_OLD.replace("1.17.0", "2.1.0")}) | {"dpkg": "libfabric1-aws 2.1.0amzn5.0 installed"}, "pass"),
    ("rdma-efa-versions", EFA, "unknown", ROCE | {"rdma_drivers": value({"mlx5_2": "mlx5_core"})}, "skipped"),
    ("rdma-efa", EFA, "warn", ROCE | {"rdma_drivers": value({"mlx5_2": "mlx5_core"})}, "skipped"),
    ("rdma-efa", EFA | {"fi_info": {"status": "timeout", "text": "", "error": "fi_info did not end within 20 s"}}, "unknown", {}, "skipped"),
    ("rdma-counters", grown("retrans_timeout_events", 0, 2), "warn", grown("retrans_pkts", 0, 500), "pass"),
    ("rdma-port", {"ibstat": recorded.rdma("ibstat_soft_roce_cable_out.txt")}, "fail",
     {"ibstat": recorded.rdma("ibstat_soft_roce.txt")}, "pass"),
    ("rdma-port", {"ibstat": recorded.rdma("ibstat_connectx6_beside_connectx4.txt")}, "fail", {"ibstat": recorded.rdma("ibstat_efa.txt")}, "pass"),
    ("rdma-rate", SOFT, "skipped", ROCE | {"rdma_drivers": value({"mlx5_2": "mlx5_core"})}, "pass"),
    ("rdma-port", ib(state="Down", physical="Polling"), "fail", ib(), "pass"),
    ("rdma-port", ib(state="Initializing"), "fail", {}, "skipped"),
    ("rdma-rate", ib(rate=200), "fail", ib(), "pass"),
    ("rdma-rate", ib(rate=100), "fail", ib(state="Down", physical="Polling", rate=10), "pass"),  # a port that is down has no rate
    ("rdma-firmware", RDMA | {"ibstat": UP.replace("28.40.1000", "28.39.1002", 1)}, "warn", RDMA, "pass"),
    ("rdma-firmware", RDMA | {"ibstat": UP + recorded.IBSTAT_ROCE}, "pass", RDMA | {"ibstat": recorded.IBSTAT_RXE}, "skipped"),
    ("rdma-layer", RDMA | {"ibstat": UP + recorded.IBSTAT_ROCE}, "warn", RDMA, "pass"),
    ("rdma-sm", ib(lid=65535, sm=0), "fail", RDMA, "pass"),
    ("rdma-sm", ib(sm=0), "fail", ROCE, "skipped"),
    ("rdma-pkey", RDMA | {"pkeys": value({"mlx5_0/1": ["0x7fff"]})}, "fail", RDMA | {"pkeys": value({"mlx5_0/1": ["0xffff"]})}, "pass"),
    ("rdma-flaps", RDMA | log("[19000.0] mlx5_core 0000:b1:00.0 mlx5_0: Link down\n" * 5), "fail",
     RDMA | log("[19000.0] mlx5_core 0000:b1:00.0 mlx5_0: Link down\n" * 4), "pass"),
    ("rdma-counters", grown("link_downed", 0, 1), "fail", grown("link_downed", 1, 1), "pass"),
    ("rdma-counters", grown("port_rcv_errors", 0, 11), "fail", grown("port_rcv_errors", 0, 10), "pass"),
    ("rdma-counters", grown("symbol_error", 0, 11), "warn", grown("port_xmit_data", 0, 10**9), "pass"),
    ("rdma-counters", grown("link_error_recovery", 3, 3), "warn", grown("port_rcv_errors", 100, 100), "pass"),
    ("roce-gid", ROCE | {"gids": value([[*GID[:3], "fe80:0000:0000:0000:0202:c9ff:fe00:0001", *GID[4:]]])}, "fail",
     ROCE | {"gids": value([GID])}, "pass"),
    ("roce-gid", ROCE | {"gids": value([[*GID[:4], "IB/RoCE v1", "ens1f0"]])}, "fail", RDMA | {"gids": value([GID])}, "skipped"),
    ("roce-mtu", ROCE | files(net={"/sys/class/net/ens1f0/mtu": "1500"}), "warn",
     ROCE | files(net={"/sys/class/net/ens1f0/mtu": "4200"}), "pass"),
    ("roce-mtu", SOFT | files(net={"/sys/class/net/eth1/mtu": "1500"}), "warn", SOFT | files(net={"/sys/class/net/eth1/mtu": "9000"}), "pass"),
    ("roce-pfc", ROCE, "unknown", SOFT, "skipped"),
    ("roce-pfc", qos(enabled="0 0 0 0 0 0 0 0"), "warn", qos(), "pass"),
    ("roce-trust", qos(trust="pcp"), "warn", qos(), "pass"),
    ("roce-ecn", ROCE | files(net={"/sys/class/net/ens1f0/ecn/roce_np/enable/3": "0"}), "warn",
     ROCE | files(net={"/sys/class/net/ens1f0/ecn/roce_np/enable/3": "1", "/sys/class/net/other/ecn/roce_np/enable/3": "0"}), "pass"),
    ("software-python", {"python": PYTHON % "3.10.12"}, "warn", {"python": PYTHON % "3.11.2"}, "pass"),
    ("software-torch", {"python": "no JSON"}, "unknown", {"python": PYTHON % "3.11.2"}, "pass"),
    ("software-rdma", RDMA | {"dpkg": "libibverbs1 44.0-2\n"}, "warn",
     RDMA | {"dpkg": "rdma-core 44.0-2\ninfiniband-diags 44.0-2\n"}, "pass"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_a_check_fires_and_its_near_miss_does_not(
    case: tuple[str, Mapping[str, Any], str, Mapping[str, Any], str],
) -> None:
    name, firing, wanted, missing, other = case
    assert name in {check.name for check in CHECKS}, f"{name}: add its line to CHECKS in raybench/preflight/checks/"
    fired = result(name, host(firing))
    assert fired.verdict == wanted, fired
    if wanted in {"fail", "warn"}:
        assert fired.seen
        assert fired.expected
        assert fired.basis
        assert fired.advice
    assert verdict(name, missing) == other


def test_every_check_has_a_case() -> None:
    informing = {
        "host-kernel",
        "host-mtu",
        "pci-ats",
        "gpu-cuda",
        "rdma-sharp",
        "software-nccl",
        "software-ray",
        "software-raybench",
    }
    without = {check.name for check in CHECKS} - {case[0] for case in CASES} - informing
    without -= {case.check for case in ALARM_CASES}
    assert without == set(), "add a case that fires and a near miss to CASES in tests/preflight/test_checks.py"


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_a_host_that_lacks_what_a_check_reads_is_no_error_of_the_check(check: Check) -> None:
    """Nothing read at all, and everything read and empty: say unknown(...), or skipped(...) where a host may lack it."""
    cases = [one for name, firing, _, missing, _ in CASES if name == check.name for one in (firing, missing)]
    cases += [one for case in ALARM_CASES if case.check == check.name for one in (case.fires, case.near)]
    for readings in ({}, *map(emptied, cases)):
        found = result(check.name, host(readings))
        assert found.verdict != "error", f"{check.judge.__module__}, with {readings}: {found.seen}"


def emptied(readings: Mapping[str, Any]) -> dict[str, Any]:
    """The same readings of a host where they have no content; without those whose form has no empty one."""
    found: dict[str, Any] = {}
    for name, reading in readings.items():
        if isinstance(reading, str) or "text" in reading:
            found[name] = ""
        elif "values" in reading:
            found[name] = reading | {"values": dict.fromkeys(reading["values"], "")}
        elif isinstance(reading.get("value"), list | dict):
            found[name] = value(type(reading["value"])())
    return {name: one for name, one in found.items() if wrong_form(facts({name: one})) == ""}


def test_every_function_that_judges_a_host_is_a_check() -> None:
    """One that was written and has no line in CHECKS would never run."""
    modules = [import_module(found.name) for found in walk_packages(checks.__path__, f"{checks.__name__}.")]
    judges = {
        value
        for module in modules
        for name, value in vars(module).items()
        if isfunction(value) and value.__module__ == module.__name__ and not name.startswith("_")
        if list(get_annotations(value).values()) == [HostView, Judgement]
    }
    left = {f"{one.__module__}.{one.__name__}" for one in judges - {check.judge for check in CHECKS}}
    assert left == set(), "add its line to CHECKS in raybench/preflight/checks/__init__.py"


@pytest.mark.parametrize(
    ("name", "readings", "expectations", "wanted"),
    [
        ("gpu-count", smi(), {"gpu_count": 8}, "fail"),
        ("gpu-count", smi(), {"gpu_count": 2}, "pass"),
        ("gpu-count", {}, {"gpu_count": 8}, "fail"),
        ("gpu-driver", {}, {"gpu_count": 8}, "fail"),
        ("gpu-driver", smi(), {"gpu_driver": "570.133.20"}, "fail"),
        ("gpu-mig", smi(), {"gpu_mig": True}, "fail"),
        ("gpu-xid", log(recorded.DMESG_XID.format(number=79)), {"xid_ignored": [79]}, "pass"),
        ("gpu-nvlink", smi() | {"nvidia_smi_nvlink": A100_LINKS}, {"gpu_types": {"A100": {"nvlinks": 13}}}, "fail"),
        ("rdma-port", {}, {"port_count": 8}, "fail"),
        ("rdma-port", RDMA, {"port_count": 2}, "pass"),
        ("rdma-port", ib(state="Down", physical="Disabled"), {"ports_ignored": ["mlx5_1"]}, "pass"),
        ("rdma-rate", RDMA, {"port_rate_gbits": 800}, "fail"),
        ("rdma-rate", RDMA, {"port_types": {"MT4129": {"rate_gbits": 400}}}, "pass"),
        ("rdma-firmware", RDMA, {"port_types": {"MT4129": {"firmware": "28.41.1000"}}}, "fail"),
        ("rdma-sharp", RDMA | {"sharp": value([])}, {"sharp": True}, "fail"),
        ("roce-pfc", qos(), {"roce_priority": 4}, "fail"),
        ("roce-pfc", qos(), {"roce_priority": 3}, "pass"),
        ("host-kernel", {"kernel_release": value("6.1.0-18")}, {"kernel": "6.1.0-21"}, "fail"),
        ("host-memory", proc(meminfo="MemTotal: 1048576 kB\nMemAvailable: 1048576 kB\n"), {"memory_min_gib": 2}, "fail"),
        ("software-torch", {"python": PYTHON % "3.11.2"}, {"versions": {"torch": "2.13.0"}}, "pass"),
        ("software-torch", {"python": PYTHON % "3.11.2"}, {"versions": {"torch": "2.12.0"}}, "fail"),
        ("software-ray", {"python": PYTHON % "3.11.2"}, {"versions": {"ray": "2.60.0"}}, "fail"),
        ("host-mtu", files(net={"/sys/class/net/eth0/mtu": "1500"}) | {"addresses": value({"eth0": "10.0.0.1"})}, {"mtu": 9000}, "fail"),
        ("host-mtu", files(net={"/sys/class/net/docker0/mtu": "1500", "/sys/class/net/eth0/mtu": "9000"})
         | {"addresses": value({"eth0": "10.0.0.1", "docker0": "172.17.0.1"})}, {"mtu": 9000}, "pass"),
    ],
)  # fmt: skip
def test_what_the_inventory_expects_counts(
    name: str, readings: Mapping[str, Any], expectations: dict[str, Any], wanted: str
) -> None:
    assert verdict(name, readings, **expectations) == wanted


def test_a_host_without_gpu_and_rdma_skips_what_is_about_them() -> None:
    for check in selected(["gpu", "rdma", "roce"]):
        found = result(check.name, host({"rdma_devices": value([]), "ibstat": ""}))
        assert found.verdict in {"skipped", "unknown"}, found


def test_a_check_that_breaks_is_an_error_and_one_that_cannot_read_is_unknown() -> None:
    broken = result("host-memlock", host({"memlock": value("nonsense")}))
    assert broken.verdict == "error"
    assert "raybench" in broken.advice
    unread = result("host-memlock", host({"memlock": {"status": "failed", "error": "no such call"}}))
    assert (unread.verdict, unread.seen) == ("unknown", "no such call")


@pytest.mark.parametrize("names", [["nosuch"], ["gpu", "hots"]])
def test_a_name_that_is_no_check_is_refused(names: list[str]) -> None:
    with pytest.raises(ValueError, match=names[-1]):
        selected(names)


NCCL = '{"python": "3.12.3", "executable": "/usr/bin/python3", "packages": {"nvidia-nccl-cu12": "%s"}}'
TWO_RANKS = 2 * 68_420_268 / GIB


@pytest.mark.parametrize(
    ("version", "total", "free", "wanted"),
    [
        ("2.32.3", 0.0625, 0.0625, "fail"),  # Docker's default
        ("2.32.3", 8, TWO_RANKS * 0.99, "fail"),
        ("2.32.3", 8, TWO_RANKS * 1.01, "pass"),
        ("2.30.7", 0.0625, 0.0625, "pass"),
        ("2.32.10", 0.0625, 0.0625, "fail"),
        ("2.4.8", 0.0625, 0.0625, "pass"),
    ],
)
def test_shared_memory_that_the_hosts_nccl_needs(version: str, total: float, free: float, wanted: str) -> None:
    gpus = {**smi(), "devices": value({"/dev/nvidia0": True})}
    readings = {**gpus, **room(total, free), "python": NCCL % version}
    found = result("host-shm", host(readings, shm_min_gib=0.05))
    assert found.verdict == wanted
    if wanted == "fail":
        assert "131 MiB free: NCCL" in found.expected
        assert "--shm-size" in found.advice
