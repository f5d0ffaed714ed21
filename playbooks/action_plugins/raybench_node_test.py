"""The control node's side of the module ``raybench_node_test``: its source is sent, and the host held within its limit.

Hosts whose kernel has the same boot id run on one machine, such as containers, and would take each other's processors:
they wait here for each other. Hosts of their own are tested side by side.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import hashlib
import json
import os
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ansible import constants
from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible.plugins.action import ActionBase

_OPTIONS = {
    "level": {"type": "int", "required": True},
    "only": {"type": "list", "elements": "str", "default": []},
    "skip": {"type": "list", "elements": "str", "default": []},
    "seconds": {"type": "float", "default": 0},
    "sizes": {"type": "dict", "default": {}},
    "python": {"type": "str", "default": ""},
    "probed": {"type": "str", "default": ""},
}
# What reads the state of GPUs, of the diagnostics agent, with what that imports.
_READERS = ("agent.sources.gpus", "agent.sources.amd_gpus", "agent.sources.base", "errors", "findings", "plain_part")
_OF_THE_PLAN = ("only", "skip", "seconds", "sizes")


class ActionModule(ActionBase):
    """Runs the module within the host's limit."""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """The module's answer. Raises AnsibleConnectionFailure where there is none within the limit."""
        super().run(tmp, task_vars)
        _, arguments = self.validate_argument_spec(argument_spec=_OPTIONS)
        _packages()
        from raybench.preflight import host_limit
        from raybench.preflight.node_tests import plan as node_plan

        try:
            plan = node_plan.plan_for(int(arguments["level"]), **{name: arguments[name] for name in _OF_THE_PLAN})
        except ValueError as error:
            raise AnsibleActionFail(str(error)) from error
        limit = node_plan.host_limit_seconds(plan)
        sent = {"plan": plan, "slack_seconds": node_plan.SLACK_SECONDS, "python": str(arguments["python"])}
        if not plan["tests"]:
            return {"changed": False}
        with _machine(_boot_id(str(arguments["probed"]))):
            try:
                with host_limit.limited(limit):
                    return dict(
                        self._execute_module(
                            module_name=self._task.action,
                            module_args={**sent, "source": _source()},
                            task_vars=task_vars or {},
                        )
                    )
            except host_limit.HostLimitError as error:
                host_limit.end_children()
                late = isinstance(error, host_limit.LateError)
                said = f"no answer within {limit:g} s" if late else "it sent far more than any answer has"
                raise AnsibleConnectionFailure(f"{said} while its tests ran") from None


def _boot_id(packed: str) -> str:
    """The boot id in what the probe returned; empty where it has none."""
    from raybench.preflight.probe_answer import boot_id_of, unpack

    try:
        return str(boot_id_of(unpack(packed))) if packed else ""
    except ValueError:
        return ""


@contextlib.contextmanager
def _machine(boot_id: str) -> Iterator[None]:
    """Hold the machine with this boot id, of this call of Ansible: its workers share a folder that goes with it."""
    if not boot_id:
        yield
        return
    name = hashlib.sha256(boot_id.encode()).hexdigest()[:16]
    path = Path(constants.DEFAULT_LOCAL_TMP) / f"raybench-machine-{name}"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _source() -> str:
    """Texts of modules by name, compressed, in base64: the module's own packages, and the tests."""
    above = Path(__file__).resolve().parents[1] / "module_utils"
    texts = {above.name: "", "raybench": "", "raybench.benchmarks": ""}
    texts |= dict.fromkeys(("diagnostics", "diagnostics.agent", "diagnostics.agent.sources"), "")
    for name in _READERS:
        path = _packages().joinpath("diagnostics", *name.split(".")).with_suffix(".py")
        texts[f"diagnostics.{name}"] = path.read_text(encoding="utf-8")
    tests = _packages() / "raybench" / "benchmarks" / "node_tests"
    folders = {f"{above.name}.{name}": above / name for name in ("raybench_node_test", "raybench_host")}
    for package, folder in {**folders, "raybench.benchmarks.node_tests": tests}.items():
        texts |= {f"{package}.{path.stem}": path.read_text(encoding="utf-8") for path in folder.glob("*.py")}
        texts[package] = texts.pop(f"{package}.__init__")
    return base64.b64encode(zlib.compress(json.dumps(texts).encode("utf-8"))).decode("ascii")


def _packages() -> Path:
    """Where raybench's packages are, which are then found: this Python's environment, or what the playbook lies in."""
    here = Path(__file__).resolve()
    for folder in here.parents[2:5]:
        if (folder / "raybench" / "preflight").is_dir():
            if str(folder) not in sys.path:
                sys.path.insert(0, str(folder))
            return folder
    import raybench

    return Path(str(raybench.__file__)).parents[1]
