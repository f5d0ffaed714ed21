"""Machines for the tests of items: bare ones, and what makes one of them a GPU host."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from module_utils.raybench_configure.host import Host
from module_utils.raybench_configure.items import ITEMS
from module_utils.raybench_configure.plan import ItemPlan

from tests.playbooks.hosts import TreeHost

MACHINE = {
    "/proc/meminfo": "MemTotal:       1048576 kB\n",
    "/proc/self/status": "Name:\tpython3\nCapEff:\t000001ffffffffff\n",
    "/proc/self/mounts": "tmpfs /dev/shm tmpfs rw,nosuid,nodev,size=65536k,inode64 0 0\n",
    "/proc/sys/fs/nr_open": "1048576\n",
    "/proc/sys/kernel/osrelease": "6.8.0-45-generic\n",
    "/etc/os-release": 'ID=ubuntu\nID_LIKE="debian"\n',
    "/etc/fstab": "UUID=1 / ext4 defaults 0 1\n",
    "/run/systemd/system/.keep": "",
}
NVIDIA_OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.124.06  Release Build  (dvs-builder@U16)\n"
NVIDIA_CLOSED = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.90.07  Fri May 31 09:35:42 UTC 2024\n"
MLX = {
    "/sys/bus/pci/devices/0000:18:00.0/vendor": "0x15b3\n",
    "/sys/bus/pci/devices/0000:18:00.0/device": "0x1021\n",
    "/sys/bus/pci/devices/0000:18:00.0/class": "0x020000\n",
    "/sys/class/infiniband/mlx5_0/ports/1/link_layer": "Ethernet\n",
    "/sys/class/infiniband/mlx5_0/device/net/eth2/mtu": "1500\n",
    "/sys/class/net/eth2/mtu": "1500\n",
}
MLNX_QOS = """DCBX mode: OS controlled
Priority trust state: dscp
dscp2prio mapping:
        prio:0 dscp:07,06,05,04,03,02,01,00,
        prio:3 dscp:31,30,29,28,27,26,25,24,
Cable len: 7
PFC configuration:
        priority    0   1   2   3   4   5   6   7
        enabled     0   0   0   1   0   0   0   0
        buffer      0   0   0   1   0   0   0   0
tc: 0 ratelimit: unlimited, tsa: ets, bw: 30%
         priority:  0
"""


class Units:
    """systemctl, emulated: units that are enabled or started stay so."""

    def __init__(self) -> None:
        self.enabled: set[str] = set()
        self.active: set[str] = set()

    def __call__(self, command: tuple[str, ...]) -> str:
        verb, unit = command[1], command[-1]
        kinds = {"enable": self.enabled.add, "disable": self.enabled.discard}
        kinds |= {"start": self.active.add, "stop": self.active.discard}
        if verb in kinds:
            kinds[verb](unit)
        if verb == "is-enabled":
            return "enabled" if unit in self.enabled else "disabled"
        return "active" if unit in self.active else "inactive"


def machine(tmp_path: Path, files: Mapping[str, str] | None = None, **commands: Any) -> TreeHost:
    """A bare machine: the first process namespace, systemd, and commands that find nothing unless given."""
    host = TreeHost(tmp_path, {**MACHINE, **(files or {})}, **{"systemctl": "inactive\n", **commands})
    host.path("/proc/self/ns/pid").symlink_to("pid:[4026531836]")
    return host


def planned(host: Host, item: str, **options: Any) -> ItemPlan:
    return ITEMS[item](host, options)


def targets(plan: ItemPlan) -> list[str]:
    return [setting.resource.target for setting in plan.settings]
