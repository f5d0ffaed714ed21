"""What each item plans of a host: done where it is wrong, left where it is right, refused where it cannot be meant."""

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from raybench_configure.engine import carry_out, roll_back
from raybench_configure.errors import RefusedError
from raybench_configure.host import Host
from raybench_configure.items import ITEMS, chosen
from raybench_configure.journal import Journal
from raybench_configure.limits import login_limit_suffices, manager_limit_suffices
from raybench_configure.memory import with_size
from raybench_configure.mtu import netplan_section, with_ifcfg_mtu, with_interfaces_mtu
from raybench_configure.nccl_file import own_lines
from raybench_configure.pci import access_control_offset
from raybench_configure.plan import Plan, Setting, fixed
from raybench_configure.quality import dcb_options, mlnx_qos_options, parse_dcb, parse_mlnx_qos
from raybench_configure.rails import sharing
from raybench_configure.rdma import package_plan, rdma_interfaces
from raybench_configure.service import Transaction, UnitResource, parse_apt, parse_dnf

from .hosts import TreeHost

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


def machine(tmp_path: Path, files: Mapping[str, str] | None = None, **commands: Any) -> TreeHost:
    """A bare machine: the first process namespace, systemd, and commands that find nothing unless given."""
    host = TreeHost(tmp_path, {**MACHINE, **(files or {})}, **{"systemctl": "inactive\n", **commands})
    host.path("/proc/self/ns/pid").symlink_to("pid:[4026531836]")
    return host


def planned(host: Host, item: str, **options: Any) -> Plan:
    return ITEMS[item](host, options)


def targets(plan: Plan) -> list[str]:
    return [setting.resource.target for setting in plan.settings]


# limits

SUFFICIENT = "* soft memlock unlimited\n* hard memlock unlimited\nroot - memlock unlimited\n"


@pytest.mark.parametrize(
    ("text", "right"),
    [
        (SUFFICIENT, True),
        ("* - memlock unlimited\nroot - memlock unlimited # all\n", True),
        ("* - memlock unlimited\n", False),  # not for root
        (SUFFICIENT + "* soft memlock 64\n", False),  # a later line wins
        (SUFFICIENT.replace("* soft", "#* soft"), False),
        (SUFFICIENT.replace("memlock", "nofile"), False),
        ("@users - memlock unlimited\n", False),
    ],
)
def test_login_limits_are_read_as_pam_does(text: str, right: bool) -> None:
    assert login_limit_suffices(text, "memlock", "unlimited") is right


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("[Manager]\nDefaultLimitNOFILE=1048576\n", True),
        ("DefaultLimitNOFILE=1048576:1048576\n", True),
        ("DefaultLimitNOFILE=1M\n", True),
        ("#DefaultLimitNOFILE=1048576\n", False),
        ("DefaultLimitNOFILE=1048576\nDefaultLimitNOFILE=1024\n", False),
        ("DefaultLimitNOFILE=1024:524288\n", False),
        ("", False),
    ],
)
def test_limits_of_services_are_read_as_systemd_does(text: str, right: bool) -> None:
    assert manager_limit_suffices(text, "DefaultLimitNOFILE", "1048576") is right


def test_limits_that_are_right_already_are_left_alone(tmp_path: Path) -> None:
    files = {
        "/etc/security/limits.d/site.conf": SUFFICIENT,
        "/etc/systemd/system.conf": "DefaultLimitMEMLOCK=infinity\n",
    }
    assert planned(machine(tmp_path, files), "system_limits.memlock", limit="unlimited").settings == []
    bare = planned(machine(tmp_path / "b"), "system_limits.memlock", limit="unlimited")
    assert targets(bare) == [
        "/etc/security/limits.d/99-raybench-memlock.conf",
        "/etc/systemd/system.conf.d/99-raybench-memlock.conf",
    ]
    assert bare.reload == [["systemctl", "daemon-reload"]]


def test_more_files_than_the_kernel_allows_are_refused_because_nobody_could_log_in(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="1048576"):
        planned(machine(tmp_path), "system_limits.nofile", limit=1048577)


def test_remove_ipc_is_left_where_logind_has_it_off(tmp_path: Path) -> None:
    assert planned(machine(tmp_path, busctl="b false\n"), "system_limits.remove_ipc").skipped
    assert planned(machine(tmp_path / "b", busctl="b true\n"), "system_limits.remove_ipc").settings


