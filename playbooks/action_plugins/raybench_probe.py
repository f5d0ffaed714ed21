"""The control node's side of the module ``raybench_probe``: when it was sent and answered, and why it did not answer.

A host that hangs at login must not hold the others, nor one that sends without an end fill the memory: over its limit
its connection is ended, a second login finds out how far it comes, and the host counts as unreachable for that reason.
"""

from __future__ import annotations

import base64
import json
import os
import shlex
import sys
import time
import zlib
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.plugins.action import ActionBase

_LIMIT_SECONDS = 60.0
_MOST_STAGE_SECONDS = 10.0
_MOST_KEPT_CHARACTERS = 2000  # of what is no answer
_OPTIONS = {
    "timeout_seconds": {"type": "float", "default": 20},
    "interval_seconds": {"type": "float", "default": 1},
    "python": {"type": "str", "default": ""},
    "folders": {"type": "list", "elements": "str", "default": ["/", "/tmp"]},
    "listen_ports": {"type": "list", "elements": "int", "default": []},
    "listen_seconds": {"type": "float", "default": 60},
    "listen_connections": {"type": "int", "default": 0},
    "end_listener": {"type": "bool", "default": False},
    "reach": {"type": "list", "elements": "list", "default": []},
    "reach_ports": {"type": "list", "elements": "int", "default": []},
    "reached_earlier": {"type": "list", "elements": "dict", "default": []},
    "reach_early": {"type": "list", "elements": "list", "default": []},
    "reach_early_seconds": {"type": "float", "default": 0},
    "expectations": {"type": "dict", "default": {}},
    "limit_seconds": {"type": "float", "default": _LIMIT_SECONDS},
    "first_contact": {"type": "bool", "default": False},
    "of_inventory": {"type": "bool", "default": False},
    "environment_variables": {"type": "dict", "default": {}},
    "prefix": {"type": "list", "elements": "str", "default": []},
    "packed": {"type": "bool", "default": False},
}


