"""What runs on a node: the supervisor and what it owns, the unit, the address, the folder, the token."""

import contextlib
import json
import os
import platform
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from module_utils.raybench_ray import address, holder, owned, supervise, unit
from module_utils.raybench_ray.errors import NodeError

from tests.conftest import REPOSITORY
from tests.processes.waiting import come_true

from .local import require_ansible
from .modules import PLAYBOOKS, call_module
from .role_readme import ROLES, readme

SUPERVISE = PLAYBOOKS / "module_utils" / "raybench_ray" / "supervise.py"
# In the place of `ray start --block`: says that it is ready, and has a daemon in a session of its own, deaf to SIGTERM.
STAND_IN = """
import os, signal, sys, time
print("Ray runtime started.", flush=True)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print("The daemon is deaf.", flush=True)
        time.sleep(600)
    os._exit(0)
time.sleep(600)
"""


class Supervised:
    """A supervisor over the stand-in, and the processes that carry its id."""

    def __init__(self, folder: Path, script: str = STAND_IN) -> None:
        self.id = secrets.token_hex(16)
        self.state_path = folder / "state.json"
        launch = {
            "id": self.id,
            "command": [sys.executable, "-I", "-S", "-c", script],
            "environment": {"PATH": os.defpath},
            "log": str(folder / "ray.log"),
            "state": str(self.state_path),
            "ready_text": "Ray runtime started.",
            "record": {"role": "head", "files": str(folder / "s")},
        }
        (folder / "launch.json").write_text(json.dumps(launch))
        self.process = subprocess.Popen([sys.executable, "-I", "-S", str(SUPERVISE), str(folder / "launch.json")])

    def state(self) -> dict[str, Any]:
        try:
            content: dict[str, Any] = json.loads(self.state_path.read_text())
        except FileNotFoundError:
            return {}
        return content

    def marked(self) -> list[int]:
        found: list[int] = owned.marked({"id": self.id})
        return found


@pytest.fixture
def supervised(tmp_path: Path) -> Iterator[Supervised]:
    made = Supervised(tmp_path)
    try:
        log = tmp_path / "ray.log"
        wait_until(lambda: made.state().get("phase") == "ready" and "is deaf" in log.read_text())
        wait_until(lambda: len(made.marked()) == 2)  # the daemon's parent is between them until it has ended
        yield made
    finally:
        made.process.kill()
        made.process.wait()
        for pid in made.marked():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def wait_until(condition: Any) -> None:
    assert come_true(condition)


def test_a_supervisor_that_is_asked_ends_all_below_it_and_daemons_that_left_too(supervised: Supervised) -> None:
    assert owned.end(supervised.state()) == []
    assert supervised.process.wait(60) == 0
    assert supervised.marked() == []
    assert (supervised.state()["phase"], supervised.state()["asked"]) == ("ended", True)


def test_what_a_killed_supervisor_leaves_is_known_by_its_id_and_other_processes_are_left_alone(
    supervised: Supervised,
) -> None:
    environment = {"RAYBENCH_NODE_ID": "0" * 32}
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", "input()"], stdin=subprocess.PIPE, env=environment
    ) as other:
        supervised.process.kill()
        supervised.process.wait()
        assert supervised.marked() != []
        assert not owned.runs(supervised.state())
        assert owned.end(supervised.state()) == []
        assert supervised.marked() == []
        assert other.poll() is None
        other.kill()


def test_a_worker_whose_title_overwrote_its_environment_is_known_by_its_log_and_a_reader_is_not(tmp_path: Path) -> None:
    log = tmp_path / "s" / "session" / "worker.out"
    log.parent.mkdir(parents=True)
    log.write_text("")
    state = {"id": secrets.token_hex(16), "files": str(tmp_path / "s")}
    hold = [
        sys.executable,
        "-I",
        "-S",
        "-c",
        "import sys; f = open(sys.argv[1], sys.argv[2]); print(1, flush=True); input()",
    ]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "env": {}}
    with (
        subprocess.Popen([*hold, str(log), "a"], **pipes) as worker,
        subprocess.Popen([*hold, str(log), "r"], **pipes) as reader,
    ):
        assert worker.stdout is not None
        assert reader.stdout is not None
        worker.stdout.readline()
        reader.stdout.readline()
        assert owned.marked(state) == [worker.pid]
        assert owned.end(state) == []
        assert worker.wait(60) == -signal.SIGKILL
        assert reader.poll() is None
        reader.kill()


def test_a_later_process_with_the_number_of_the_supervisor_is_not_taken_for_it() -> None:
    own = supervise.identity(os.getpid())
    runs = owned.runs
    assert runs(own)
    assert not runs(own | {"start_time": own["start_time"] - 1})
    assert not runs(own | {"boot_id": "another boot"})
    assert not runs({"pid": "1; reboot", "start_time": 1, "boot_id": ""})
    assert not runs({})
    rebooted = owned.rebooted
    assert rebooted(own | {"boot_id": "another boot"})
    assert not rebooted(own | {"boot_id": "another boot", "phase": "ended"})  # it was taken down before
    assert not rebooted(own | {"start_time": own["start_time"] - 1})
    assert not rebooted({})


