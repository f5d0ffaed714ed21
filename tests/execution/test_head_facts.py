"""Joining a cluster from a machine that is none of its nodes: what its head is asked, what is refused in words."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from raybench.errors import ClusterUnavailableError
from raybench.execution.ray_cluster import head_facts as module
from raybench.execution.ray_cluster import visitor
from raybench.execution.ray_cluster.head_facts import HeadFacts, check_versions, head_facts, reason_of, token_problem
from raybench.execution.ray_cluster.visitor import is_member

_ABORT = """[2026-11-22 06:54:17,596 C 766 766] authentication_token_loader.cc:111:  An unexpected system state has \
occurred. You have likely discovered a bug in Ray. Check failed: !result.hasError() RAY_AUTH_TOKEN_PATH is set but \
file cannot be opened or is empty: /x/token
*** StackTrace Information ***
/x/ray/_raylet.so(+0x1812b9a) [0x7f034fc12b9a] ray::operator<<()
/lib/x86_64-linux-gnu/libc.so.6(__libc_start_main+0x85) [0x7f0351845305] __libc_start_main
"""


def test_ray_itself_aborts_without_a_token_and_we_say_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path / "none"))
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    child = subprocess.run(
        [sys.executable, "-m", "raybench.execution.ray_cluster.head_facts", "127.0.0.1:1"],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert child.returncode != 0
    assert "StackTrace" in child.stderr, "Ray has learnt to raise instead: token_problem may go"
    assert reason_of(child.stderr).startswith("RAY_AUTH_TOKEN_PATH is set but file cannot be opened")
    with pytest.raises(ClusterUnavailableError, match=r"its token is missing: RAY_AUTH_TOKEN_PATH names .*none, which"):
        head_facts("127.0.0.1:1")


@pytest.mark.parametrize(
    ("environment", "content", "problem"),
    [
        ({}, None, None),
        ({"RAY_AUTH_MODE": "disabled"}, None, None),
        ({"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "abc"}, None, None),
        ({"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": "{}"}, "abc", None),
        ({"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": "{}"}, " ", "which is empty"),
        ({"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": "{}"}, None, "which cannot be read (No such file"),
        ({"RAY_AUTH_MODE": "Token", "HOME": "/nowhere"}, None, "/nowhere/.ray/auth_token, which cannot be read"),
    ],
)
def test_a_token_is_looked_for_where_ray_looks(
    environment: dict[str, str], content: str | None, problem: str | None, tmp_path: Path
) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_text(content)
    found = token_problem({name: value.format(path) for name, value in environment.items()})
    assert (found is None) if problem is None else (found is not None and problem in found)


def test_a_stack_trace_is_no_reason() -> None:
    assert reason_of(_ABORT) == "RAY_AUTH_TOKEN_PATH is set but file cannot be opened or is empty: /x/token"
    assert (
        reason_of("Traceback (most recent call last):\n  File\nOSError: no route to host\n")
        == "OSError: no route to host"
    )
    assert reason_of("") == "it said nothing"


def test_another_ray_or_python_is_refused_and_a_patch_release_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "version", lambda _: "2.55.1")
    monkeypatch.setattr(module.platform, "python_version", lambda: "3.11.7")
    check_versions(HeadFacts(nodes=(), ray="2.55.1", python="3.11.2"), "h:6379")
    check_versions(HeadFacts(nodes=()), "h:6379")
    with pytest.raises(
        ClusterUnavailableError, match=r"has Ray 2.55.1 .* Ray 2.60.0 .*pip install ray==2.60.0. Or .*ssh h$"
    ):
        check_versions(HeadFacts(nodes=(), ray="2.60.0", python="3.11.7"), "h:6379")
    with pytest.raises(ClusterUnavailableError, match=r"Here: a Python 3\.12 environment"):
        check_versions(HeadFacts(nodes=(), ray="2.55.1", python="3.12.1"), "h:6379")


def test_a_node_is_known_by_its_address_and_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visitor, "interfaces", lambda: {"10.0.0.1": "eth0"})
    monkeypatch.setattr(visitor.socket, "gethostname", lambda: "login")
    assert is_member(HeadFacts(nodes=(("10.0.0.2", "gpu-2"), ("10.0.0.1", "login"))))
    assert is_member(HeadFacts(nodes=(("10.0.0.1", ""),)))
    assert not is_member(HeadFacts(nodes=(("10.0.0.1", "gpu-1"),)))  # a network with the same addresses
    assert not is_member(HeadFacts(nodes=(("10.0.0.2", "login"),)))


def test_what_native_code_writes_to_standard_error_goes_to_a_file(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with visitor._errors_to(tmp_path / "log"):
        os.write(2, b"network_util.cc:330: Failed to determine local IP")
    os.write(2, b"after")
    assert capfd.readouterr().err == "after"
    assert "network_util" in (tmp_path / "log").read_text()


def test_the_process_that_asks_imports_nothing_from_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "json.py").write_text("open('imported', 'w').close()")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    asked: list[list[str]] = []
    run = subprocess.run

    def without_ray(command: list[str], **options: Any) -> "subprocess.CompletedProcess[str]":
        asked.append(command)
        return run([*command[: command.index("-m")], "-c", "import json; json.dumps"], **options)

    monkeypatch.setattr(subprocess, "run", without_ray)
    with contextlib.suppress(ClusterUnavailableError, IndexError):
        head_facts("127.0.0.1:1")
    assert asked
    assert not (tmp_path / "imported").exists()
