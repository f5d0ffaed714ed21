"""Configuring real hosts over ssh: predicted, made, made again, edited, taken back; one host is dead, one hostile."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab.cluster import Lab
from tests.lab.configured import Report, changes_of, configure, differing, items_of, state, write_inventory
from tests.lab.fixtures import require_lab
from tests.lab.packages import make_repository
from tests.lab.requirement import find_sshd
from tests.playbooks.local import require_ansible

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

USERS_LINES = "# mine\nNCCL_SOCKET_IFNAME=eth0"  # without a line break at its end
INTERFACES = "auto eth0\niface eth0 inet static\n    address 10.88.0.1/16\n\niface eth1 inet manual\n    mtu 1500\n"
HOSTILE = {
    "nccl_config_variables": {"NCCL_DEBUG": "WARN\nLD_PRELOAD=/tmp/evil.so"},
    "network_mtu_interfaces": ["eth0; touch /etc/pwned"],
    "system_limits_parameters": {"net.ipv4.$(touch /etc/pwned)": "1"},
    "system_limits_shared_memory": "64M' $(touch /etc/pwned)",
    "time_sync_servers": ["`touch /etc/pwned`"],
}
SETTINGS: dict[str, Any] = {
    "network_mtu_bytes": 1400,
    "network_mtu_interfaces": ["eth0"],
    "system_limits_parameters": {"net.ipv4.tcp_mtu_probing": 1, "net.ipv4.tcp_retries2": "9", "kernel.not_there": 1},
    "system_limits_shared_memory": "24M",
    "nccl_config_variables": {"NCCL_DEBUG": "WARN", "NCCL_TOPO_FILE": "/a b/$(touch /etc/pwned) 'q' \"r\".xml"},
}
LIVING = ("node1", "node2", "node3")
ORDINARY = ("node1", "node3")


class Story:
    """What the steps below leave for the tests to look at."""

    first: dict[str, Report]
    predicted: tuple[int, Report]
    after_check: dict[str, Report]
    made: tuple[int, Report]
    again: tuple[int, Report]
    before_edits: dict[str, Report]
    undone_check: tuple[int, Report]
    undone: tuple[int, Report]
    last: dict[str, Report]
    lab: Lab


@pytest.fixture(scope="module")
def story() -> Iterator[Story]:
    """One lab, and every run once: node1 is plain, node2 hostile, node3 has the user's files, node4 is dead."""
    require_lab()
    require_ansible()
    if find_sshd() is None:
        pytest.skip("no sshd: apt-get install openssh-server")
    told = Story()
    with Lab(nodes=4) as lab:
        told.lab = lab
        inventory = prepare(lab)
        without_the_dead = (
            "--limit",
            "all:!node4",
        )  # that and every host cost seconds each time
        ordinary = ("--limit", ",".join(ORDINARY))
        told.first = states(lab)
        told.predicted = configure(lab, inventory, "--check", "--diff", *without_the_dead)
        told.after_check = states(lab)
        told.made = configure(lab, inventory)
        told.again = configure(lab, inventory, *ordinary)
        told.before_edits = states(lab)
        edit(lab)
        told.undone_check = configure(lab, inventory, "--rollback", "--check", *ordinary)
        told.undone = configure(lab, inventory, "--rollback", "--remove-packages")
        told.last = states(lab)
        yield told


def states(lab: Lab) -> dict[str, Report]:
    """What the three nodes that live are."""
    return {node.hostname: state(node) for node in lab.nodes[:3]}


def prepare(lab: Lab) -> Path:
    plain, hostile, users, dead = lab.nodes
    plain.run(["mkdir", "-p", "/etc/network"], check=True)
    write(plain, "/etc/network/interfaces", INTERFACES)
    for node in (plain, hostile, users):
        node.run(["mount", "-o", "remount,size=16m", "/dev/shm"], check=True)
    write(users, "/etc/nccl.conf", USERS_LINES)
    users.run(["chmod", "0640", "/etc/nccl.conf"], check=True)
    hosts: dict[str, Any] = {node.hostname: {} for node in lab.nodes}
    hosts[hostile.hostname] = HOSTILE
    if shutil.which("dpkg-deb"):
        make_repository(users, lab.folder.shared)
        hosts[users.hostname] = {"rdma_driver_manage_packages": "always", "rdma_driver_packages": ["raybench-lab-one"]}
    inventory = write_inventory(lab, hosts, SETTINGS)
    dead.kill()
    return inventory


def edit(lab: Lab) -> None:
    users = lab.nodes[2]
    users.run(["sh", "-c", "printf 'NCCL_IB_HCA=mlx5\\n' >> /etc/nccl.conf"], check=True)
    users.run(["sed", "-i", "s/soft memlock unlimited/soft memlock 64/", memlock()], check=True)


def memlock() -> str:
    return "/etc/security/limits.d/99-raybench-memlock.conf"


def write(node: Any, path: str, text: str) -> None:
    node.run(["tee", path], text_in=text, check=True)


def read(node: Any, path: str) -> str:
    done = node.run(["cat", path])
    return str(done.stdout) if done.returncode == 0 else "(none)"


