"""The diagnostics agent as a systemd unit: `raybench agent` on a host, for jobs that raybench did not start."""

from __future__ import annotations

import shlex
from typing import Any

from ..raybench_ray.unit import quoted
from .errors import RefusedError
from .host import Answer, Host
from .plan import ItemPlan, Setting, fixed, own_file, skip
from .resources.file import FileResource
from .resources.service import UnitResource
from .value import line, named, one_of, whole

UNIT = "raybench-agent.service"
PATH = f"/etc/systemd/system/{UNIT}"
FOLDER = "/var/lib/raybench-agent"
_ITEM = "raybench_agent.agent_unit"
_VENV = "/opt/raybench"  # where a host may have raybench of its own
_IMPORT_SECONDS = 60.0  # of Python from a shared file system, the first time
# A warning makes `raybench agent` end with 1, which `systemctl stop` is not to show as a failure.
# As root it may read every file and the kernel's log, and write its own folder only.
_TEXT = """\
[Unit]
Description=raybench: the diagnostics agent of this node

[Service]
Type=exec
ExecStart={command}
User={user}
StateDirectory=raybench-agent
StateDirectoryMode=0750
UMask=0027
Restart=always
RestartSec=10
SuccessExitStatus=1
MemoryMax={memory_mib}M
CPUQuota={cpu_percent}%
NoNewPrivileges=yes
CapabilityBoundingSet=CAP_DAC_READ_SEARCH CAP_SYS_PTRACE CAP_SYSLOG
ProtectSystem=strict
ProtectHome=read-only

[Install]
WantedBy=multi-user.target
"""


def plan_agent_unit(host: Host, options: dict[str, Any]) -> ItemPlan:
    """``state`` present: the unit runs now and at each boot; absent: it is gone. Its samples stay."""
    if one_of(options["state"], "raybench_agent_state", ("present", "absent")) == "absent":
        return _absent(host)
    python = _absolute(options["python"], "raybench_agent_python")
    user = named("user", options["user"], "raybench_agent_user")
    words = _words(python, options)
    text = _TEXT.format(
        command=" ".join(map(quoted, words)),
        user=user,
        memory_mib=whole(options["memory_mib"], "raybench_agent_memory_mib", range(64, 1 << 20)),
        cpu_percent=whole(options["cpu_percent"], "raybench_agent_cpu_percent", range(1, 10001)),
    )
    reasons = list(filter(None, [_without_systemd(host, words), _without_raybench(host, python, user)]))
    if reasons:
        return ItemPlan(problem="; ".join(reasons))
    running = (UnitResource(UNIT).read(host) or {}).get("active")
    return ItemPlan(
        settings=[own_file(_ITEM, PATH, text), Setting(UnitResource(UNIT), fixed(enabled=True, active=True))],
        reload=[["systemctl", "daemon-reload"], ["systemctl", "restart", UNIT]] if running else [],
        notes=[f"warnings: journalctl -u {UNIT}; samples: {FOLDER}/samples.jsonl"],
    )


def _absent(host: Host) -> ItemPlan:
    if not host.exists(PATH):
        return skip(f"{PATH} is not there")
    return ItemPlan(
        settings=[
            Setting(UnitResource(UNIT), fixed(enabled=False, active=False)),
            Setting(FileResource(PATH), lambda _: None, whole=True),
        ],
        reload=[["systemctl", "daemon-reload"]] if host.systemd() else [],
        notes=[f"samples stay in {FOLDER}"] if host.exists(FOLDER) else [],
    )


def _words(python: str, options: dict[str, Any]) -> list[str]:
    interval = whole(options["interval_seconds"], "raybench_agent_interval_seconds", range(1, 3601))
    samples_mib = whole(options["samples_mib"], "raybench_agent_samples_mib", range(1, 1 << 20))
    words = [python, "-m", "raybench", "agent", "--interval", str(interval)]
    words += ["--output", f"{FOLDER}/samples.jsonl", "--max-bytes", str(samples_mib << 20)]
    for option, variable in (("log", "logs"), ("folder", "folders")):
        values = options[variable]
        if not isinstance(values, list):
            raise RefusedError(f"raybench_agent_{variable} is {values!r}; give a list")
        words += [word for value in values for word in (f"--{option}", _absolute(value, f"raybench_agent_{variable}"))]
    return words


def _absolute(value: Any, variable: str) -> str:
    text = line(value, variable)
    if not text.startswith("/"):
        raise RefusedError(f"{variable} is {text!r}; give a path that begins with /")
    return text


def _without_systemd(host: Host, words: list[str]) -> str:
    """What to type where nothing could keep the agent running; empty on a host with systemd."""
    if host.systemd():
        return ""
    return (
        "systemd does not run here, so nothing would keep the agent running; by hand, on the host: "
        f"mkdir -p -m 0750 {FOLDER} && nohup {' '.join(map(shlex.quote, words))} >> {FOLDER}/agent.log 2>&1 &"
    )


def _without_raybench(host: Host, python: str, user: str) -> str:
    """Why the user cannot run `raybench agent` with this Python, and what to type; empty where it can."""
    if not host.exists(python):
        return (
            f"there is no Python at {python}; raybench cluster up builds one, or on the host: python3 -m venv {_VENV} "
            f"&& {_VENV}/bin/pip install raybench nvidia-ml-py, and raybench_agent_python: {_VENV}/bin/python"
        )
    answer = _asked(host, python, user)
    if answer.status == 0:
        return ""
    return (
        f"{python} does not run raybench agent as {user} ({answer.reason}); on the host: "
        f"{python} -m pip install --upgrade raybench nvidia-ml-py, or name another Python with raybench_agent_python"
    )


def _asked(host: Host, python: str, user: str) -> Answer:
    words = [python, "-B", "-m", "raybench", "agent", "--help"]
    as_user = [] if user == "root" else ["runuser", "-u", user, "--"]
    return host.run(*as_user, *words, seconds=_IMPORT_SECONDS)
