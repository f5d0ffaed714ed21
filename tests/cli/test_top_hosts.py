"""``raybench top HOST...``: what is a host and what a run, and hosts that cannot be read are never shown as fine."""

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from diagnostics.agent.messages import Reading, encode
from raybench.cli.top import command
from raybench.documents.live_hosts import LiveHost, LiveHosts
from raybench.documents.live_run import LiveRemarkLine
from raybench.errors import UsageError
from raybench.hosts import live_agents
from raybench.hosts.ssh import SshError, SshTarget
from raybench.reports.terminal.top_hosts import top_hosts_lines
from raybench.services import top_hosts


def test_a_host_that_cannot_be_reached_stays_with_its_reason_and_the_exit_code_is_3(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    config = tmp_path / "config"
    config.write_text(f"Host gone\n  HostName 127.0.0.1\n  Port {port}\n")
    done = CliRunner().invoke(command, ["gone", "--once", "--ssh-config", str(config)])
    assert done.exit_code == 3
    assert done.output.startswith("1 host, 1 LOST, after ")
    assert f"gone: NOT WATCHED: gone (127.0.0.1:{port}) cannot be reached: " in done.output


@pytest.mark.parametrize("name", ["a;b", "a b", "$(id)", "a@b@c;"])
def test_a_name_that_ssh_could_misunderstand_is_refused(name: str) -> None:
    done = CliRunner().invoke(command, [name, "--once"])
    assert isinstance(done.exception, UsageError)


def test_once_that_is_stopped_before_hosts_were_read_is_not_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def stopped(*_: object, **__: object) -> Iterator[None]:
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr(top_hosts, "watched_hosts", stopped)
    assert CliRunner().invoke(command, ["gpu-01", "--once"]).exit_code == 3
    assert CliRunner().invoke(command, ["gpu-01"]).exit_code == 0


@pytest.mark.parametrize(("age", "status", "said"), [(3600, 1, "has written nothing for 36"), (0, 0, "")])
def test_last_lines_of_a_unit_that_hangs_are_not_taken_for_those_of_now(
    tmp_path: Path, age: int, status: int, said: str
) -> None:
    for name, text in (("systemctl", "exit 0"), ("tail", "shift 3; exec cat $1")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    kept = tmp_path / "samples.jsonl"
    kept.write_text("old\n")
    os.utime(kept, (time.time() - age,) * 2)
    script = live_agents._COMMAND.replace("/var/lib/raybench-agent/samples.jsonl", str(kept))
    done = subprocess.run(
        ["sh", "-c", script], env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (status, "" if status else "old\n")
    assert said in done.stderr


def test_a_folder_is_a_run(tmp_path: Path) -> None:
    done = CliRunner().invoke(command, [str(tmp_path)])
    assert isinstance(done.exception, UsageError)
    assert "no run goes on" in str(done.exception)


def test_hosts_that_are_lost_or_warn_come_first_and_silence_is_said() -> None:
    warned = (LiveRemarkLine(at_seconds=3.0, text="WARNING: b is \x1b[2J hot"),)
    hosts = LiveHosts(
        written_at=0.0,
        elapsed_seconds=12.0,
        hosts=(
            LiveHost(name="a", state="watched", figures={"gpu 0 %": 97.0}),
            LiveHost(name="b", state="watched", figures={"gpu 0 %": 3.0}, warnings=warned),
            LiveHost(name="c", state="lost", reason="no word of it within 20 s"),
            LiveHost(name="d", state="watched", silent_seconds=40.0),
        ),
    )
    lines = top_hosts_lines(hosts)
    assert lines[0] == "4 hosts, 1 LOST, after 12.0 s"
    assert [line.split(":")[0] for line in lines[1:] if not line.startswith(" ")] == ["c", "b", "a", "d"]
    assert "d: NO READINGS for 40.0 s" in lines
    assert not any("\x1b" in line for line in lines)


def test_a_host_that_says_nothing_that_an_agent_says_is_lost_and_its_words_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hosts = top_hosts.WatchedHosts(names=("a", "b"))
    reading = Reading(monotonic_seconds=7.0, source="host", values={"host/cpu/cores": 2})
    hosts.heard("a", f"{encode(reading)}\n".encode())
    hosts.heard("b", b"Last login: Monday\n{}\n\xff\n")
    assert [one.state for one in hosts.state().hosts] == ["watched", "connecting"]
    monkeypatch.setattr(top_hosts, "LIMIT_SECONDS", -1.0)
    first, second = hosts.state().hosts
    assert first.state == "watched"
    assert second.state == "lost"
    assert second.reason.endswith("; what it said is not an agent's: 2 x no JSON, 1 x unknown kind of message")
    hosts.failed("b", "its agent ended")
    assert hosts.state().hosts[1].reason.startswith("its agent ended; what it said is not an agent's: 2 x")


BOOTS = ("5d4f2c1e-0b6a-4a53-9a1c-0d6a1f0c7e11", "a0c1b2d3-1111-4222-8333-944455566677")


@pytest.mark.parametrize(
    ("before", "after", "reboots", "said"),
    [
        (*BOOTS, 1, "CRITICAL: a rebooted (not watched for "),
        (BOOTS[0], BOOTS[0], 0, "it has not rebooted"),
        (BOOTS[0], "", 0, "INFO: a is watched again (not watched for "),  # not known is no reboot, and no "not"
        ("", BOOTS[0], 0, "INFO: a is watched again (not watched for "),
    ],
)
def test_a_host_that_comes_back_has_rebooted_where_its_boot_id_is_another_one(
    before: str, after: str, reboots: int, said: str
) -> None:
    hosts = top_hosts.WatchedHosts(names=("a",))
    reading = f"{encode(Reading(monotonic_seconds=7.0, source='host', values={'host/cpu/cores': 2}))}\n".encode()
    hosts.connected("a", before)
    hosts.heard("a", reading)
    hosts.failed("a", "its agent ended")
    assert hosts.state().hosts[0].state == "lost"
    hosts.connected("a", after)
    assert not hosts.has_spoken("a")  # what was heard before it went says nothing of now
    hosts.heard("a", reading)
    (found,) = hosts.state().hosts
    assert (found.state, found.reboots, hosts.has_warned) == ("watched", reboots, bool(reboots))
    (warning,) = found.warnings
    assert said in warning.text
    assert ("not rebooted" in warning.text) == (before == after)


@pytest.mark.parametrize(("cut", "attempts"), [(True, 3), (False, 1)])
def test_a_host_that_cannot_be_reached_is_tried_again_and_one_that_refuses_the_login_is_not(
    monkeypatch: pytest.MonkeyPatch, cut: bool, attempts: int
) -> None:
    tried: list[str] = []

    @contextmanager
    def refused(target: SshTarget) -> Iterator[None]:
        tried.append(target.name)
        if len(tried) == 3:
            agents._stop.set()
        raise SshError("no", cut=cut)
        yield

    monkeypatch.setattr(live_agents, "connected", refused)
    monkeypatch.setattr(live_agents, "_RETRY_SECONDS", (0.0,))
    hosts = top_hosts.WatchedHosts(names=("a",))
    agents = live_agents.LiveAgents(live_agents.hosts_of(["a"]), hosts)
    agents.start()
    agents._threads[0].join(60)
    assert tried == ["a"] * attempts
    assert hosts.state().hosts[0].reason == "no"