def test_ray_that_ends_by_itself_ends_the_supervisor_with_an_error(tmp_path: Path) -> None:
    made = Supervised(tmp_path, "print('ValueError: no')")
    assert made.process.wait(60) == 1
    assert (made.state()["phase"], made.state()["asked"]) == ("ended", False)
    assert (tmp_path / "ray.log").read_text() == "ValueError: no\n"


@pytest.mark.parametrize("folder", ["/var/lib/raybench", '/srv/a b/100%/$HOME/"x"\\'])
def test_the_unit_is_one_that_systemd_takes(tmp_path: Path, folder: str) -> None:
    words = [sys.executable, "-I", "-S", f"{folder}/supervise.py", f"{folder}/launch.json"]
    text = unit.unit_text(words, 120)
    (line,) = [line for line in text.splitlines() if line.startswith("ExecStart=")]
    assert line.count('"') - line.count('\\"') == 2 * len(words)
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze on this machine")
    path = tmp_path / "raybench-ray.service"
    path.write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(path)], capture_output=True, text=True, check=False, timeout=120
    )
    about = [line for line in (done.stdout + done.stderr).splitlines() if "raybench-ray" in line]
    assert about == []


def test_a_path_with_a_line_break_never_becomes_a_unit() -> None:
    with pytest.raises(OSError, match="line break"):
        unit.unit_text(["/bin/true\nExecStartPre=/bin/false"], 120)


def test_the_address_is_one_of_this_host() -> None:
    own_address = address.own_address
    assert own_address("127.0.0.1", "", required=True) == "127.0.0.1"
    assert own_address("localhost", "127.0.0.1:6379", required=False) in {"127.0.0.1", "::1"}
    assert own_address("no-such-host.invalid", "127.0.0.1:6379", required=False) == "127.0.0.1"
    with pytest.raises(NodeError, match="not an address of this host"):
        own_address("192.0.2.77", "", required=True)
    with socket.socket() as server:
        server.bind(("", address.free_port()))


@pytest.mark.timeout(600)
def test_a_token_is_made_once_for_its_owner_and_a_readable_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "token"
    first = call_module("raybench_token", {"path": str(path)})
    token = path.read_text()
    assert (first["changed"], len(token), path.stat().st_mode & 0o777) == (True, 64, 0o600)
    assert token not in json.dumps(first)
    assert call_module("raybench_token", {"path": str(path)})["changed"] is False
    assert path.read_text() == token
    path.chmod(0o644)
    assert "only its owner reads" in call_module("raybench_token", {"path": str(path)})["msg"]


@pytest.mark.timeout(600)
def test_a_folder_that_is_not_ours_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    answer = call_module("raybench_ray_node", {"state": "prepared", "folder": str(tmp_path / "link")})
    assert "is not a folder of user" in answer["msg"]
    answer = call_module("raybench_ray_node", {"state": "prepared", "folder": str(tmp_path / "own")})
    assert (answer["changed"], (tmp_path / "own").stat().st_mode & 0o777) == (True, 0o700)
    answer = call_module("raybench_ray_node", {"state": "stopped", "folder": str(tmp_path / "own")})
    assert (answer["changed"], answer["node"]["running"]) == (False, False)
    assert not [one for one in psutil.process_iter(["cmdline"]) if str(tmp_path / "own") in str(one.info["cmdline"])]


@pytest.mark.timeout(600)
def test_a_look_at_a_node_asks_the_python_that_it_was_started_with(tmp_path: Path) -> None:
    folder = tmp_path / "node"
    folder.mkdir(mode=0o700)
    program = tmp_path / "python"
    program.write_text(f'#!/bin/sh\nPYTHONPATH={PLAYBOOKS.parent} exec {sys.executable} "$@"\n')
    program.chmod(0o755)
    assert "python" not in call_module("raybench_ray_node", {"state": "probed", "folder": str(folder)})
    (folder / "state.json").write_text(json.dumps({"python": str(program), "role": "worker"}))
    answer = call_module("raybench_ray_node", {"state": "probed", "folder": str(folder)})
    assert answer["python"]["python"] == platform.python_version()
    (tmp_path / "theirs").symlink_to(folder)
    refused = call_module("raybench_ray_node", {"state": "probed", "folder": str(tmp_path / "theirs")})
    assert "is not a folder of user" in refused["msg"]


@pytest.mark.parametrize("name", ["ray_node", "log_collect"])
def test_the_readme_of_a_role_is_what_its_specification_says(name: str) -> None:
    assert (ROLES / name / "README.md").read_text() == readme(ROLES / name), "python -m tests.playbooks.role_readme"


