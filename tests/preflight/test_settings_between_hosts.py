"""Settings in which one host differs from the others: what administrators forget, from recorded readings."""

from collections.abc import Mapping
from typing import Any

import pytest

from raybench.preflight.attributes import attributes_of
from raybench.preflight.between_hosts import identity_results
from raybench.preflight.drift import Difference, differences
from raybench.preflight.nvlink_domains import domain_results

from .hosts import files, host, value

# Debian 12, kernel 6.1; /proc/swaps of a host with a swap file.
CMDLINE = "BOOT_IMAGE=/boot/vmlinuz-6.1.0 root=UUID=0c1f ro console=ttyS0 {more}"
SWAPS = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority"
SWAP_FILE = "\n/swapfile                               file\t\t8388604\t\t0\t\t-2"
RESOLV = "# made by NetworkManager\nsearch cluster.example\nnameserver {server}\n"


def proc(**contents: str) -> dict[str, Any]:
    names = {"ports": "/proc/sys/net/ipv4/ip_local_port_range", "resolv": "/etc/resolv.conf",
             "cmdline": "/proc/cmdline", "swaps": "/proc/swaps", "rmem": "/proc/sys/net/core/rmem_max"}  # fmt: skip
    return files(proc={names[name]: text for name, text in contents.items()})


def routes(gateway: str = "10.0.0.254", interface: str = "eth0", network: str = "10.0.0.0/24") -> dict[str, Any]:
    near = {"interface": interface, "network": network, "gateway": "", "metric": "100"}
    return {"routes": value([near, near | {"network": "0.0.0.0/0", "gateway": gateway}])}


def variables(*rows: list[str]) -> dict[str, Any]:
    return {"variables": value(list(rows))}


def processor(**odd: Any) -> dict[str, Any]:
    usual = {"model": "AMD EPYC 9654 96-Core Processor", "microcode": "0xa101148", "usable": 192, "boost": True}
    return {"processor": value(usual | {"most_khz": 3_707_812} | odd)}


def gpus(power: str = "700.00 W", mode: str = "Default", ecc: str = "Enabled") -> dict[str, Any]:
    """What nvidia-smi -q of driver 550 says of the settings of two GPUs, the second one as asked."""
    one = (
        "GPU 00000000:{address}:00.0\n    Product Name                          : NVIDIA H100 80GB HBM3\n"
        "    Compute Mode                          : {mode}\n    ECC Mode\n"
        "        Current                           : {ecc}\n    GPU Power Readings\n"
        "        Average Power Draw                : {draw} W\n        Current Power Limit               : {power}\n"
    )
    usual = {"power": "700.00 W", "mode": "Default", "ecc": "Enabled"}
    text = one.format(address="1B", draw="71.20", **usual)
    text += one.format(address="43", draw="433.07", power=power, mode=mode, ecc=ecc)
    return {"nvidia_smi": "Driver Version                            : 550.90.07\nAttached GPUs : 2\n" + text,
            "lspci": "0000:1b:00.0 3D controller [0302]: NVIDIA Corporation GH100 [10de:2330] (rev a1)\n"}  # fmt: skip


def found_between(usual: Mapping[str, Any], odd: Mapping[str, Any]) -> list[Difference]:
    """What two hosts with the usual readings and one with others differ in."""
    hosts = {"a": host(usual), "b": host(usual), "odd": host(odd)}
    return list(differences({name: attributes_of(view) for name, view in hosts.items()}, dict.fromkeys(hosts, "")))


@pytest.mark.parametrize(
    ("usual", "odd", "name", "verdict"),
    [
        (variables(), variables(["NCCL_IB_DISABLE", "1", "/etc/nccl.conf"]), "variable NCCL_IB_DISABLE", "fail"),
        (variables(["NCCL_ALGO", "Ring", "/etc/nccl.conf"]), variables(), "variable NCCL_ALGO", "fail"),
        (variables(), variables(["NCCL_DEBUG", "INFO", "/root/.nccl.conf"]), "variable NCCL_DEBUG", "warn"),
        (proc(ports="32768\t60999"), proc(ports="1024\t65535"), "local ports", "warn"),
        (routes(), routes(interface="eth1"), "default route", "warn"),
        (routes(), {"routes": value([])}, "default route", "warn"),
        (routes(), routes(gateway="10.0.0.1"), "gateway of 10.0.0.0/24", "warn"),
        (proc(resolv=RESOLV.format(server="10.0.0.53")), proc(resolv=RESOLV.format(server="8.8.8.8")),
         "name servers", "warn"),
        (proc(cmdline=CMDLINE.format(more="iommu=pt")), proc(cmdline=CMDLINE.format(more="")),
         "kernel parameter iommu", "warn"),
        (proc(cmdline=CMDLINE.format(more="quiet")), proc(cmdline=CMDLINE.format(more="quiet ipv6.disable=1")),
         "kernel parameter ipv6.disable", "warn"),
        (proc(swaps=SWAPS), proc(swaps=SWAPS + SWAP_FILE), "swap", "warn"),
        (proc(rmem="212992"), proc(rmem="16777216"), "rmem_max", "warn"),
        (processor(), processor(usable=8), "CPUs that a login may use", "warn"),
        (processor(), processor(model="AMD EPYC 9554 64-Core Processor"), "CPU", "warn"),
        (processor(), processor(microcode="0xa101111"), "microcode", "warn"),
        (processor(), processor(boost=False), "CPU boost", "warn"),
        (processor(), processor(most_khz=2_400_000), "highest CPU clock allowed", "warn"),
        (gpus(), gpus(power="500.00 W"), "GPU power limit", "warn"),
        (gpus(), gpus(ecc="Disabled"), "GPU ECC", "warn"),
        (gpus(), gpus(mode="Prohibited"), "GPU compute mode", "warn"),
        ({"time_zone": value("Etc/UTC")}, {"time_zone": value("Europe/Berlin")}, "time zone", "warn"),
        ({"mounts": value([["/scratch", "xfs", False, None]])}, {"mounts": value([["/scratch", "xfs", True, None]])},
         "mount /scratch", "warn"),
        ({"memlock": value([-1, -1]), "nofile": value([9, 9]), "nproc": value([-1, -1])},
         {"memlock": value([-1, -1]), "nofile": value([9, 9]), "nproc": value([4096, 4096])}, "nproc", "warn"),
    ],
)  # fmt: skip
def test_the_host_that_differs_is_named(
    usual: Mapping[str, Any], odd: Mapping[str, Any], name: str, verdict: str
) -> None:
    found = {one.attribute: one for one in found_between(usual, odd)}
    assert (found[name].odd, found[name].verdict) == (("odd",), verdict)


