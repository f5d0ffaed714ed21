"""Where a login stops, from the TCP connection to the host's Python, read off what ``ssh -v`` says."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

SHELL_MARK, PYTHON_MARK = "raybench-shell-answers", "raybench-python-answers"
_ANSWER = re.compile(r'\{\s*"')
_BEGINNING = re.compile(r'\{\s*"(\w+)":')
_ANSWER_KEYS = frozenset({"packed", "reached", "facts", "failed", "msg", "ping"})
_MOST_CHARACTERS = 80
_MOST_READ = 10_000
_MOST_FAILURES = 500  # beginnings of JSON that is none, each of which may be read to the end of all that came
_MOST_GREETING = 100_000  # characters; a long message of the day has a few thousand


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginStage:
    """How far a login came: ``hangs`` says what does not answer, ``advice`` where to look."""

    hangs: str
    advice: str


_TCP = LoginStage(
    hangs="hangs at login: the TCP connection to sshd is not answered",
    advice="check that the host is up, its address and port in the inventory, and firewalls on the way",
)
_BANNER = LoginStage(
    hangs="hangs at login: TCP connects, but sshd sends no banner",
    advice="sshd or the whole host hangs (out of memory, stopped), or sshd is at its MaxStartups; look at its console",
)
_AUTHENTICATION = LoginStage(
    hangs="hangs at login: sshd answers, but authentication does not end",
    advice="look at what sshd asks: UseDNS, LDAP or SSSD, PAM, and keys in a home directory whose file server is gone",
)
_SHELL = LoginStage(
    hangs="hangs at login: authentication succeeds, but the login shell runs no command",
    advice="look at ~/.bashrc, ~/.ssh/rc and /etc/profile.d, at PAM's session modules, and at the home directory's "
    "file server",
)
_PYTHON = LoginStage(
    hangs="hangs after login: the shell answers, but Python does not start",
    advice="run ansible_python_interpreter by hand; it, or a folder on its path, may lie on a file system that does "
    "not answer",
)
_FLOOD = LoginStage(
    hangs="at login the shell prints without an end, or far more than a greeting, on standard output",
    advice="look at ~/.bashrc, ~/.ssh/rc and /etc/profile.d; print only where there is a terminal: [ -t 1 ] && ...",
)
_ALL = LoginStage(
    hangs="a second login started Python, so the login is slow or the probe hangs",
    advice="time ssh HOST true; raise preflight_host_timeout_seconds, or lower preflight_timeout_seconds to see in "
    "host-probe what hangs",
)
_PYTHON_FLOOD = LoginStage(
    hangs="what it starts as Python prints without an end",
    advice="run ansible_python_interpreter --version by hand: is it a Python?",
)
_NOISE = LoginStage(
    hangs="at login the shell prints what breaks Ansible's modules",
    advice="in ~/.bashrc and /etc/profile.d, print only where there is a terminal: [ -t 1 ] && ...",
)
_STAGES = (_TCP, _BANNER, _AUTHENTICATION, _SHELL, _PYTHON, _FLOOD, _PYTHON_FLOOD, _NOISE, _ALL)


def login_stage(errors: str, output: str) -> LoginStage:
    """The stage in which a login stopped.

    ``errors`` are the standard error of ``ssh -v``, ``output`` what its command printed: the shell's mark, then
    Python's. Of OpenSSH 9.2:
    ``debug1: Connection established.``, ``debug1: Remote protocol version 2.0, remote software version
    OpenSSH_9.2p1``, ``Authenticated to 10.0.0.2 ([10.0.0.2]:22) using "publickey".``
    """
    if len(output.partition(SHELL_MARK)[0]) > _MOST_GREETING:
        return _FLOOD
    if PYTHON_MARK in output:
        return _ALL
    if SHELL_MARK in output:
        return _PYTHON
    if "Authenticated to " in errors or "Authentication succeeded" in errors:
        return _SHELL
    if "Remote protocol version" in errors:
        return _AUTHENTICATION
    by_proxy = "Executing proxy command" in errors or "proxy dialog" in errors
    return _BANNER if "Connection established" in errors or by_proxy else _TCP


def answer_within(output: str) -> tuple[str, str]:
    """The module's answer in what came back over standard output, and the noise around it; both may be empty.

    A shell's start-up files that print something put it before the answer, on its line or on lines of their own.
    """
    place, failures = 0, 0
    while failures < _MOST_FAILURES and (match := _ANSWER.search(output, place)):
        try:
            answer, end = json.JSONDecoder().raw_decode(output, match.start())
        except (ValueError, RecursionError):
            place, failures = match.end(), failures + 1
            continue
        if isinstance(answer, dict) and _ANSWER_KEYS & answer.keys():
            return output[match.start() : end], shown_noise(output[: match.start()] + output[end:])
        place = end
    return "", shown_noise(output)


def no_answer(output: str) -> str:
    """What came over standard output where no answer is within it; empty where nothing came."""
    begun = next((found for found in _BEGINNING.finditer(output) if found[1] in _ANSWER_KEYS | {"changed"}), None)
    if begun is not None:
        length = len(output) - begun.start()
        return f"its answer is cut off after {length} characters: Python or the connection was ended on the way"
    return f'it printed "{shown_noise(output)}" instead of an answer' if output.strip() else ""


def shown_noise(text: str) -> str:
    """Noise as it is quoted: on one line, not longer than a reader needs to know it again."""
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in text[:_MOST_READ]).split())
    return line if len(line) <= _MOST_CHARACTERS else line[:_MOST_CHARACTERS] + "..."


def late_reason(limit_seconds: float, stage: LoginStage | None, looked: str = "") -> str:
    """Why a host is without an answer: ``stage`` is where a second login stopped, None where none was tried."""
    late = f"no answer within {limit_seconds:g} s"
    if stage is None:
        return f"{late}; {looked or 'where it hangs is not known'}"
    return f"{late}: {stage.hangs}"


def flood_reason(stage: LoginStage | None) -> str:
    """Why a host that sends far too much is without an answer: ``stage`` as in ``late_reason``."""
    sends = "sends more than 32 MB instead of an answer"
    return f"{sends}: {stage.hangs}" if stage is _FLOOD else f"{sends}: {_PYTHON_FLOOD.hangs}"


def breaking_reason(noise: str) -> str:
    """Why nothing can be done on a host whose answers Ansible cannot find within the noise of its shell."""
    return f'{_NOISE.hangs}: "{noise}"'


def advice_for(reason: str) -> str | None:
    """Where to look, if the reason why a host gave no answer is a stage of its login."""
    return next((stage.advice for stage in _STAGES if stage.hangs in reason), None)


def stage_command(ssh: Sequence[str], host: str, python: str) -> list[str]:
    """The command that finds the stage: a connection of its own, that tells what it does, and asks for nothing."""
    own = ["-v", "-o", "ControlMaster=no", "-o", "ControlPath=none", "-o", "BatchMode=yes", "-o", "ConnectTimeout=0"]
    mark = f"echo {SHELL_MARK}; exec {python} -c 'print(\"{PYTHON_MARK}\")'"
    return [ssh[0], *own, *ssh[1:], host, mark]