class ActionModule(ActionBase):
    """Runs the module within the host's limit and stamps its answer: ``sent_at``, ``received_at``, ``noise``."""

    _said = ""
    _limit_seconds = _LIMIT_SECONDS

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """The module's answer. Raises AnsibleConnectionFailure where there is none within the limit."""
        super().run(tmp, task_vars)
        _, arguments = self.validate_argument_spec(argument_spec=_OPTIONS)
        variables = task_vars or {}
        self._limit_seconds = float(arguments["limit_seconds"]) or _LIMIT_SECONDS
        if arguments["first_contact"]:
            return self._first_contact(variables)
        if arguments["of_inventory"]:
            arguments |= self._of_inventory(arguments, variables)
        callers = arguments.pop("called_by", ())
        answer = self._answer(self._task.action, {**arguments, "source": _source()}, variables)
        if "packed" not in answer:
            return answer
        answer["called_by"] = list(callers) if answer.get("listening") else []
        wanted = len(arguments.get("reach_early") or ()) * len(arguments.get("listen_ports") or ())
        reached = sum(one.get("answer") == "connected" for one in answer.get("reached") or () if isinstance(one, dict))
        return {**answer, "to_reach": arguments.get("reach_early") or [], "reached_all": reached >= wanted}

    def _of_inventory(self, arguments: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        """What the inventory expects of this host, and which others it tries while it is probed."""
        names = sorted(name for name in variables if name.startswith("preflight_"))
        found: dict[str, Any] = {"expectations": {name: self._templar.template(variables[name]) for name in names}}
        if not arguments.get("listen_ports"):
            return found
        plan = _port_plan_module()
        hosts, own = [str(name) for name in variables["ansible_play_hosts_all"]], str(variables["inventory_hostname"])
        others = {name: variables["hostvars"][name] for name in plan.hosts_to_try(hosts, own)}
        found["called_by"] = plan.callers_of(hosts, own)
        found["listen_connections"] = len(found["called_by"])
        found["reach_early"] = [
            [name, str(other.get("preflight_address", "")), str(other.get("ansible_host", ""))]
            for name, other in others.items()
        ]
        if int(variables.get("ansible_forks") or 0) < len(hosts):
            found["reach_early_seconds"] = 0  # who waits for hosts that begin later must not hold a fork that they need
        return found

    def _first_contact(self, variables: dict[str, Any]) -> dict[str, Any]:
        """An empty answer. Whatever keeps the host from giving it makes it unreachable: nothing can be done there.

        It runs a module of Ansible's own, which needs of a host what those that follow need.
        """
        try:
            answer = self._answer("ansible.builtin.ping", {}, variables)
            reason = str(answer.get("msg") or "no answer") if answer.get("failed") else ""
            if reason and answer.get("module_stderr"):
                reason = f"{reason}; {str(answer['module_stderr']).strip()}"
        except AnsibleError as error:
            reason = str(error)
        if reason:
            advice = _advice(reason, str(variables.get("inventory_hostname") or "HOST"))
            raise AnsibleConnectionFailure(f"{reason}{advice}")
        return {"changed": False}

    def _answer(self, module: str, arguments: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        limits, limit = _limit_module(), self._limit_seconds
        sent_at = time.time()
        try:
            with limits.limited(limit):
                answer: dict[str, Any] = self._execute_module(
                    module_name=module, module_args=arguments, task_vars=variables
                )
            received_at = time.time()
        except limits.HostLimitError as error:
            limits.end_children()
            late = isinstance(error, limits.LateError)
            raise AnsibleConnectionFailure(self._over_limit(limit, variables, late=late)) from None
        noise = _login_module().answer_within(self._said)[1] if self._said else ""
        return {**answer, "sent_at": sent_at, "received_at": received_at, "noise": noise}

    def _parse_returned_data(self, res: dict[str, Any], *rest: Any) -> dict[str, Any]:
        """What Ansible reads of the answer, but with noise of the login shell taken off first, which would break it."""
        self._said = str(res.get("stdout") or "")
        login = _login_module()
        found, noise = login.answer_within(self._said)
        if (
            found
            and self._task.args.get("first_contact")
            and not super()._parse_returned_data(res, *rest)["_ansible_parsed"]
        ):
            return {"failed": True, "msg": login.breaking_reason(noise)}
        kept = found or self._said[:_MOST_KEPT_CHARACTERS]
        answer = dict(super()._parse_returned_data({**res, "stdout": kept}, *rest))
        why = "" if found else login.no_answer(self._said)
        return {**answer, "msg": why} if why else answer

    def _over_limit(self, limit: float, variables: dict[str, Any], *, late: bool) -> str:
        login = _login_module()
        stage, unknown = self._stage(limit, variables)
        return str(login.late_reason(limit, stage, unknown) if late else login.flood_reason(stage))

    def _stage(self, limit: float, variables: dict[str, Any]) -> tuple[Any, str]:
        """Where a second login stops, or None and why that was not looked at."""
        if getattr(self._connection, "transport", "") != "ssh":
            return None, ""
        if self._connection.get_option("password"):
            return None, "it logs in by password, so where it hangs was not looked at"
        python = str(self._templar.template(variables.get("ansible_python_interpreter") or "python3"))
        python = "python3" if python.startswith("auto") else shlex.join(shlex.split(python))
        try:
            program = str(self._connection.get_option("ssh_executable"))
            built = [os.fsdecode(part) for part in self._connection._build_command(program, "ssh")]
        except (AnsibleError, TypeError, AttributeError) as error:
            return None, f"where it hangs could not be looked at ({error})"
        login = _login_module()
        command = login.stage_command(built, str(self._connection.host), python)
        said = _limit_module().said_by(command, min(_MOST_STAGE_SECONDS, limit / 2))
        return login.login_stage(*said), ""


def _source() -> str:
    """The packages of the probe as the module takes them: texts of modules by name, compressed, in base64."""
    above = Path(__file__).resolve().parents[1] / "module_utils"
    texts = {above.name: ""}
    for folder in (above / "raybench_probe", above / "raybench_host"):
        package = f"{above.name}.{folder.name}"
        texts |= {f"{package}.{path.stem}": path.read_text(encoding="utf-8") for path in folder.glob("*.py")}
        texts[package] = texts.pop(f"{package}.__init__")
    return base64.b64encode(zlib.compress(json.dumps(texts).encode("ascii"))).decode("ascii")


def _login_module() -> Any:
    """``raybench.preflight.login``, see ``_packages``."""
    _packages()
    from raybench.preflight import login

    return login


def _limit_module() -> Any:
    """``raybench.preflight.host_limit``, see ``_packages``."""
    _packages()
    from raybench.preflight import host_limit

    return host_limit


def _port_plan_module() -> Any:
    """``raybench.preflight.port_plan``, see ``_packages``."""
    _packages()
    from raybench.preflight import port_plan

    return port_plan


def _advice(reason: str, host: str) -> str:
    """What to do about a reason, behind the mark that it goes by; see ``_packages``."""
    _packages()
    from raybench.unreachable import ADVICE_MARK, advice_on

    told = _login_module().advice_for(reason) or advice_on(reason, host)
    return f"{ADVICE_MARK}{told}" if told else ""


def _packages() -> None:
    """Let raybench's packages be found: those of this Python's environment, or of what the playbook lies in."""
    here = Path(__file__).resolve()
    for folder in here.parents[2:5]:
        if (folder / "raybench" / "preflight").is_dir() and str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
            break