@pytest.mark.parametrize(
    ("usual", "odd"),
    [
        (variables(["NCCL_ALGO", "Ring", "/etc/nccl.conf"]), variables(["NCCL_ALGO", "Ring", "/etc/environment"])),
        (variables(["NCCL_ALGO", "Ring", "/etc/nccl.conf"]), {}),  # a host that was not asked
        (
            {"mounts": value([["/", "ext4", False, None]])},  # another disk, on one of them only
            {"mounts": value([["/", "ext4", False, None], ["/iso", "ext4", True, None]])},
        ),
        (proc(ports="32768\t60999"), proc(ports="32768 60999")),
        (routes(), routes(gateway="10.0.1.254", network="10.0.1.0/24")),  # another rack
        (proc(cmdline=CMDLINE.format(more="")), proc(cmdline=CMDLINE.format(more="").replace("0c1f", "77aa"))),
        (proc(resolv=RESOLV.format(server="10.0.0.53")), proc(resolv="nameserver 10.0.0.53\nsearch cluster.example\n")),
        (proc(swaps=SWAPS + SWAP_FILE), proc(swaps=SWAPS + SWAP_FILE.replace("8388604", "4194300"))),
        (processor(), processor(boost=None, most_khz=None)),  # a kernel that sets no frequencies says nothing of them
        (processor(), processor(most_khz=3_707_640)),
        (gpus(), {**gpus(), "nvidia_smi": {"status": "timeout", "text": ""}}),  # gpu-driver tells of that
        ({"nproc": value([514_001, 514_001])}, {"nproc": value([514_090, 514_090])}),  # by the size of memory
    ],
)
def test_what_is_no_difference(usual: Mapping[str, Any], odd: Mapping[str, Any]) -> None:
    assert found_between(usual, odd) == []


def machine(name: str, address: str) -> Any:
    view = host({"addresses": value({"eth0": address, "docker0": "172.17.0.1"}), "default_interface": value("eth0")})
    view.facts = {**view.facts, "hostname": name}
    return view


@pytest.mark.parametrize(
    ("second", "verdict", "told"),
    [
        (("gpu-02", "10.0.0.2"), "pass", "gpu-01"),  # each has the address of Docker's bridge
        (("gpu-01", "10.0.0.2"), "fail", "hostname gpu-01"),
        (("gpu-02", "10.0.0.1"), "warn", "address 10.0.0.1"),
        (("gpu-01", "10.0.0.1"), "warn", "hostname gpu-01"),  # one machine, twice in the inventory
    ],
)
def test_hosts_that_take_themselves_for_each_other(second: tuple[str, str], verdict: str, told: str) -> None:
    results = identity_results({"a": machine("gpu-01", "10.0.0.1"), "b": machine(*second)})
    assert (results["a"].verdict, told in results["a"].seen) == (verdict, True)
    assert (results["b"].verdict == "pass") == (verdict == "pass")
    assert identity_results({"a": machine("gpu-01", "10.0.0.1")})["a"].verdict == "skipped"


def tray(cluster: str, clique: str = "1") -> Any:
    """A host of a rack whose GPUs say that they are in this NVLink domain."""
    text = "\nGPU 00000000:01:00.0\n    Product Name : NVIDIA GB200\n    Fabric\n"
    text += f"        ClusterUUID : {cluster}\n        CliqueId : {clique}\n"
    return host({"nvidia_smi": text, "devices": value({"/dev/nvidia0": True})})


ZERO, RACK_A, RACK_B = "00000000-0000-0000-0000-000000000000", "9c6f5af3-0000-0000-0000-1", "9c6f5af3-0000-0000-0000-2"


@pytest.mark.parametrize(
    ("hosts", "verdicts"),
    [
        ([tray(RACK_A), tray(RACK_A), tray(RACK_B), tray(RACK_B)], ["pass"] * 4),  # two racks
        ([tray(RACK_A), tray(RACK_A), tray(RACK_A, "7")], ["pass", "pass", "fail"]),
        ([tray(RACK_A), tray(RACK_A), tray(ZERO, "0")], ["pass", "pass", "fail"]),
        ([tray(ZERO), tray(ZERO), host({})], ["skipped"] * 3),  # boards whose NVLink ends at the host
        ([tray(RACK_A), tray(RACK_B), tray("9c6f5af3-0000-0000-0000-3")], ["skipped"] * 3),  # one host of each rack
        ([tray(RACK_A), tray(RACK_A), host({})], ["pass", "pass", "skipped"]),
    ],
)
def test_hosts_outside_of_the_nvlink_domain_that_others_share(hosts: list[Any], verdicts: list[str]) -> None:
    results = domain_results({f"n{index}": one for index, one in enumerate(hosts)})
    assert [one.verdict for one in results.values()] == verdicts