# /dev/shm


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "tmpfs /dev/shm tmpfs rw,nosuid,nodev,size=9k 0 0\n"),
        ("a / ext4 x 0 1", "a / ext4 x 0 1\ntmpfs /dev/shm tmpfs rw,nosuid,nodev,size=9k 0 0\n"),
        (
            "none\t/dev/shm  tmpfs\tmode=1777,size=1g,noexec 0 0\n",
            "none\t/dev/shm  tmpfs\tmode=1777,noexec,size=9k 0 0\n",
        ),
        (
            "#tmpfs /dev/shm tmpfs size=1g 0 0\n",
            "#tmpfs /dev/shm tmpfs size=1g 0 0\ntmpfs /dev/shm tmpfs rw,nosuid,nodev,size=9k 0 0\n",
        ),
    ],
)
def test_fstab_keeps_all_but_the_size(text: str, expected: str) -> None:
    assert with_size(text, "9k") == expected
    assert with_size(expected, "9k") == expected


def test_shared_memory_grows_and_never_shrinks(tmp_path: Path) -> None:
    host = machine(tmp_path, mount="")
    assert targets(planned(host, "system_limits.shared_memory", size="50%")) == ["/etc/fstab", "/dev/shm"]
    assert "enough" in (planned(host, "system_limits.shared_memory", size="16M").skipped or "")
    assert "more than this host" in (planned(host, "system_limits.shared_memory", size="2G").skipped or "")
    host.put("/proc/meminfo", "MemTotal:       353715 kB\n")  # not a whole number of pages
    sized = planned(host, "system_limits.shared_memory", size="70%").settings[1]
    assert sized.wanted({"size": "65536k"}) == {"size": "246784k"}
    host.put("/proc/self/mounts", "tmpfs /dev/shm tmpfs rw,nosuid,nodev 0 0\n")  # the kernel's default: half
    assert "enough" in (planned(host, "system_limits.shared_memory", size="50%").skipped or "")
    host.put("/proc/self/mounts", "/dev/sda1 /dev/shm ext4 rw 0 0\n")
    assert "not a tmpfs" in (planned(host, "system_limits.shared_memory", size="50%").skipped or "")


# kernel parameters


def test_a_parameter_is_set_now_and_for_boots_unless_something_else_sets_it_so(tmp_path: Path) -> None:
    files = {"/proc/sys/vm/swappiness": "10\n", "/etc/sysctl.d/90-site.conf": "vm.swappiness=10\n"}
    host = machine(tmp_path, files)
    assert carry_out(host, Journal(host), "i", swappiness(host, 10), check=True).changes == []
    assert len(carry_out(host, Journal(host), "i", swappiness(host, 1), check=True).changes) == 2
    host.put("/etc/sysctl.d/90-site.conf", "# vm.swappiness=10\n")  # right now, but not after a boot
    assert [each["kind"] for each in carry_out(host, Journal(host), "i", swappiness(host, 10), check=True).changes] == [
        "file"
    ]


def test_a_parameter_that_may_not_be_set_here_is_passed_over_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = machine(tmp_path, {"/proc/sys/net/core/rmem_max": "4096\n", "/proc/sys/vm/swappiness": "60\n"})
    monkeypatch.setattr(host, "may_write", lambda name: "rmem_max" not in name)
    plan = planned(host, "system_limits.sysctl", parameters={"net.core.rmem_max": 8192, "vm.swappiness": 1})
    assert plan.notes == ["net.core.rmem_max: this kernel lets nobody set it here"]
    targets = [each["target"] for each in carry_out(host, Journal(host), "i", plan, check=False).changes]
    assert [target.split("/")[-1] for target in targets] == ["99-zz-raybench-sysctl.conf", "swappiness"]
    alone = planned(host, "system_limits.sysctl", parameters={"net.core.rmem_max": 8192})
    assert alone.skipped == plan.notes[0]


def swappiness(host: Host, value: int) -> Plan:
    return planned(host, "system_limits.sysctl", parameters={"vm.swappiness": value})


def test_a_line_that_undoes_ours_is_pointed_out(tmp_path: Path) -> None:
    host = machine(tmp_path, {"/proc/sys/vm/swappiness": "60\n", "/etc/sysctl.conf": "vm.swappiness = 60\n"})
    assert "remove that line" in swappiness(host, 1).advice[0]
    host.put("/etc/sysctl.conf", "vm.swappiness = 1\n")
    assert swappiness(host, 1).advice == []


# GPU memory


