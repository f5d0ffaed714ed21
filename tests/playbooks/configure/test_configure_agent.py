"""The unit of the diagnostics agent: what it runs, that it comes once and goes, and what is said where it cannot be."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from module_utils.raybench_configure import plan as plans
from module_utils.raybench_configure.agent_unit import FOLDER, PATH, UNIT
from module_utils.raybench_configure.engine import ItemOutcome, carry_out, roll_back
from module_utils.raybench_configure.errors import RefusedError
from module_utils.raybench_configure.journal import Journal
from module_utils.raybench_configure.plan import ItemPlan

from tests.playbooks.hosts import TreeHost
from tests.playbooks.role_readme import ROLES

from .item_hosts import MACHINE, Units, machine, planned

ITEM = "raybench_agent.agent_unit"
PYTHON = "/opt/raybench/bin/python"


@pytest.fixture(autouse=True)
def _files_are_mine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of root become those of whoever runs the tests."""
    owner = {"uid": os.geteuid(), "gid": os.getegid()}
    state = plans.file_state
    monkeypatch.setattr(plans, "file_state", lambda content, mode=0o644: state(content, mode=mode, **owner))


def options(**changed: Any) -> dict[str, Any]:
    """The role's defaults, and a Python."""
    defaults = yaml.safe_load((ROLES / "raybench_agent/defaults/main.yml").read_text())
    return {name.removeprefix("raybench_agent_"): value for name, value in defaults.items()} | {
        "python": PYTHON,
        **changed,
    }


def node(tmp_path: Path, units: Units, **commands: Any) -> TreeHost:
    """A host with systemd and a raybench."""
    return machine(tmp_path, {PYTHON: ""}, **{PYTHON: "Usage: raybench agent", "systemctl": units, **commands})


def done(host: TreeHost, *, check: bool = False, **changed: Any) -> tuple[ItemPlan, ItemOutcome]:
    plan = planned(host, ITEM, **options(**changed))
    return plan, carry_out(host, Journal(host), ITEM, plan, check=check)


def text(host: TreeHost) -> str:
    return host.path(PATH).read_text()


def test_the_unit_comes_once_and_goes_with_a_rollback(tmp_path: Path) -> None:
    units = Units()
    host = node(tmp_path, units)
    first = host.tree("etc", "var")
    _, made = done(host, logs=["/scratch/*/nccl.%h.log"], folders=["/scratch"])
    assert [(change["kind"], change["how"]) for change in made.changes] == [
        ("file", "created"),
        ("unit", "active: False -> True, enabled: False -> True"),
    ]
    assert units.active == units.enabled == {UNIT}
    assert (
        'ExecStart="/opt/raybench/bin/python" "-m" "raybench" "agent" "--interval" "1" '
        '"--output" "/var/lib/raybench-agent/samples.jsonl" "--max-bytes" "67108864" '
        '"--log" "/scratch/*/nccl.%%h.log" "--folder" "/scratch"\n'
    ) in text(host)
    for row in ("User=root", "StateDirectoryMode=0750", "Restart=always", "MemoryMax=256M", "CPUQuota=20%"):
        assert f"\n{row}\n" in text(host)
    assert done(host, logs=["/scratch/*/nccl.%h.log"], folders=["/scratch"])[1].changes == []
    assert not [command for command in host.ran if command[1] == "restart"]
    back = roll_back(host, Journal(host), ["raybench_agent"], packages=False, check=False)
    assert (back.problem, back.conflicts, units.active, units.enabled) == (None, [], set(), set())
    assert host.tree("etc", "var") == first


def test_check_mode_says_the_same_and_writes_nothing(tmp_path: Path) -> None:
    units = Units()
    host = node(tmp_path, units)
    _, predicted = done(host, check=True)
    assert (units.active, host.exists(PATH), host.exists("/var/lib/raybench")) == (set(), False, False)
    assert done(host)[1].changes == predicted.changes


def test_another_value_restarts_the_unit_that_runs(tmp_path: Path) -> None:
    host = node(tmp_path, Units())
    done(host)
    done(host, memory_mib=512)
    assert "MemoryMax=512M" in text(host)
    assert host.ran[-1] == ("systemctl", "restart", UNIT)


def test_absent_takes_the_unit_away_and_keeps_its_samples(tmp_path: Path) -> None:
    units = Units()
    host = node(tmp_path, units)
    assert planned(host, ITEM, **options(state="absent")).skipped == f"{PATH} is not there"
    done(host)
    host.put(f"{FOLDER}/samples.jsonl", "{}\n")
    plan, gone = done(host, state="absent")
    assert [(change["kind"], change["how"]) for change in gone.changes][-1] == ("file", "removed")
    assert (units.active, units.enabled, host.exists(PATH)) == (set(), set(), False)
    assert plan.notes == [f"samples stay in {FOLDER}"]
    assert host.exists(f"{FOLDER}/samples.jsonl")
    assert planned(host, ITEM, **options(state="absent")).skipped


