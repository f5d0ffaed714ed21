"""The control node's side of the module ``raybench_probe``: when it was sent and answered, and why it did not answer.

A host that hangs at login must not hold the others: after O(limit_seconds) its connection is ended, a second login
finds out how far it comes, and the host counts as unreachable with that as the reason.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.plugins.action import ActionBase

_LIMIT_SECONDS = 60.0
_MOST_STAGE_SECONDS = 10.0


class _Late(BaseException):
    """The limit is over. No Exception, so that a connection plugin does not take it for one of its own."""


class ActionModule(ActionBase):
    """Runs the module within the host's limit and stamps its answer: ``sent_at``, ``received_at``, ``noise``."""

    _said = ""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """The module's answer. Raises AnsibleConnectionFailure where there is none within the limit."""
        super().run(tmp, task_vars)
        arguments = dict(self._task.args)
        limit = float(arguments.get("limit_seconds") or _LIMIT_SECONDS)
        variables = task_vars or {}
        sent_at = time.time()
        try:
            with _limited(limit):
                answer: dict[str, Any] = self._execute_module(module_args=arguments, task_vars=variables)
            received_at = time.time()
        except _Late:
            _end_children()
            raise AnsibleConnectionFailure(self._late(limit, variables)) from None
        login = _login_module()
        noise = login.answer_within(self._said)[1] if self._said else ""
        return {**answer, "sent_at": sent_at, "received_at": received_at, "noise": noise}

    def _parse_returned_data(self, res: dict[str, Any], *rest: Any) -> dict[str, Any]:
        """What Ansible reads of the answer, but with noise of the login shell taken off first, which would break it."""
        self._said = str(res.get("stdout") or "")
        found = _login_module().answer_within(self._said)[0]
        return dict(super()._parse_returned_data({**res, "stdout": found} if found else res, *rest))

    def _late(self, limit: float, variables: dict[str, Any]) -> str:
        login = _login_module()
        if getattr(self._connection, "transport", "") != "ssh":
            return str(login.late_reason(limit, None))
        if self._connection.get_option("password"):
            return str(login.late_reason(limit, None, "it logs in by password, so where it hangs was not looked at"))
        python = str(self._templar.template(variables.get("ansible_python_interpreter") or "python3"))
        python = "python3" if python.startswith("auto") else shlex.join(shlex.split(python))
        try:
            program = str(self._connection.get_option("ssh_executable"))
            built = [os.fsdecode(part) for part in self._connection._build_command(program, "ssh")]
        except (AnsibleError, TypeError, AttributeError) as error:
            return str(login.late_reason(limit, None, f"where it hangs could not be looked at ({error})"))
        command = login.stage_command(built, str(self._connection.host), python)
        return str(login.late_reason(limit, login.login_stage(*_said_by(command, min(_MOST_STAGE_SECONDS, limit / 2)))))


@contextlib.contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Raise _Late in the block after so many seconds, unless the task has a time limit of Ansible's own."""

    def late(*_: object) -> None:
        raise _Late

    if signal.getsignal(signal.SIGALRM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)


def _end_children() -> None:
    """End the connection's programs and what they started, which Ansible leaves behind when a task runs out of time."""
    asked = ["ps", "-A", "-o", "pid=,ppid="]
    listed = subprocess.run(asked, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=10)
    pairs = [tuple(map(int, line.split())) for line in listed.stdout.splitlines()]
    ours = {os.getpid()}
    for _ in range(len(pairs)):
        below = {pid for pid, parent in pairs if parent in ours} - ours
        if not below:
            break
        ours |= below
    for pid in ours - {os.getpid()}:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def _said_by(command: list[str], seconds: float) -> tuple[str, str]:
    """Standard error and standard output of a program, as far as it came in time."""
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            output, errors = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            output, errors = process.communicate()
    return errors.decode("utf-8", "replace"), output.decode("utf-8", "replace")


def _login_module() -> Any:
    """``raybench.preflight.login``, of this Python's environment, or of what the playbook lies in."""
    here = Path(__file__).resolve()
    for folder in here.parents[2:5]:
        if (folder / "raybench" / "preflight").is_dir() and str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
            break
    from raybench.preflight import login  # noqa: PLC0415

    return login