@pytest.mark.parametrize(
    ("version", "kernel", "symbols", "said"),
    [
        (NVIDIA_OPEN, "6.8.0-45-generic", "", "DMA-BUF: nothing to load (open kernel modules 570 on Linux 6.8)"),
        (NVIDIA_OPEN, "5.4.0-200-generic", "", "no peer memory API"),
        (NVIDIA_CLOSED, "6.8.0-45-generic", "", "no peer memory API"),
        (
            NVIDIA_CLOSED,
            "6.8.0-45-generic",
            "0 T ib_register_peer_memory_client\t[ib_uverbs]\n",
            "nvidia-peermem, because",
        ),
        (NVIDIA_CLOSED, "6.8.0-45-generic", "0 T my_ib_register_peer_memory_client2\n", "no peer memory API"),
        ("", "6.8.0", "", "no NVIDIA driver"),
    ],
)
def test_how_gpu_memory_is_reached_is_decided_from_driver_and_kernel(
    tmp_path: Path, version: str, kernel: str, symbols: str, said: str
) -> None:
    files = {**MLX, "/proc/sys/kernel/osrelease": kernel, "/proc/kallsyms": symbols}
    host = machine(tmp_path, files | ({"/proc/driver/nvidia/version": version} if version else {}), modprobe="")
    plan = planned(host, "gpu_peer_memory.peer_memory", method="auto")
    assert said in " ".join([plan.skipped or "", plan.problem or "", *plan.notes])
    assert ("nvidia-peermem" in targets(plan)) is said.startswith("nvidia-peermem")


# RDMA modules and packages


def test_modules_are_those_of_the_hardware_and_listed_only_where_nothing_loads_them(tmp_path: Path) -> None:
    host = machine(tmp_path, {**MLX, "/sys/module/mlx5_core/x": "", "/sys/module/mlx5_ib/x": ""}, modprobe="")
    host.put("/usr/lib/modules-load.d/rdma.conf", "# RDMA\nib_umad\n")
    plan = planned(host, "rdma_driver.modules", extra=["rdma_rxe"])
    assert targets(plan) == ["/etc/modules-load.d/raybench-rdma.conf", "ib_uverbs", "rdma_ucm", "ib_umad", "rdma_rxe"]
    listed = (plan.settings[0].resource.text(plan.settings[0].wanted(None))).splitlines()[1:]
    assert listed == ["ib_uverbs", "rdma_ucm", "rdma_rxe"]


def test_a_machine_without_rdma_gets_no_modules(tmp_path: Path) -> None:
    files = {name: text.replace("0x15b3", "0x8086") for name, text in MLX.items() if "/pci/" in name}
    assert "no RDMA adapter" in (planned(machine(tmp_path, files), "rdma_driver.modules", extra=[]).skipped or "")


def test_a_module_that_the_kernel_lacks_is_advised_on_and_not_listed(tmp_path: Path) -> None:
    def modprobe(command: tuple[str, ...]) -> str:
        if command[-1] == "irdma":
            raise ValueError("FATAL: Module irdma not found")
        return ""

    plan = planned(machine(tmp_path, modprobe=modprobe), "rdma_driver.modules", extra=["irdma"])
    assert "no module irdma" in plan.advice[0]
    assert "irdma" not in targets(plan)


def test_packages_that_would_remove_others_are_not_installed(tmp_path: Path) -> None:
    commands = {
        "dpkg_query": "ii \tbash\n",
        "apt_get": "Remv libfoo [1]\nInst perftest (4.5 Debian:12 [amd64])\n",
    }
    plan = package_plan(machine(tmp_path, **commands), ["perftest"])
    assert plan.problem is not None
    assert "would remove libfoo" in plan.problem
    assert plan.settings == []


DNF = """Last metadata expiration check: 0:00:01 ago.
Dependencies resolved.
================================================================================
 Package              Architecture   Version              Repository       Size
================================================================================
Installing:
 perftest             x86_64         24.07.0-0.44.el9     appstream       361 k
Upgrading:
 libibverbs           x86_64         51.0-1.el9           baseos          436 k
Installing dependencies:
 libibumad            x86_64         51.0-1.el9           baseos           27 k
 pciutils-libs        x86_64         3.7.0-5.el9          baseos           41 k

Transaction Summary
================================================================================
Install  3 Packages
Upgrade  1 Package

Total download size: 865 k
Operation aborted.
"""


