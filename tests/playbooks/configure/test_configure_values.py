"""The clock, NCCL's file, tags, and values that cannot be meant."""

from pathlib import Path
from typing import Any

import pytest
from module_utils.raybench_configure.engine import carry_out, roll_back
from module_utils.raybench_configure.errors import RefusedError
from module_utils.raybench_configure.items import chosen
from module_utils.raybench_configure.journal import Journal
from module_utils.raybench_configure.nccl_file import own_lines
from module_utils.raybench_configure.plan import ItemPlan, Setting, fixed
from module_utils.raybench_configure.resources.service import UnitResource

from tests.playbooks.hosts import TreeHost

from .item_hosts import MACHINE, MLNX_QOS, MLX, Units, machine, planned, targets


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
    plan = ItemPlan(settings=[Setting(UnitResource("systemd-timesyncd.service"), fixed(enabled=True))])
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
