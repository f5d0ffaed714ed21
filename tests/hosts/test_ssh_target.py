"""How a host of the inventory is reached without Ansible: the words that Ansible hands to ssh are understood."""

import socket
from pathlib import Path

import pytest

from raybench.hosts import ssh
from raybench.hosts.inventory import Host
from raybench.hosts.ssh import SshError, SshTarget, connected, target_of
from raybench.unreachable import brief_reason

pytest.importorskip("paramiko", reason="paramiko is not installed: pip install '.[ansible]'")


def target(tmp_path: Path, arguments: str, config: str = "", **variables: object) -> SshTarget:
    file = tmp_path / "config"
    file.write_text(config)
    known = {"ansible_ssh_common_args": f"-F {file} {arguments}", **variables}
    return target_of(Host(name="gpu-1", address="10.0.0.1", variables=known))


def test_a_proxy_command_is_taken_whole_and_knows_the_host(tmp_path: Path) -> None:
    words = "-o ProxyCommand='ssh -q -W %h:%p bastion'"
    assert target(tmp_path, words).proxy_command == "ssh -q -W 10.0.0.1:22 bastion"
    other = target(tmp_path, words.replace("-q", "-l %r %%"), ansible_port=2222, ansible_user="eve")
    assert other.proxy_command == "ssh -l eve % -W 10.0.0.1:2222 bastion"
    of_file = target(tmp_path, "", "Host 10.0.0.1\n  ProxyCommand ssh -W %h:%p jump\n")
    assert of_file.proxy_command == "ssh -W 10.0.0.1:22 jump"


def test_jump_hosts_and_other_short_options(tmp_path: Path) -> None:
    found = target(tmp_path, "-J eve@bastion:2200,inner -i /keys/a -l bob -p 22022")
    assert [(jump.address, jump.user, jump.port) for jump in found.jumps] == [
        ("bastion", "eve", 2200),
        ("inner", None, 22),
    ]
    assert (found.identity_files, found.user, found.port) == (("/keys/a",), "bob", 22022)
    assert target(tmp_path, "-J bastion", ansible_user="amy", ansible_port=23).user == "amy"


@pytest.mark.parametrize(
    "written", ["UserKnownHostsFile=/a /b", "UserKnownHostsFile /a /b", "UserKnownHostsFile = /a /b"]
)
def test_an_option_is_a_name_and_all_of_the_rest(tmp_path: Path, written: str) -> None:
    assert target(tmp_path, f"-o '{written}'").known_hosts == ("/a", "/b")
    assert target(tmp_path, f"'-o{written}'").known_hosts == ("/a", "/b")


def test_an_sshd_that_stands_still_is_said_to_in_a_line_and_no_stack_trace(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(ssh, "CONNECT_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:
        mute = SshTarget(name="gpu-1", address="127.0.0.1", port=server.getsockname()[1], identities_only=True)
        words = "takes connections, and its sshd says nothing within"
        with pytest.raises(SshError, match=words) as caught, connected(mute):
            pass
    assert caught.value.cut
    assert "Traceback" not in capfd.readouterr().err
    assert brief_reason(str(caught.value)) == "its sshd says nothing"