def test_what_dnf_would_do_is_read_heading_by_heading() -> None:
    assert parse_dnf(DNF) == Transaction(new=("perftest", "libibumad", "pciutils-libs"), upgraded=("libibverbs",))
    assert parse_dnf(DNF.replace("Upgrading:", "Removing dependent packages:")).removed == ("libibverbs",)
    assert parse_dnf("No match for argument: perftest\nError: Unable to find a match: perftest\n") == Transaction()


def test_an_upgrade_is_not_taken_for_a_new_package(tmp_path: Path) -> None:
    said = "Inst libc6 [2.36-9] (2.36-10 Debian:12 [amd64]) []\nInst perftest (4.5 Debian:12 [amd64])\nConf libc6\n"
    assert parse_apt(said) == Transaction(new=("perftest",), upgraded=("libc6",))
    plan = package_plan(machine(tmp_path, dpkg_query="ii \tlibc6\n", apt_get=said), ["perftest"])
    assert "rollback does not take those back" in plan.notes[0]
    assert plan.settings[0].resource.read(machine(tmp_path / "b", dpkg_query="ii \tlibc6\n")) == {"perftest": False}


# MTU

STATIC = "auto eth2\niface eth2 inet static\n    address 10.0.0.1/24\n\niface eth20 inet manual\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (STATIC, STATIC.replace("static\n", "static\n    mtu 9000\n")),
        (STATIC.replace("10.0.0.1/24\n", "10.0.0.1/24\n  mtu 1500\n"), STATIC.replace("/24\n", "/24\n  mtu 9000\n")),
        ("iface eth2 inet dhcp", "iface eth2 inet dhcp\n    post-up ip link set dev eth2 mtu 9000\n"),
        ("iface eth2 inet6 auto\n", None),
        ("iface eth20 inet static\n    mtu 1500\n", None),
        ("# iface eth2 inet static\n", None),
    ],
)
def test_ifupdown_is_given_the_mtu_in_the_right_stanza(text: str, expected: str | None) -> None:
    assert with_interfaces_mtu(text, "eth2", 9000) == expected
    if expected:
        assert with_interfaces_mtu(expected, "eth2", 9000) == expected


NETPLAN = """network:
  ethernets:
    rail0: {match: {macaddress: "AA:BB:CC:00:00:01"}, set-name: eth2}
    eth3: {dhcp4: true}
    eth5: {match: {driver: mlx5_core}}
"""


@pytest.mark.parametrize(
    ("interface", "address", "expected"),
    [
        ("eth2", "", ("ethernets", "rail0")),
        ("eth9", "aa:bb:cc:00:00:01", ("ethernets", "rail0")),
        ("eth3", "", ("ethernets", "eth3")),
        ("eth4", "", None),
        ("eth5", "", None),  # a name in netplan only: it matches by driver
    ],
)
def test_netplan_knows_an_interface_by_name_or_match(
    interface: str, address: str, expected: tuple[str, str] | None
) -> None:
    assert netplan_section(NETPLAN, interface, address) == expected


def test_mtu_is_kept_by_whatever_sets_the_interface_up(tmp_path: Path) -> None:
    link = '[{"min_mtu": 68, "max_mtu": 9978}]'
    files = {**MLX, "/sys/class/net/eth2/ifindex": "4\n"}
    networkd = {"/run/systemd/netif/links/4": "NETWORK_FILE=/etc/systemd/network/10-rail.network\n"}
    cases: dict[str, tuple[dict[str, str], str]] = {
        "netplan": ({"/etc/netplan/50.yaml": NETPLAN}, "/etc/netplan/99-raybench-eth2.yaml"),
        "ifupdown": ({"/etc/network/interfaces": STATIC}, "/etc/network/interfaces"),
        "networkd": (networkd, "/etc/systemd/network/10-rail.network.d/90-raybench-mtu.conf"),
        "ifcfg": (
            {"/etc/sysconfig/network-scripts/ifcfg-eth2": "ONBOOT=yes"},
            "/etc/sysconfig/network-scripts/ifcfg-eth2",
        ),
    }
    for name, (more, expected) in cases.items():
        plan = planned(
            machine(tmp_path / name, {**files, **more}, ip=link), "network_mtu.mtu", bytes=9000, interfaces=[]
        )
        assert targets(plan) == [expected, "/sys/class/net/eth2/mtu"], name
    managed = machine(tmp_path / "nm", files, ip=link, nmcli="GENERAL.STATE:100 (connected)\n")
    assert targets(planned(managed, "network_mtu.mtu", bytes=9000, interfaces=[]))[0].startswith("/etc/NetworkManager")
    alone = planned(machine(tmp_path / "none", files, ip=link), "network_mtu.mtu", bytes=9000, interfaces=[])
    assert targets(alone) == ["/sys/class/net/eth2/mtu"]
    assert "until the next boot" in alone.notes[0]


