"""Ports between hosts, on this machine: who listens, who is reached, and that nobody's listener outlives its time."""

import secrets
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from module_utils.raybench_probe import ports

from tests.processes.ports import free_port
from tests.processes.waiting import come_true

_PLAYBOOKS = Path(__file__).resolve().parents[3] / "playbooks"


@pytest.fixture
def own_door(monkeypatch: pytest.MonkeyPatch) -> str:
    """A listener ends the one that an earlier preflight of the same user left: another test's, on this machine."""
    door = f"\0{secrets.token_hex(8)}"
    monkeypatch.setattr(ports, "_DOOR", door)
    return door


def test_a_port_is_listened_to_by_both_protocols() -> None:
    port = free_port()
    listener = ports.listening_socket(port)
    try:
        assert ports.attempt("127.0.0.1", port, 5) == "connected"
        if listener.family == socket.AF_INET6:
            assert ports.attempt("::1", port, 5) == "connected"
    finally:
        listener.close()
    assert ports.attempt("127.0.0.1", port, 5) == "refused"


def test_a_host_is_tried_at_each_of_its_addresses_and_never_at_ours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def attempt(address: str, _port: int, _seconds: float) -> str:
        return {"203.0.113.7": "timed out", "10.0.0.7": "connected", "fd00::7": "connected"}.get(address, "name ?")

    monkeypatch.setattr(ports, "attempt", attempt)
    monkeypatch.setattr(ports, "addresses", lambda: {"eth0": "10.0.2.15"})

    def answer(*host: str) -> str:
        told: str = ports.connect(["gpu-7", *host], 6379, 1)["answer"]
        return told

    assert answer("", "203.0.113.7", "10.0.0.7") == "connected"  # managed at an address that hosts do not reach
    assert answer("203.0.113.7", "10.0.0.7", "10.0.0.7") == "timed out"  # the inventory's word
    assert answer("", "203.0.113.7", "10.0.2.15") == "timed out"  # every host behind this translation is called so
    assert answer("", "", "10.0.2.15").startswith("name ")
    assert answer("", "[fd00::7]", "") == "connected"


@pytest.mark.usefixtures("own_door")
def test_a_listener_ends_when_all_have_called_and_when_the_next_probe_needs_its_ports() -> None:
    port = free_port()
    assert ports.listen([port], 60, 2)["value"] == {str(port): "listening"}
    assert ports.attempt("127.0.0.1", port, 5) == "connected"
    assert ports.listen([port], 60, 1)["value"] == {str(port): "listening"}  # in the place of the first
    assert ports.attempt("127.0.0.1", port, 5) == "connected"
    assert come_true(lambda: ports.attempt("127.0.0.1", port, 5) == "refused")
    assert ports.listen([port], 60, 3)["value"] == {str(port): "listening"}  # a host that is down never calls it
    assert ports.end_listener()
    assert ports.attempt("127.0.0.1", port, 5) == "refused"
    with socket.socket() as other:  # somebody else's
        other.bind(("127.0.0.1", 0))
        taken = other.getsockname()[1]
        other.listen()
        assert ports.listen([taken], 1, 1)["value"] == {str(taken): "in use"}


@pytest.mark.parametrize("answered", [True, False])
def test_a_listener_stays_for_later_callers_only_where_the_probe_has_given_its_answer(
    answered: bool, own_door: str
) -> None:
    port = free_port()
    script = (
        f"import os, sys\nsys.path.insert(0, {str(_PLAYBOOKS)!r})\n"
        f"from module_utils.raybench_probe import ports\nports._DOOR = {own_door!r}\n"
        f"ports.listen([{port}], 60, 2)\nassert ports.is_listening()\n"
        f"ports.answered() if {answered} else os._exit(9)\n"  # the connection that asked was cut, say
    )
    subprocess.run([sys.executable, "-c", script], check=answered, timeout=30)
    if answered:
        time.sleep(1.5)  # longer than one without an answer stays
        assert ports.attempt("127.0.0.1", port, 5) == "connected"
    else:
        assert come_true(lambda: ports.attempt("127.0.0.1", port, 5) == "refused")
    assert ports.attempt("127.0.0.1", port, 5) == ("connected" if answered else "refused")


@pytest.mark.usefixtures("own_door")
def test_a_probe_knows_whether_all_have_called_its_listener() -> None:
    port = free_port()
    ports.listen([port], 60, 1)
    assert ports.is_listening()
    assert ports.attempt("127.0.0.1", port, 5) == "connected"
    assert come_true(lambda: not ports.is_listening())


def test_a_port_that_opens_later_is_reached_while_the_host_is_probed() -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
        host = ["gpu-02", "127.0.0.1", ""]
        early = ports.EarlyAttempts([host], [port], 20)
        never = ports.EarlyAttempts([host, ["gpu-03", "127.0.0.1", ""]], [port, 1], 5.0)
        time.sleep(0.3)
        reserved.listen(8)
        assert [(one["host"], one["port"], one["answer"]) for one in early.finish()] == [("gpu-02", port, "connected")]
        missed = [one for one in never.finish() if one["answer"] != "connected"]
        assert {one["port"] for one in missed} == {1}  # a second look says why
        later = ports.reach([host], [port, 1], 5, early.finish())
        assert [one["answer"] for one in later] == ["refused", "connected"]
    again = ports.reach([host], [port], 5, early.finish())
    assert [one["answer"] for one in again] == ["connected"]  # its listener has ended, and is not tried again
    assert ports.EarlyAttempts([], [], 20).finish() == []


def test_a_try_that_does_not_end_is_told_and_not_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    monkeypatch.setattr(ports, "connect", lambda *_: over.wait(60))  # a resolver that hangs
    monkeypatch.setattr(ports, "_SLACK_SECONDS", 0.05)
    (one,) = ports.reach([["gpu-02", "", "gpu-02.example"]], [6379], 0.05)
    over.set()
    assert (one["host"], one["port"], one["answer"]) == ("gpu-02", 6379, "name not resolved in time")
