"""Limits, /dev/shm and kernel parameters: done where they are wrong, left where they are right."""

from pathlib import Path

import pytest
from module_utils.raybench_configure.engine import carry_out
from module_utils.raybench_configure.errors import RefusedError
from module_utils.raybench_configure.host import Host
from module_utils.raybench_configure.journal import Journal
from module_utils.raybench_configure.limits import login_limit_suffices, manager_limit_suffices
from module_utils.raybench_configure.memory import with_size
from module_utils.raybench_configure.plan import ItemPlan

from .item_hosts import machine, planned, targets

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


def swappiness(host: Host, value: int) -> ItemPlan:
    return planned(host, "system_limits.sysctl", parameters={"vm.swappiness": value})


def test_a_line_that_undoes_ours_is_pointed_out(tmp_path: Path) -> None:
    host = machine(tmp_path, {"/proc/sys/vm/swappiness": "60\n", "/etc/sysctl.conf": "vm.swappiness = 60\n"})
    assert "remove that line" in swappiness(host, 1).advice[0]
    host.put("/etc/sysctl.conf", "vm.swappiness = 1\n")
    assert swappiness(host, 1).advice == []
