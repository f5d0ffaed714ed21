"""Plans the next step of a fabric test, or writes its report: the control node's side of the role ``fabric``.

What hosts returned is read from their variables; the planning and judging is raybench's own, ``preflight/fabric``.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):
    """``raybench_fabric_step: step=scan|confirm|report``, once a run, on the control node."""

    _requires_connection = False
    _VALID_ARGS = frozenset({"step", "hosts", "settings", "run_id", "started_at", "token", "done", "output"})

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Answer with a plan, or with the report's verdict."""
        super().run(tmp, task_vars)
        conduct, settings_from, known_error = _raybench()
        arguments, variables = self._task.args, (task_vars or {})["hostvars"]
        names = [str(name) for name in arguments["hosts"]]
        try:
            settings = settings_from(_plain(dict(arguments.get("settings") or {})))
            replies = [_reply(conduct.Reply, name, variables.get(name, {})) for name in names]
            results = {name: _plain(variables.get(name, {}).get("fabric_results") or []) for name in names}
            step = getattr(self, "_" + arguments["step"])
            answer: dict[str, Any] = step(conduct, settings, replies, results)
        except known_error as error:
            raise AnsibleActionFail(str(error)) from error
        return answer

    def _scan(self, conduct: Any, settings: Any, replies: Any, _results: Any) -> dict[str, Any]:
        step = conduct.plan_scan(replies, settings, token=self._token(), forks=self._forks())
        return {"changed": False, **step.to_json()}

    def _confirm(self, conduct: Any, settings: Any, replies: Any, results: Any) -> dict[str, Any]:
        done = int(self._task.args["done"])
        step = conduct.plan_confirmation(
            replies, settings, results, done=done, token=self._token(), forks=self._forks()
        )
        return {"changed": False, **step.to_json()}

    def _report(self, conduct: Any, settings: Any, replies: Any, results: Any) -> dict[str, Any]:
        arguments = self._task.args
        times = (str(arguments["started_at"]), time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
        report = conduct.final_report(replies, settings, results, run_id=str(arguments["run_id"]), times=times)
        path = Path(str(arguments["output"])).expanduser().absolute()
        from raybench.whole_file import write_whole

        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(report.to_json(), indent=1))
        return {
            "changed": False,
            "path": str(path),
            "verdict": report.verdict,
            "status": report.status,
            "lines": ["EMULATED devices: compare their figures with each other only"] * report.emulated
            + [f"{one.verdict}: {one.summary}; {one.seen}" for one in report.suspects[:20]]
            + [f"{host.verdict}: {host.name}: {problem.seen}" for host, problem in report.problems]
            + list(report.notes),
        }

    def _token(self) -> str:
        return str(self._task.args["token"])

    def _forks(self) -> int:
        from ansible import constants, context

        return int(context.CLIARGS.get("forks") or constants.DEFAULT_FORKS)


def _raybench() -> tuple[Any, Any, type[Exception]]:
    """Raybench's planning, of this Python's environment, or of the checkout or wheel that the playbook lies in."""
    here = Path(__file__).resolve()
    sys.path[:0] = [
        str(folder)
        for folder in (here.parents[2], here.parents[4] if len(here.parents) > 4 else here.parents[2])
        if (folder / "raybench" / "preflight").is_dir() and str(folder) not in sys.path
    ]
    try:
        from raybench.errors import RaybenchError
        from raybench.preflight.fabric import conduct
        from raybench.preflight.fabric.settings import settings_from
    except ImportError as error:
        raise AnsibleActionFail(
            f"raybench cannot be imported by the Python of Ansible ({sys.executable}): {error}; install it there"
        ) from error
    return conduct, settings_from, RaybenchError


def _reply(kind: Any, name: str, variables: Any) -> Any:
    found = variables.get("fabric_discovered") or {}
    end = found.get("end")
    options = {
        key: _plain(variables[key])
        for key in (
            "fabric_address",
            "fabric_interface",
            "fabric_devices",
            "fabric_leaf",
            "fabric_gid_index",
            "ansible_host",
        )
        if key in variables
    }
    problem = str(found.get("msg") or "it was not reached").removeprefix("Task failed: ")
    if "Timed out after" in problem or "expected time frame" in problem:  # Ansible 2.19, and before
        problem = f"it did not answer in time ({problem.rstrip('.')}); raybench preflight says where its login hangs"
    lost = str(variables.get("fabric_lost") or "")
    return kind(name=name, end=_plain(end) if end else None, problem=problem, options=options, lost=lost)


def _plain(value: Any) -> Any:
    """Ansible's lazy and tagged containers as plain ones."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, str):
        return str(value)
    return value
