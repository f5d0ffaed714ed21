"""What Ansible is told beside the user's own settings: host keys are checked unless the user has said otherwise."""

from pathlib import Path

import pytest

from raybench.cluster.ansible_setup import ansible_settings


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