def test_check_mode_changes_nothing_and_says_what_would_be(story: Story) -> None:
    assert story.after_check == story.first
    items = items_of(story.predicted[1], "node1")
    assert {name for name, item in items.items() if item["verdict"] == "changed"} == {
        "system_limits.memlock",
        "system_limits.nofile",
        "system_limits.shared_memory",
        "system_limits.sysctl",
        "network_mtu.mtu",
        "nccl_config.nccl_conf",
    }
    assert "* hard memlock unlimited" in items["system_limits.memlock"]["diff"][0]["after"]


def test_the_real_run_changes_exactly_what_check_mode_said(story: Story) -> None:
    assert changes_of(story.made[1], LIVING) == changes_of(story.predicted[1], LIVING)
    assert any(changes_of(story.made[1], LIVING).values())


def test_a_second_run_changes_nothing(story: Story) -> None:
    assert changes_of(story.again[1], ORDINARY) == {host: [] for host in ORDINARY}
    verdicts = {item["verdict"] for item in items_of(story.again[1], "node1").values()}
    assert verdicts == {"right", "skipped"}


def test_what_was_made_is_in_force(story: Story) -> None:
    made = story.before_edits["node1"]
    assert made["/sys/class/net/eth0/mtu"].strip() == "1400"
    assert made["/proc/sys/net/ipv4/tcp_retries2"].strip() == "9"
    assert made["/dev/shm"] * 4096 == 24 << 20
    assert {path for path in made if "raybench" in path and path.startswith("/etc/")} == {
        memlock(),
        "/etc/security/limits.d/99-raybench-nofile.conf",
        "/etc/sysctl.d/99-zz-raybench-sysctl.conf",
    }
    assert made["/var/lib/raybench/configure"][0] == "0o40700"


def test_items_that_cannot_be_had_in_a_container_are_skipped_with_the_reason(story: Story) -> None:
    items = items_of(story.made[1], "node1")
    for name in (
        "rdma_driver.modules",
        "system_limits.cpu_governor",
        "system_limits.numa_balancing",
        "time_sync.clock",
    ):
        assert items[name]["verdict"] == "skipped"
        assert "container" in items[name]["message"]
    assert "kernel.not_there: not a parameter of this kernel" in items["system_limits.sysctl"]["notes"]


def test_one_dead_host_is_reported_and_the_others_are_configured(story: Story) -> None:
    for code, report in (story.made, story.undone):
        dead = next(host for host in report["hosts"] if host["name"] == "node4")
        assert dead["unreachable"]
        assert code == 3


def test_hostile_values_are_refused_one_by_one_and_the_rest_is_done(story: Story) -> None:
    items = items_of(story.made[1], "node2")
    refused = {"nccl_config.nccl_conf", "network_mtu.mtu", "system_limits.sysctl", "system_limits.shared_memory"}
    assert refused <= {name for name, item in items.items() if item["verdict"] == "failed"}
    assert items["system_limits.memlock"]["verdict"] == "changed"
    assert "give one line of visible characters" in items["nccl_config.nccl_conf"]["message"]
    assert not any("pwned" in path for host in LIVING for path in story.before_edits[host])


def test_what_is_quoted_is_written_as_it_stands(story: Story) -> None:
    made = items_of(story.made[1], "node1")["nccl_config.nccl_conf"]["diff"][0]["after"]
    assert f"NCCL_TOPO_FILE={SETTINGS['nccl_config_variables']['NCCL_TOPO_FILE']}\n" in made


def test_rollback_restores_the_first_state_byte_for_byte(story: Story) -> None:
    for host in ("node1", "node2"):
        assert differing(story.last[host], story.first[host]) == []
    assert differing(story.before_edits["node1"], story.first["node1"]) != []
    verdicts = [item["verdict"] for item in items_of(story.undone[1], "node1").values()]
    assert verdicts == ["changed"]


def test_edits_made_since_survive_rollback(story: Story) -> None:
    users = story.lab.nodes[2]
    assert read(users, "/etc/nccl.conf") == f"{USERS_LINES}\nNCCL_IB_HCA=mlx5\n"
    assert "* soft memlock 64" in read(users, memlock())
    outcome = items_of(story.undone[1], "node3")["rollback"]
    assert outcome["verdict"] == "conflict"
    assert memlock() in outcome["message"]
    allowed = {"/etc/nccl.conf", memlock()}
    left = differing(story.last["node3"], story.first["node3"])
    assert {path for path in left if not path.startswith("/var/lib/raybench")} == allowed


def test_rollback_in_check_mode_says_what_it_would_restore_and_keeps_the_journal(story: Story) -> None:
    changes = items_of(story.undone_check[1], "node1")["rollback"]["changes"]
    assert changes == items_of(story.undone[1], "node1")["rollback"]["changes"]
    assert changes[0]["target"] == "/etc/nccl.conf"


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="no dpkg-deb: packages of Debian cannot be tried here")
def test_packages_are_predicted_with_what_they_bring_and_removed_when_asked(story: Story) -> None:
    brought = items_of(story.predicted[1], "node3")["rdma_driver.packages"]["changes"][0]["how"]
    assert brought == "raybench-lab-one: False -> True, raybench-lab-two: False -> True"
    assert items_of(story.again[1], "node3")["rdma_driver.packages"]["message"] == "all 1 packages are installed"
    assert "packages stay installed" in "".join(items_of(story.undone_check[1], "node3")["rollback"]["notes"])
    assert "/etc/raybench-lab-one" not in story.last["node3"]
    assert "/etc/raybench-lab-one" in story.before_edits["node3"]