def test_a_file_of_networkd_that_is_for_other_interfaces_too_is_left_alone(tmp_path: Path) -> None:
    link = "NETWORK_FILE=/run/systemd/network/10-netplan-all.network\n"
    files = {"/run/systemd/netif/links/3": link, "/run/systemd/netif/links/4": link}
    for name, index in (("ens1f0", "3"), ("eno1", "4")):
        files |= {f"/sys/class/net/{name}/ifindex": index, f"/sys/class/net/{name}/mtu": "1500"}
    host = machine(tmp_path, files)
    plan = planned(host, "network_mtu.mtu", bytes=9000, interfaces=["ens1f0"])
    assert [setting.resource.target for setting in plan.settings] == ["/sys/class/net/ens1f0/mtu"]
    assert "10-netplan-all.network sets up eno1 too" in plan.notes[0]
    both = planned(host, "network_mtu.mtu", bytes=9000, interfaces=["ens1f0", "eno1"])
    assert both.settings[0].resource.target == "/etc/systemd/network/10-netplan-all.network.d/90-raybench-mtu.conf"
    assert both.notes == []


def test_an_mtu_beyond_the_driver_is_refused_and_zero_changes_nothing(tmp_path: Path) -> None:
    host = machine(tmp_path, MLX, ip='[{"min_mtu": 68, "max_mtu": 9978}]')
    assert "from 68 to 9978" in (planned(host, "network_mtu.mtu", bytes=9979, interfaces=["eth2"]).problem or "")
    assert planned(host, "network_mtu.mtu", bytes=0, interfaces=["eth2"]).settings == []


def test_ifcfg_is_given_the_mtu_in_its_place() -> None:
    assert with_ifcfg_mtu("A=1\nMTU=1500\nB=2\n", 9000) == "A=1\nMTU=9000\nB=2\n"
    assert with_ifcfg_mtu("A=1\n# MTU=1500", 9000) == "A=1\n# MTU=1500\nMTU=9000\n"


def test_rails_are_kept_apart_only_where_they_share_a_subnet() -> None:
    assert sharing({"a": ["10.0.0.0/24"], "b": ["10.0.0.0/24"], "c": ["10.0.1.0/24"]}) == ["a", "b"]
    assert sharing({"a": ["10.0.0.0/24"], "b": ["10.0.1.0/24"], "c": []}) == []


# RoCE

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


def test_mlnx_qos_is_read(tmp_path: Path) -> None:
    state = parse_mlnx_qos(MLNX_QOS) or {}
    assert (state["trust"], state["pfc"], state["dscp 26"]) == ("dscp", [0, 0, 0, 1, 0, 0, 0, 0], 3)
    trusting_pcp = parse_mlnx_qos("Priority trust state: pcp\nPFC configuration:\n\tenabled 0 0 0 0 0 0 0 0\n")
    assert trusting_pcp == {"trust": "pcp", "pfc": [0] * 8}
    assert parse_mlnx_qos(MLNX_QOS.replace("enabled ", "nothing ")) is None
    assert parse_mlnx_qos("interface eth2 is not found") is None


def test_only_what_differs_is_set_and_trust_comes_first() -> None:
    now = {"trust": "pcp", "pfc": [0] * 8}
    wanted = {"trust": "dscp", "pfc": [0, 0, 0, 1, 0, 0, 0, 0], "dscp 26": 3}
    calls = [["--trust", "dscp"], ["--dscp2prio", "set,26,3"], ["--pfc", "0,0,0,1,0,0,0,0"]]
    assert mlnx_qos_options(now, wanted) == calls
    assert mlnx_qos_options(parse_mlnx_qos(MLNX_QOS) or {}, wanted) == []
    assert mlnx_qos_options(wanted, now)[-1] == ["--trust", "pcp"]
    assert dcb_options({**wanted, "dscp 26": 5}, wanted) == [
        ["app", "del", "dscp-prio", "26:5"],
        ["app", "add", "dscp-prio", "26:3"],
    ]