def test_a_unit_that_was_edited_is_left_alone(tmp_path: Path) -> None:
    host = node(tmp_path, Units())
    done(host)
    edited = text(host).replace("CPUQuota=20%", "CPUQuota=50%")
    host.put(PATH, edited)
    assert "was edited after raybench wrote it" in done(host)[1].conflicts[0]
    assert text(host) == edited


def test_a_host_without_systemd_is_told_what_to_type(tmp_path: Path) -> None:
    files = {name: content for name, content in MACHINE.items() if not name.startswith("/run/systemd")}
    host = TreeHost(tmp_path, {**files, PYTHON: ""}, **{PYTHON: "Usage: raybench agent"})
    plan = planned(host, ITEM, **options(logs=["/scratch/a b/*.log"]))
    assert plan.settings == []
    assert plan.problem is not None
    assert plan.problem.startswith("systemd does not run here")
    assert "nohup /opt/raybench/bin/python -m raybench agent" in plan.problem
    assert "--log '/scratch/a b/*.log' >> /var/lib/raybench-agent/agent.log 2>&1 &" in plan.problem
    assert planned(host, ITEM, **options(state="absent")).skipped


def test_a_host_without_raybench_is_told_how_to_install_it(tmp_path: Path) -> None:
    def old(command: tuple[str, ...]) -> str:
        raise ValueError("Error: No such command 'agent'.")

    plan = planned(node(tmp_path / "old", Units(), **{PYTHON: old}), ITEM, **options())
    assert plan.settings == []
    assert plan.problem == (
        f"{PYTHON} does not run raybench agent as root (Error: No such command 'agent'.); on the host: "
        f"{PYTHON} -m pip install --upgrade raybench nvidia-ml-py, or name another Python with raybench_agent_python"
    )
    none = planned(machine(tmp_path / "none"), ITEM, **options(python="/usr/local/bin/python"))
    assert none.problem is not None
    assert "there is no Python at /usr/local/bin/python" in none.problem
    assert "/opt/raybench/bin/pip install raybench" in none.problem


def test_the_user_of_the_unit_is_the_one_who_has_to_be_able_to_run_it(tmp_path: Path) -> None:
    host = node(tmp_path, Units(), runuser="Usage: raybench agent")
    done(host, user="monitor")
    assert ("runuser", "-u", "monitor", "--", PYTHON, "-B", "-m", "raybench", "agent", "--help") in host.ran
    assert "\nUser=monitor\n" in text(host)


@pytest.mark.parametrize(
    "changed",
    [
        {"state": "stopped"},
        {"python": "python3"},
        {"python": "/opt/a\nUser=root"},
        {"user": "root\nExecStartPre=/bin/sh"},
        {"user": "-u"},
        {"logs": "/scratch/*.log"},
        {"logs": ["nccl.*.log"]},
        {"logs": ["/a\nb"]},
        {"folders": ["--once"]},
        {"interval_seconds": 0},
        {"samples_mib": "64M"},
        {"memory_mib": 1},
        {"cpu_percent": 0},
    ],
)
def test_a_value_that_cannot_be_meant_is_refused(tmp_path: Path, changed: dict[str, Any]) -> None:
    host = node(tmp_path, Units())
    with pytest.raises(RefusedError):
        planned(host, ITEM, **options(**changed))
    assert host.ran == []


def test_the_unit_is_one_that_systemd_takes(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze on this machine")
    host = machine(tmp_path, {"/bin/true": ""}, **{"/bin/true": "", "systemctl": Units()})
    done(host, python="/bin/true", logs=['/a "b" $c %d/*.log'])
    answer = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", host.path(PATH)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (answer.returncode, UNIT in answer.stderr) == (0, False), answer.stderr


def test_the_unit_gains_nothing_and_writes_its_own_folder_only(tmp_path: Path) -> None:
    """It runs as root for what it reads: what that may do beside is taken from it."""
    host = node(tmp_path, Units())
    done(host, logs=["/scratch/*.log"], folders=["/scratch"])
    service = text(host).partition("[Service]")[2].partition("[Install]")[0]
    given = [tuple(line.split("=", 1)) for line in service.splitlines() if "=" in line]
    settings = dict(given)
    assert len(given) == len(settings), "a second line would add to the first, or undo it"
    wanted = {"NoNewPrivileges": "yes", "ProtectSystem": "strict", "ProtectHome": "read-only"}
    assert {name: settings.get(name) for name in wanted} == wanted
    capabilities = set(settings["CapabilityBoundingSet"].split())
    assert capabilities == {"CAP_DAC_READ_SEARCH", "CAP_SYS_PTRACE", "CAP_SYSLOG"}
    assert "AmbientCapabilities" not in settings
    writable = {name for name in settings if name in ("ReadWritePaths", "BindPaths") or name.endswith("Directory")}
    assert writable == {"StateDirectory"}
    assert f"/var/lib/{settings['StateDirectory']}" == FOLDER
