"""Processes of ours are ended whichever way they begin: seen at once, or only after the first looks."""

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

from raybench.processes import owned_processes
from raybench.processes.owned_processes import MARK, end_marked

DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); signal.pause()"


@pytest.fixture
def owned() -> Iterator[tuple[str, "subprocess.Popen[bytes]"]]:
    """A mark, and a process that carries it and does not end when it is asked."""
    token = secrets.token_hex(16)
    command = [sys.executable, "-I", "-S", "-c", DEAF]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ | {MARK: token}) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield token, process
        process.kill()


@pytest.mark.parametrize("hidden_looks", [0, 1, 2])
def test_a_process_that_shows_no_environment_at_first_is_ended_too(
    owned: tuple[str, "subprocess.Popen[bytes]"], hidden_looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where it has just been forked, or is between two programs: of two looks alone, the second came too early."""
    token, process = owned
    look, looks = owned_processes._marked, []

    def hidden(wanted: str) -> list[psutil.Process]:
        looks.append(wanted)
        return [] if len(looks) <= hidden_looks else look(wanted)

    monkeypatch.setattr(owned_processes, "_marked", hidden)
    monkeypatch.setattr(owned_processes, "_GRACE_SECONDS", 0.2)
    monkeypatch.setattr(owned_processes, "_QUIET_SECONDS", 0.2)
    assert end_marked(token) == (hidden_looks == 0)
    assert process.poll() is not None, "it is gone by then"


def test_a_process_of_another_command_is_left_alone(owned: tuple[str, "subprocess.Popen[bytes]"]) -> None:
    _, process = owned
    assert end_marked("0" * 32) == 0
    assert process.poll() is None