@pytest.mark.parametrize("hyphen", ["_", "-"])
def test_dcb_is_read_in_either_spelling(hyphen: str) -> None:
    flow = f'{{"pfc-cap":8,"prio{hyphen}pfc":[false,false,false,true,false,false,false,false]}}'
    state = parse_dcb(flow, f'{{"dscp{hyphen}prio":[[26,3]]}}')
    assert state == {"trust": "dscp", "pfc": [0, 0, 0, 1, 0, 0, 0, 0], "dscp 26": 3}
    assert parse_dcb(flow, "{}") == {"trust": "pcp", "pfc": [0, 0, 0, 1, 0, 0, 0, 0]}
    assert parse_dcb('{"prio_pfc":[true]}', "{}") is None
    assert parse_dcb("Error", "") is None


class Port:
    """A port behind an emulated mlnx_qos, which prints as the real tool does and keeps what it is told."""

    def __init__(self) -> None:
        self.trust, self.flow, self.mapping = "pcp", "0,0,0,0,0,0,0,0", {n: n // 8 for n in range(64)}

    def __call__(self, command: tuple[str, ...]) -> str:
        options = command[3:]
        if options[:1] == ("--trust",):
            self.trust = options[1]
        if options[:1] == ("--pfc",):
            self.flow = options[1]
        if options[:1] == ("--dscp2prio",):
            _, point, priority = options[1].split(",")
            self.mapping[int(point)] = int(priority)
        rows = [
            f"\tprio:{p} dscp:" + "".join(f"{n:02d}," for n, its in self.mapping.items() if its == p) for p in range(8)
        ]
        shown = "dscp2prio mapping:\n" + "\n".join(rows) + "\n" if self.trust == "dscp" else ""
        return (
            f"DCBX mode: OS controlled\nPriority trust state: {self.trust}\n{shown}PFC configuration:\n"
            f"\tpriority 0 1 2 3 4 5 6 7\n\tenabled {' '.join(self.flow.split(','))}\n"
        )


def test_priorities_of_an_emulated_port_are_set_once_and_taken_back(tmp_path: Path) -> None:
    port = Port()
    port.mapping[26] = 5
    ecn = "/sys/class/net/eth2/ecn/roce_np/enable/3"
    units = Units()
    host = machine(tmp_path, {**MLX, ecn: "0\n"}, mlnx_qos=port, systemctl=units)
    options = {"apply": True, "interfaces": [], "dscp": 26, "priority": 3, "tool": "auto"}
    made = carry_out(host, Journal(host), "q", planned(host, "roce_qos.priorities", **options), check=False)
    assert made.problem is None
    assert (port.trust, port.flow, port.mapping[26]) == ("dscp", "0,0,0,1,0,0,0,0", 3)
    assert host.word(ecn) == "1"
    unit = host.text("/etc/systemd/system/raybench-roce-qos.service") or ""
    assert "ExecStart=/usr/sbin/mlnx_qos -i eth2 --trust dscp\n" in unit
    again = carry_out(host, Journal(host), "q", planned(host, "roce_qos.priorities", **options), check=False)
    assert again.changes == []
    units.active.add("raybench-roce-qos.service")  # as after a boot
    done = roll_back(host, Journal(host), [], packages=False, check=False)
    assert (done.problem, done.conflicts) == (None, [])
    assert units.active == units.enabled == set()
    assert (port.trust, port.flow, host.word(ecn)) == ("pcp", "0,0,0,0,0,0,0,0", "0")
    assert not host.exists("/etc/systemd/system/raybench-roce-qos.service")


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


def test_priorities_wait_for_the_switches(tmp_path: Path) -> None:
    options = {"apply": False, "interfaces": [], "dscp": 26, "priority": 3, "tool": "auto"}
    plan = planned(machine(tmp_path, MLX, mlnx_qos=MLNX_QOS), "roce_qos.priorities", **options)
    assert plan.settings == []
    assert "switches" in (plan.skipped or "")


def test_a_tool_that_does_not_answer_sets_nothing(tmp_path: Path) -> None:
    options = {"apply": True, "interfaces": [], "dscp": 26, "priority": 3, "tool": "auto"}
    plan = planned(machine(tmp_path, MLX, mlnx_qos="No such device\n"), "roce_qos.priorities", **options)
    assert "none was set" in (plan.problem or "")


# PCI


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


# clock, NCCL's file, values


def test_a_clock_that_is_kept_is_left_alone(tmp_path: Path) -> None:
    def systemctl(command: tuple[str, ...]) -> str:
        return "active" if command[-1] == "systemd-timesyncd" else "inactive"

    plan = planned(machine(tmp_path, systemctl=systemctl), "time_sync.clock", servers=[])
    assert plan.skipped == "systemd-timesyncd keeps the clock already"


def test_a_daemon_that_is_installed_is_started_before_another_is_installed(tmp_path: Path) -> None:
    units = Units()
    host = machine(tmp_path, systemctl=units)
    plan = planned(host, "time_sync.clock", servers=[])
    assert targets(plan) == ["systemd-timesyncd.service"]
    carry_out(host, Journal(host), "c", plan, check=False)
    assert units.active == units.enabled == {"systemd-timesyncd.service"}
    roll_back(host, Journal(host), [], packages=False, check=False)
    assert units.active == units.enabled == set()


def test_what_was_never_ours_is_no_conflict(tmp_path: Path) -> None:
    units = Units()
    units.active.add("systemd-timesyncd.service")
    host = machine(tmp_path, systemctl=units)
    plan = Plan(settings=[Setting(UnitResource("systemd-timesyncd.service"), fixed(enabled=True))])
    carry_out(host, Journal(host), "c", plan, check=False)
    units.active.clear()  # somebody stopped it, which raybench had not started
    done = roll_back(host, Journal(host), [], packages=False, check=False)
    assert (done.conflicts, units.enabled, units.active) == ([], set(), set())


def test_time_servers_are_added_to_chrony_beside_those_there(tmp_path: Path) -> None:
    units = Units()
    units.active, units.enabled = {"chrony", "chrony.service"}, {"chrony.service"}
    host = machine(tmp_path, {"/etc/chrony/chrony.conf": "pool site iburst\n"}, systemctl=units)
    plan = planned(host, "time_sync.clock", servers=["10.0.0.5"])
    assert plan.reload == [["systemctl", "restart", "chrony.service"]]
    assert [each["target"] for each in carry_out(host, Journal(host), "c", plan, check=False).changes] == [
        "/etc/chrony/chrony.conf"
    ]
    assert "pool site iburst\n# BEGIN raybench time_sync\nserver 10.0.0.5 iburst\n" in (
        host.text("/etc/chrony/chrony.conf") or ""
    )
    assert planned(host, "time_sync.clock", servers=["10.0.0.5"]).reload == []


KEY = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmQINBF\n-----END PGP PUBLIC KEY BLOCK-----\n"


def test_the_repository_of_doca_is_signed_and_its_package_waits_for_it(tmp_path: Path) -> None:
    host = machine(tmp_path, MLX, apt_get="", dpkg_query="ii \tbash\n")
    url = "https://example.org/doca/ubuntu24.04/x86_64/"
    plan = planned(host, "rdma_driver.repository", url=url, key=KEY)
    assert targets(plan) == ["/etc/apt/keyrings/raybench-doca.asc", "/etc/apt/sources.list.d/raybench-doca.list"]
    options = {"packages": ["bash"], "manage": "auto", "doca_repository": url}
    assert "once its repository is set up" in (planned(host, "rdma_driver.packages", **options).skipped or "")
    carry_out(host, Journal(host), "r", plan, check=False)
    line = (host.text("/etc/apt/sources.list.d/raybench-doca.list") or "").splitlines()[1]
    assert line == f"deb [signed-by=/etc/apt/keyrings/raybench-doca.asc] {url} ./"
    assert "doca-ofed cannot be installed" in (planned(host, "rdma_driver.packages", **options).problem or "")


def test_lines_of_the_user_in_nccl_conf_stay_and_win(tmp_path: Path) -> None:
    host = machine(tmp_path, {"/etc/nccl.conf": "NCCL_IB_TC=0\n#NCCL_DEBUG=INFO\n"})
    plan = planned(host, "nccl_config.nccl_conf", variables={"NCCL_IB_TC": 106, "NCCL_DEBUG": "WARN"})
    assert "NCCL_IB_TC=0 stands in /etc/nccl.conf already" in plan.notes[0]
    carry_out(host, Journal(host), "n", plan, check=False)
    text = host.text("/etc/nccl.conf") or ""
    assert text.startswith("NCCL_IB_TC=0\n#NCCL_DEBUG=INFO\n# BEGIN raybench nccl_config\nNCCL_DEBUG=WARN\n")
    assert own_lines(text) == {"NCCL_IB_TC": "0"}
    emptied = planned(host, "nccl_config.nccl_conf", variables={})
    carry_out(host, Journal(host), "n", emptied, check=False)
    assert host.text("/etc/nccl.conf") == "NCCL_IB_TC=0\n#NCCL_DEBUG=INFO\n"


@pytest.mark.parametrize(
    ("item", "options"),
    [
        ("system_limits.memlock", {"limit": "unlimited\n* - nofile 1"}),
        ("system_limits.nofile", {"limit": "1024; reboot"}),
        ("system_limits.shared_memory", {"size": "1G,exec"}),
        ("system_limits.cpu_governor", {"governor": "performance'; reboot; '"}),
        ("system_limits.sysctl", {"parameters": {"vm.swappiness\n": 1}}),
        ("system_limits.sysctl", {"parameters": {"../../etc/passwd": 1}}),
        ("system_limits.sysctl", {"parameters": {"vm.swappiness": "1\nkernel.core_pattern=|/tmp/x"}}),
        ("system_limits.sysctl", {"parameters": ["vm.swappiness=1"]}),
        ("network_mtu.mtu", {"bytes": 9000, "interfaces": ["../../../etc"]}),
        ("network_mtu.mtu", {"bytes": "9000 ", "interfaces": []}),
        ("network_mtu.mtu", {"bytes": 9000, "interfaces": "eth2"}),
        ("roce_qos.priorities", {"apply": True, "interfaces": ["-i"], "dscp": 26, "priority": 3, "tool": "auto"}),
        ("roce_qos.priorities", {"apply": True, "interfaces": [], "dscp": 64, "priority": 3, "tool": "auto"}),
        ("roce_qos.priorities", {"apply": True, "interfaces": [], "dscp": 26, "priority": 3, "tool": "sh"}),
        ("roce_qos.marks", {"apply": True, "devices": ["mlx5_0/../.."], "dscp": 26}),
        ("rdma_driver.modules", {"extra": ["-r"]}),
        ("rdma_driver.modules", {"extra": ["a b"]}),
        ("rdma_driver.packages", {"packages": ["--allow-downgrades"], "manage": "always"}),
        ("rdma_driver.repository", {"url": "https://x/ ./\ndeb https://evil/ ./", "key": ""}),
        ("rdma_driver.repository", {"url": "https://x/", "key": "not a key"}),
        ("gpu_peer_memory.peer_memory", {"method": "always"}),
        ("time_sync.clock", {"servers": ["a iburst\nallow all"]}),
        ("nccl_config.nccl_conf", {"variables": {"NCCL_X": "a\nNCCL_Y=b"}}),
        ("nccl_config.nccl_conf", {"variables": {"LD_PRELOAD": "x"}}),
        ("nccl_config.nccl_conf", {"variables": {"NCCL_X": "\x1b[31m"}}),
        ("nccl_config.nccl_conf", {"variables": {"NCCL_X": ["a"]}}),
    ],
)
def test_a_hostile_value_is_refused_and_nothing_is_run(tmp_path: Path, item: str, options: dict[str, Any]) -> None:
    host = machine(tmp_path, MLX, mlnx_qos=MLNX_QOS, modprobe="", dpkg_query="ii \tbash\n")
    with pytest.raises(RefusedError):
        planned(host, item, **options)
    assert host.ran == []


@pytest.mark.parametrize(
    ("only", "skip", "expected"),
    [
        (["all"], [], ["a", "b"]),
        (["b"], [], ["b"]),
        (["role"], ["a"], ["b"]),
        (["their-own-tag"], [], ["a", "b"]),
        (["a"], ["a"], []),
    ],
)
def test_tags_choose_items(only: list[str], skip: list[str], expected: list[str]) -> None:
    assert chosen(["a", "b"], only, skip) == expected


def test_containers_are_told_from_machines(tmp_path: Path) -> None:
    assert machine(tmp_path).container() is None
    marked = machine(tmp_path / "b", {"/run/.containerenv": ""})
    assert "/run/.containerenv" in (marked.container() or "")
    named = machine(tmp_path / "c", {"/proc/1/environ": "PATH=/bin\0container=lxc\0"})
    assert named.container() == "in a container (lxc)"
    inner = TreeHost(tmp_path / "d", MACHINE)
    inner.path("/proc/self/ns/pid").symlink_to("pid:[4026532000]")
    assert "namespace" in (inner.container() or "")


@pytest.mark.parametrize(
    ("text", "family"),
    [
        ('ID=ubuntu\nID_LIKE="debian"\n', "debian"),
        ('ID="rocky"\nID_LIKE="rhel centos fedora"\n', "rhel"),
        ("ID=alpine\n", "alpine"),
        ("", "unknown"),
    ],
)
def test_distributions_are_told_apart(tmp_path: Path, text: str, family: str) -> None:
    assert machine(tmp_path, {"/etc/os-release": text}).family() == family
