"""Names of hosts in brief and back, and hosts that did not answer grouped by why."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raybench.errors import UsageError
from raybench.host_ranges import expanded, folded
from raybench.unreachable import advice_on, brief_reason, reason_lines


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([f"gpu-{number:02}" for number in range(3, 10)], "gpu-[03-09]"),
        ([f"gpu-{number:02}" for number in (8, 9, 10, 12)], "gpu-[08-10,12]"),
        (["n1", "n2", "n3", "n10", "n11", "login"], "n[1-3,10-11], login"),
        ([f"10.0.0.{number}" for number in range(1, 5)], "10.0.0.[1-4]"),
        ([f"gpu-{number}.rack2.example.com" for number in (1, 2, 3)], "gpu-[1-3].rack2.example.com"),
        (["n10", "n08", "n09"], "n[08-10]"),
        (["a1", "a2"], "a1, a2"),
        (["x99", "x100", "x01", "x02"], "x[01-02,99], x100"),
        ([], ""),
    ],
)
def test_names_are_folded(names: list[str], text: str) -> None:
    assert folded(names) == text
    assert sorted(expanded(text)) == sorted(names)


def test_what_is_beyond_the_most_is_counted() -> None:
    assert folded([f"{letter}x" for letter in "abcdef"], 4) == "ax, bx, cx, dx and 2 more"
    assert folded([*(f"n{number}" for number in range(9)), "ax", "bx"], 1) == "n[0-8] and 2 more"


def test_a_name_that_no_inventory_writes_is_shown_as_it_is() -> None:
    assert folded(["n1", "x[2J", "a, b"], 2) == "n1, x[2J and 1 more"


@settings(max_examples=40)
@given(st.lists(st.from_regex(r"[a-z]{0,2}-?[0-9]{0,3}[a-z]?(\.r[0-9])?", fullmatch=True).filter(bool), unique=True))
def test_folding_loses_no_host_and_makes_none_up(names: list[str]) -> None:
    assert sorted(expanded(folded(names).replace(", ", ","))) == sorted(names)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("node[01-03,07],login", ("node01", "node02", "node03", "node07", "login")),
        ("node[1:3]", ("node1", "node2", "node3")),
        ("r[1-2]n[8-9]", ("r1n8", "r1n9", "r2n8", "r2n9")),
        ("a b,a", ("a", "b")),
    ],
)
def test_ranges_of_slurm_pdsh_and_ansible_are_read(text: str, names: tuple[str, ...]) -> None:
    assert expanded(text) == names


@pytest.mark.parametrize("text", ["n[3-1]", "n[1", "n]", "n[]", "n[a-b]", "n[1-999999999]", "n[0-999][0-999]"])
def test_what_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="the hosts '"):
        expanded(text)


def test_hosts_are_grouped_by_reason_whoever_says_it() -> None:
    said = "Failed to connect to the host via ssh: ssh: connect to host 10.0.0.{0} port 22: Connection timed out"
    failures = [(f"gpu-0{number}", said.format(number)) for number in range(3, 10)]
    failures += [
        ("gpu-01", "ssh: connect to host gpu-01 port 22: Connection refused"),
        ("n1", "odd at n1"),
        ("n2", "odd at n2"),
    ]
    assert [line for line in reason_lines(failures) if line[0] != " "] == [
        "7 hosts: connection timed out: gpu-[03-09]",
        "2 hosts: odd at it: n1, n2",
        "1 host: connection refused: no sshd on that port: gpu-01",
    ]
    advice = [line for line in reason_lines(failures) if line[0] == " "]
    assert len(advice) == 2
    assert "nc -vz HOST 22" in advice[0]
    assert advice[1].startswith("  -> on gpu-01: systemctl status sshd")
    assert brief_reason("") == "no reason was given"


@pytest.mark.parametrize(
    ("said", "reason", "typed"),
    [
        ("Task failed: Missing sudo password", "sudo asks for a password", "visudo"),
        ("sudo: a password is required", "sudo asks for a password", "visudo"),
        ("Timeout (12s) waiting for privilege escalation prompt: ", "sudo does not answer", "sudo -n true"),
        ("/bin/sh: 1: sudo: not found", "sudo is not installed there", "install sudo on gpu-1"),
        ("The module interpreter '/opt/py' was not found.", "there is no Python at that path", "ssh gpu-1 'command -v"),
        ("OSError: [Errno 28] No space left on device: '/tmp/x'", "a file system is full there", "df -h"),
        ("root@10.0.0.2: Permission denied (publickey,password).", "ssh login is refused", "ssh-copy-id gpu-1"),
        ("WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!", "its host key has changed", "ssh-keygen -R"),
        ("Connection to 10.0.0.2 closed by remote host.", "the connection was closed before the answer was there",
         "journalctl"),
        ("kex_exchange_identification: Connection closed by remote host", "sshd closed the connection", "MaxStartups"),
        ("no answer within 60 s: hangs\n-> look at .bashrc", "no answer within 60 s: hangs", "look at .bashrc"),
        ("mkdir: '/x': Permission denied", "mkdir: '/x': Permission denied", None),
    ],
)  # fmt: skip
def test_each_reason_is_short_and_says_what_to_type(said: str, reason: str, typed: str | None) -> None:
    assert brief_reason(said, "gpu-1") == reason
    assert typed in advice_on(said, "gpu-1") if typed else not advice_on(said, "gpu-1")
