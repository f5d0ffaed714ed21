"""What Ansible is told beside the user's own settings, and which of these must not keep raybench from working."""

from pathlib import Path

import pytest

from raybench.hosts.ansible_setup import ansible_settings
from raybench.hosts.inventory import read_inventory
from raybench.hosts.playbook import run_playbook
from tests.playbooks.local import local_inventory, require_ansible


@pytest.mark.parametrize(
    ("text", "checked"),
    [
        ("", "True"),
        ("[defaults]\nforks = 5\n", "True"),
        ("[defaults]\nhost_key_checking = False  ; a lab\n", "False"),
        ("[defaults]\nhost_key_checking = False\n[ssh_connection]\nhost_key_checking = yes\n", "yes"),
        ("[defaults\nno ini file", "True"),
    ],
)
def test_host_keys_are_checked_as_the_users_file_says(
    text: str, checked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ansible.cfg").write_text(text)
    monkeypatch.setenv("ANSIBLE_CONFIG", str(tmp_path / "ansible.cfg"))
    for name in ("ANSIBLE_HOST_KEY_CHECKING", "ANSIBLE_SSH_HOST_KEY_CHECKING"):
        monkeypatch.delenv(name, raising=False)
    assert ansible_settings()["ANSIBLE_HOST_KEY_CHECKING"] == checked
    monkeypatch.setenv("ANSIBLE_SSH_HOST_KEY_CHECKING", "0")
    assert ansible_settings()["ANSIBLE_HOST_KEY_CHECKING"] == "0"


def test_a_locale_that_is_not_there_is_replaced_and_one_that_is_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "xx_YY.UTF-8")
    assert ansible_settings()["LC_ALL"] == "C.UTF-8"
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    assert "LC_ALL" not in ansible_settings()


def test_settings_of_the_user_that_change_what_ansible_prints_do_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_ansible()
    for name, value in (("LC_ALL", "xx_YY.UTF-8"), ("ANSIBLE_VERBOSITY", "3"), ("ANSIBLE_STDOUT_CALLBACK", "json")):
        monkeypatch.setenv(name, value)
    inventory = local_inventory(tmp_path, "n1")
    assert read_inventory(inventory.sources) == inventory
    play = tmp_path / "play.yml"
    play.write_text("- hosts: all\n  gather_facts: false\n  tasks: [{ansible.builtin.ping: {}}]\n")
    outcome = run_playbook(play, inventory=inventory)
    assert outcome.status == "successful", outcome.output_tail
    assert [host.ok for host in outcome.hosts] == [1]