def test_a_port_of_somebody_else_is_named_with_its_holder_and_the_variable_that_moves_ours() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen(1)
        port = other.getsockname()[1]
        with pytest.raises(NodeError) as refused:
            holder.refuse_taken_ports(["start", "--head", f"--port={port}", "--node-manager-port=0"])
        told = str(refused.value)
        assert f"port {port} is taken by " in told
        assert f"(process {os.getpid()}, user " in told
        assert "ray_node_port" in told
        holder.refuse_taken_ports(["start", "--include-dashboard=false", f"--dashboard-port={port}"])  # it has none
    holder.refuse_taken_ports(["start", "--head", f"--port={port}"])


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("hosts", "kept"), [pytest.param(["gpu-01", "gpu-02"], True, marks=pytest.mark.long), (["localhost"], False)]
)
def test_taking_down_other_hosts_leaves_the_record_of_a_cluster_and_its_token(
    hosts: list[str], kept: bool, tmp_path: Path
) -> None:
    folder = tmp_path / "raybench" / "cluster"
    folder.mkdir(parents=True)
    for name, text in (("cluster.json", json.dumps({"hosts": hosts})), ("token", "secret")):
        (folder / name).write_text(text)
    inventory = tmp_path / "hosts.yml"  # of a head alone, without a group of workers
    head = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    inventory.write_text(yaml.safe_dump({"all": {"children": {"ray_head": {"hosts": {"localhost": head}}}}}))
    program = Path(sys.executable).with_name("ansible-playbook")
    done = subprocess.run(
        [program, "playbooks/cluster_down.yml", "-i", inventory, "-e", f"ray_node_folder={tmp_path}/node"],
        cwd=PLAYBOOKS.parent, env=os.environ | {"XDG_STATE_HOME": str(tmp_path)},
        capture_output=True, text=True, check=False, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stdout + done.stderr
    assert sorted(path.name for path in folder.iterdir()) == (["cluster.json", "token"] if kept else [])


_INCOMPLETE = """
- hosts: all
  gather_facts: false
  tasks:
    - {ansible.builtin.fail: {msg: no Python}, when: inventory_hostname == "n3"}
    - ansible.builtin.include_role: {name: ray_node, tasks_from: complete}
    - {ansible.builtin.debug: {msg: "starting on {{ inventory_hostname }}"}}
"""


@pytest.mark.parametrize("allowed", [False, True])
def test_only_hosts_that_are_missing_are_named_so(tmp_path: Path, allowed: bool) -> None:
    """One host at a time: those that had failed for n3's sake were named after it."""
    require_ansible()
    hosts: dict[str, Any] = {name: {"ansible_connection": "local"} for name in ("n1", "n2", "n3", "n4")}
    groups = {"ray_head": {"hosts": {"n1": {}}}}
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": hosts, "children": groups}}))
    (tmp_path / "site.yml").write_text(_INCOMPLETE)
    command = [Path(sys.executable).parent / "ansible-playbook", tmp_path / "site.yml", "-i", tmp_path / "hosts.yml"]
    command += ["--forks", "1", "-e", json.dumps({"ray_node_allow_missing": allowed})]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=100)
    said = " ".join(done.stdout.split())
    assert set(re.findall(r"Nothing was started: (.*?) cannot be part", said)) == (set() if allowed else {"n3"})
    assert [name for name in hosts if f"starting on {name}" in said] == (["n1", "n2", "n4"] if allowed else [])


def cluster_rows(folder: Path, groups: dict[str, Any], *words: str, status: int) -> dict[str, dict[str, Any]]:
    """What ``raybench cluster`` says of hosts that are all this machine, by name."""
    require_ansible()
    variables = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    inventory = folder / "hosts.yml"
    inventory.write_text(
        yaml.safe_dump({"all": {"vars": variables | {"ray_node_folder": str(folder / "node")}, "children": groups}})
    )
    done = subprocess.run(
        [sys.executable, "-m", "raybench", "cluster", *words, "--json", "-i", inventory],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env=os.environ | {"XDG_STATE_HOME": str(folder / "state")},
    )
    assert done.returncode == status, done.stdout + done.stderr
    return {row["name"]: row for row in json.loads(done.stdout)["nodes"]}


def test_one_host_under_two_names_is_refused_before_anything_is_started(tmp_path: Path) -> None:
    groups = {"ray_head": {"hosts": {"a": None}}, "ray_workers": {"hosts": {"b": None}}}
    rows = cluster_rows(tmp_path, groups, "up", "--check", "--python", sys.executable, status=3)
    assert rows["a"]["problem"].startswith("It is the same host as b, under another name")
    assert rows["b"]["problem"].startswith("It is the same host as a, under another name")


@pytest.mark.long  # every day one is taken down, above
def test_a_cluster_may_be_a_head_alone(tmp_path: Path) -> None:
    rows = cluster_rows(tmp_path, {"ray_head": {"hosts": {"a": None}}}, "status", status=1)
    assert (rows["a"]["running"], rows["a"]["problem"]) == (False, "")
