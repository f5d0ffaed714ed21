"""The first contact with hosts by the playbooks: who hangs or is broken is named, and the others are done."""

import json
from pathlib import Path

import pytest
import yaml

from tests.conftest import REPOSITORY
from tests.lab.cluster import Lab
from tests.lab.fixtures import require_lab
from tests.playbooks.local import require_ansible
from tests.playbooks.preflight_lab import lab_inventory, write_inventory

PLAYBOOKS = REPOSITORY / "playbooks"
SUDO = '#!/bin/sh\necho "sudo: a password is required" >&2; exit 1\n'
SHELLS = {2: "sleep 4714", 3: "yes 'Welcome to gpu-3'", 4: "echo '{ not JSON'; echo '{'"}


def contacts_first(path: Path) -> bool:
    """Whether hosts are only asked for something once they have let raybench log in within a limit."""
    plays = yaml.safe_load(path.read_text())
    imported = [play.get("ansible.builtin.import_playbook") or play.get("import_playbook") for play in plays]
    return "contact.yml" in imported


def test_every_playbook_bounds_its_first_contact_with_a_host() -> None:
    own_limit = {
        "preflight.yml",  # its probe is the first contact, bounded by preflight_host_timeout_seconds
        "preflight_probe.yml",
        "fabric.yml",  # the role's first task, since hosts that are missing are in its report
        "collect_logs.yml",  # nothing goes through Ansible; raybench collect bounds each host
        "targets.yml",  # asks no host
        "contact.yml",
    }
    unbounded = {path.name for path in PLAYBOOKS.glob("*.yml") if not contacts_first(path)}
    assert unbounded == own_limit
    measure = yaml.safe_load((PLAYBOOKS / "roles/fabric/tasks/measure.yml").read_text())
    first = next(task for task in measure if {"raybench_probe", "raybench_fabric"} & task.keys())
    assert first["raybench_probe"]["first_contact"]


@pytest.mark.lab
@pytest.mark.timeout(300)
def test_hosts_that_hang_flood_babble_or_want_a_password_are_named_and_the_others_are_done() -> None:
    require_lab()
    require_ansible()
    with Lab(nodes=6) as lab:
        if lab.ssh is None:
            pytest.skip("no sshd on this machine: apt-get install openssh-server")
        good, other, *_ = names = [node.hostname for node in lab.nodes]
        for number, shell in SHELLS.items():
            lab.nodes[number].run(["sh", "-c", "cat >/root/.bashrc"], text_in=shell + "\n", check=True)
        lab.nodes[1].run(
            ["sh", "-c", "cat >/root/.bashrc"], text_in="echo Welcome; sleep 2\n", check=True
        )  # a near miss
        lab.nodes[5].run(["sh", "-c", "cat >/root/sudo; chmod 755 /root/sudo"], text_in=SUDO, check=True)
        settings: dict[str, dict[str, object]] = {
            names[5]: {"ansible_become": True, "ansible_become_exe": "/root/sudo"}
        }
        hosts = write_inventory(lab.folder.path / "hosts.yml", lab_inventory(lab, **settings))
        command = ["python", "-m", "raybench", "configure", "-i", hosts, "--check", "--json", "--tags", "memlock"]
        done = lab.control.run([*command, "--host-timeout", "12"], folder=REPOSITORY, timeout=250)
    assert done.returncode == 3, done.stdout + done.stderr
    rows = {row["name"]: row for row in json.loads(done.stdout)["hosts"]}
    reached = {name for name, row in rows.items() if row["unreachable"] is None}
    assert reached == {good, other}
    assert all([item["verdict"] for item in rows[name]["items"]] == ["changed"] for name in reached)
    said = [rows[name]["unreachable"] for name in names[2:]]
    expected = (
        ("no answer within 12 s: hangs at login: authentication succeeds", "~/.bashrc"),
        ("at login the shell prints without an end, or far more than a greeting", "~/.bashrc"),
        ('prints what breaks Ansible\'s modules: "{ not JSON {"', "[ -t 1 ]"),
        ("Missing sudo password", "visudo"),
    )
    for text, (what, advice) in zip(said, expected, strict=True):
        assert what in text
        assert advice in text.partition("\n-> ")[2]
