"""Where a login stops, from recorded output of ``ssh -v`` (OpenSSH 9.2), and noise of a shell around an answer."""

import json

import pytest

from raybench.preflight.login import (
    PYTHON_MARK,
    SHELL_MARK,
    advice_for,
    answer_within,
    flood_reason,
    late_reason,
    login_stage,
    no_answer,
    shown_noise,
    stage_command,
)

CONNECTING = (
    "OpenSSH_9.2p1 Debian-2+deb12u7, OpenSSL 3.0.17 1 Jul 2025\ndebug1: Connecting to 10.88.0.4 [10.88.0.4] port 22.\n"
)
CONNECTED = CONNECTING + "debug1: Connection established.\ndebug1: Local version string SSH-2.0-OpenSSH_9.2p1\n"
BANNER = CONNECTED + "debug1: Remote protocol version 2.0, remote software version OpenSSH_9.2p1 Debian-2+deb12u7\n"
LOGGED_IN = BANNER + 'Authenticated to 10.88.0.4 ([10.88.0.4]:22) using "publickey".\ndebug1: Sending command: echo\n'
BY_PROXY = "debug1: Executing proxy command: exec ssh -W 10.88.0.4:22 bastion\n"


@pytest.mark.parametrize(
    ("errors", "output", "told"),
    [
        (CONNECTING, "", "TCP connection"),
        (CONNECTED, "", "no banner"),
        (BY_PROXY, "", "no banner"),
        (BANNER, "", "authentication does not end"),
        (LOGGED_IN, "", "login shell runs no command"),
        (LOGGED_IN, "Welcome\n", "login shell runs no command"),
        (LOGGED_IN, SHELL_MARK + "\n", "Python does not start"),
        (LOGGED_IN, f"Welcome\n{SHELL_MARK}\n{PYTHON_MARK}\n", "a second login started Python"),
        (LOGGED_IN, "y\n" * 500_000, "prints without an end"),
        (LOGGED_IN, "=" * 5000 + f"\n{SHELL_MARK}\n", "Python does not start"),
    ],
)
def test_the_stage_in_which_a_login_stops(errors: str, output: str, told: str) -> None:
    reason = late_reason(60.0, login_stage(errors, output))
    assert reason.startswith("no answer within 60 s")
    assert told in reason
    assert advice_for(reason) == login_stage(errors, output).advice
    assert advice_for("ssh: connect to host 10.0.0.9 port 22: No route to host") is None


def test_the_second_login_asks_for_nothing_and_shares_no_connection() -> None:
    command = stage_command(["ssh", "-o", "ControlMaster=auto"], "gpu-01", "/opt/python")
    assert command[:4] == ["ssh", "-v", "-o", "ControlMaster=no"]  # of an option that is given twice the first counts
    assert command[-2] == "gpu-01"
    assert command[-1].endswith(f"exec /opt/python -c 'print(\"{PYTHON_MARK}\")'")


ANSWER = json.dumps({"changed": False, "packed": "eJw{}", "address": "10.0.0.1"})


@pytest.mark.parametrize(
    ("before", "after", "noise"),
    [
        ("", "", ""),
        ("", "\r\n", ""),
        ("Welcome to gpu-01\n", "", "Welcome to gpu-01"),
        ("[gpu-01] {hi} ", "", "[gpu-01] {hi}"),
        ('{"motd": 1}\n', "\nbye\n", '{"motd": 1} bye'),
        ("x" * 200 + "\n", "", "x" * 80 + "..."),
    ],
)
def test_an_answer_is_found_within_the_noise_of_a_shell(before: str, after: str, noise: str) -> None:
    assert answer_within(before + ANSWER + after) == (ANSWER, noise)


def test_what_is_no_answer_is_called_what_it_is() -> None:
    assert "cut off after 40 characters" in no_answer("Welcome\n" + ANSWER[:40])
    assert no_answer('{"motd": "hi"}') == 'it printed "{"motd": "hi"}" instead of an answer'
    assert no_answer(" \n") == ""
    assert answer_within('{"packed":' * 50_000) == ("", shown_noise('{"packed":' * 50_000))  # no RecursionError


def test_a_host_that_sends_without_an_end_is_told_by_what_prints() -> None:
    shell = login_stage(LOGGED_IN, "y\n" * 500_000)
    python = login_stage(LOGGED_IN, f"{SHELL_MARK}\n" + "y\n" * 500_000)
    assert "at login the shell prints" in flood_reason(shell)
    assert "what it starts as Python prints" in flood_reason(python)
    assert all(advice_for(flood_reason(stage)) for stage in (shell, python, None))


def test_noise_without_an_answer_is_noise() -> None:
    assert answer_within("sudo: a password is required\n") == ("", "sudo: a password is required")
