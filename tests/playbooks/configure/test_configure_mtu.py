"""The MTU, kept by whatever sets the interface up, and rails that share a subnet."""

import sys
from pathlib import Path

import pytest
from module_utils.raybench_configure.mtu import NetplanError, netplan_section, with_ifcfg_mtu, with_interfaces_mtu
from module_utils.raybench_configure.rails import sharing

from .item_hosts import MLX, machine, planned, targets

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


@pytest.mark.parametrize(
    "text",
    ["network: {ethernets", "- network", "network: [ethernets]", "\0", "network: {ethernets: {eth2: {match: name}}}"],
)
def test_a_file_that_cannot_be_understood_is_not_taken_for_one_without_the_interface(text: str) -> None:
    with pytest.raises(NetplanError):
        netplan_section(text, "eth2", "")


@pytest.mark.parametrize("text", ["", "# nothing\n", "network:\n", "network: {version: 2}\n", "other: 1\n"])
def test_a_file_of_netplan_that_defines_nothing_is_no_error(text: str) -> None:
    assert netplan_section(text, "eth2", "") is None


def test_without_pyyaml_nobody_says_that_netplan_does_not_set_an_interface_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)  # as on a host whose Python has none: the import fails
    files = {**MLX, "/sys/class/net/eth2/ifindex": "4\n", "/etc/netplan/50.yaml": NETPLAN}
    networkd = {"/run/systemd/netif/links/4": "NETWORK_FILE=/run/systemd/network/10-netplan-eth2.network\n"}
    link = '[{"min_mtu": 68, "max_mtu": 9978}]'
    plan = planned(machine(tmp_path, {**files, **networkd}, ip=link), "network_mtu.mtu", bytes=9000, interfaces=[])
    assert targets(plan) == ["/sys/class/net/eth2/mtu"]
    assert "whether netplan sets it up is not known, /etc/netplan/50.yaml: " in plan.notes[0]
    assert "no PyYAML" in plan.notes[0]


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
