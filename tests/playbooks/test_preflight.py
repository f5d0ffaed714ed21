"""preflight.yml, called as a user calls it: exit codes, selection, hostile inventories, and ten hosts with faults."""

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.command import answer
from tests.conftest import REPOSITORY
from tests.lab.cluster import Lab
from tests.lab.fixtures import require_lab
from tests.playbooks.local import require_ansible
from tests.playbooks.preflight_lab import (
    SHIFTED_SECONDS,
    age_packages,
    lab_inventory,
    lower_memlock,
    shift_clock,
    write_inventory,
)
from tests.processes.waiting import come_true, running

PLAYBOOKS = REPOSITORY / "playbooks"
SHORT = ["-e", "preflight_only=host-memlock"]


@pytest.fixture(autouse=True)
def available() -> None:
    require_ansible()


def playbook(*arguments: str | Path, folder: Path = REPOSITORY) -> subprocess.CompletedProcess[str]:
    """ansible-playbook of this environment."""
    program = Path(sys.executable).parent / "ansible-playbook"
    return subprocess.run(
        [program, *arguments], cwd=folder, capture_output=True, text=True, check=False, timeout=200,
        env=os.environ | {"PWD": str(folder)},
    )  # fmt: skip


def inventory(folder: Path, hosts: object) -> Path:
    path = folder / "hosts.yml"
    variables = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    path.write_text(yaml.safe_dump({"all": {"vars": variables, "children": {"ray_head": {"hosts": hosts}}}}))
    return path


def test_on_this_machine_inside_the_folder_and_from_the_root(tmp_path: Path) -> None:
    done = playbook("preflight.yml", *SHORT, "-e", f"preflight_output_dir={tmp_path}/a", folder=PLAYBOOKS)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((tmp_path / "a/preflight.json").read_text())
    assert [check["check"] for check in report["hosts"][0]["checks"]] == ["host-reachable", "host-memlock"]
    hosts = inventory(tmp_path, {"n1": {}})
    output = ["-e", f"preflight_output_dir={tmp_path}/b"]
    checked = playbook(
        "preflight.yml", "-i", hosts, "--check", "--limit", "n1", "--tags", "host-memlock,drift", *output
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    names = [check["check"] for check in json.loads((tmp_path / "b/preflight.json").read_text())["hosts"][0]["checks"]]
    assert names[:2] == ["host-reachable", "host-memlock"]
    assert all(name.startswith("drift-") for name in names[2:])


@pytest.mark.long  # every day with its inventory named, above, and of this machine from its own folder
@pytest.mark.parametrize("named", [False, True])
def test_preflight_yml_from_the_root_as_it_is_typed(tmp_path: Path, named: bool) -> None:
    hosts = ["-i", inventory(tmp_path, {"n1": {}})] if named else []
    done = playbook("preflight.yml", *hosts, *SHORT, "-e", f"preflight_output_dir={tmp_path}/a")
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((tmp_path / "a/preflight.json").read_text())
    assert [host["host"] for host in report["hosts"]] == ["n1" if named else "localhost"]


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        pytest.param(["-e", "raybench_hosts=ray_worker"], marks=pytest.mark.long),
        pytest.param(["--limit", "nosuch"], marks=pytest.mark.long),  # every day of the command, below
    ],
)
def test_no_host_is_no_success(tmp_path: Path, arguments: list[str]) -> None:
    hosts = inventory(tmp_path, {"n1": {}} if arguments else {})
    assert playbook("playbooks/preflight.yml", "-i", hosts, *arguments).returncode != 0


def test_hostile_names_are_refused_and_hostile_values_are_text(tmp_path: Path) -> None:
    names = ["$(touch pwned)", "{{ lookup('pipe', 'touch pwned') }}"]
    refused = playbook("playbooks/preflight.yml", "-i", inventory(tmp_path, {name: {} for name in [*names, "gpu-1"]}))
    assert refused.returncode != 0
    said = " ".join(refused.stdout.split()).replace("''", "'")
    assert f"refused: ['{names[0]}', \"{names[1]}\"]" in said
    assert playbook("playbooks/preflight.yml", "-i", inventory(tmp_path, {"gpu-1\n": {}})).returncode != 0
    values = {
        "preflight_python": "python3; touch pwned",
        "preflight_folders": ["$(touch pwned)", "/a\nb"],
        "preflight_kernel": "`touch pwned`",
        "preflight_environment": {"X": "$(touch pwned)", "Y": '"""; import os; os.system("touch pwned") #\\'},
    }
    hosts = inventory(tmp_path, {"n1": values})
    done = playbook("playbooks/preflight.yml", "-i", hosts, "-e", f"preflight_output_dir={tmp_path}/out")
    assert done.returncode == 2
    (host,) = json.loads((tmp_path / "out/preflight.json").read_text())["hosts"]
    checks = {check["check"]: check for check in host["checks"]}
    assert checks["host-kernel"]["expected"] == "`touch pwned`"
    assert checks["software-python"]["verdict"] == "unknown"
    for folder in (tmp_path, REPOSITORY, PLAYBOOKS, Path("/"), Path.home()):
        assert not (folder / "pwned").exists()


@pytest.mark.parametrize(
    "options",
    [
        ["--only", "nosuch"],
        ["--expect", "gpu_count"],
        ["--expect", "gpu_count=many"],
        ["--limit", "nosuch"],
        ["-i", "/none"],
    ],
)
def test_wrong_use_is_exit_code_2_without_a_traceback(tmp_path: Path, options: list[str]) -> None:
    done = answer("preflight", "--output-dir", str(tmp_path), *options)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) <= 3
    assert list(tmp_path.iterdir()) == []


def test_what_is_expected_arrives_as_it_was_typed_and_both_reports_are_written(tmp_path: Path) -> None:
    expected = ['kernel="6.10"', "versions={torch: 2.10, ray: 1e3}", "gpu_count=08", "governor=on"]
    options = [part for one in expected for part in ("--expect", one)]
    command = [sys.executable, "-m", "raybench", "preflight", "--only", "host-kernel,software,host-expectations"]
    command += ["--output-dir", str(tmp_path), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 1, done.stderr
    assert "localhost" in done.stdout
    assert "localhost:" in done.stderr  # the line a host, since this is no terminal
    (folder,) = tmp_path.iterdir()
    assert {path.name for path in folder.iterdir()} == {"preflight.json", "preflight.html"}
    assert "host-kernel" in (folder / "preflight.html").read_text()
    report = json.loads((folder / "preflight.json").read_text())
    checks = {check["check"]: check for check in report["hosts"][0]["checks"]}
    assert (checks["host-kernel"]["verdict"], checks["host-kernel"]["expected"]) == ("fail", "6.10")
    assert [checks[f"software-{name}"]["expected"] for name in ("torch", "ray")] == ["2.10", "1e3"]
    assert "host-expectations" not in checks  # nothing to say of them


@pytest.fixture
def sleeps() -> str:
    """So many seconds that nothing else on this machine sleeps: other tests are, and nodes of labs."""
    return f"4711{secrets.randbelow(10**9)}"


def hung_smi(folder: Path, sleeps: str = "4711") -> dict[str, object]:
    """Variables of a host whose nvidia-smi does not end, and has a child that does not either."""
    smi = folder / "bin/nvidia-smi"
    smi.parent.mkdir()
    smi.write_text(f"#!/bin/sh\nsleep {sleeps} &\nwait\n")
    smi.chmod(0o755)
    return {"preflight_environment": {"PATH": f"{smi.parent}:/usr/bin:/bin"}}


def test_a_hung_nvidia_smi_is_a_finding_and_is_ended_with_its_children(tmp_path: Path, sleeps: str) -> None:
    hosts = inventory(tmp_path, {"n1": {**hung_smi(tmp_path, sleeps), "preflight_timeout_seconds": 2}})
    command = [sys.executable, "-m", "raybench", "preflight", "-i", hosts, "--json", "--output-dir", tmp_path / "runs"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 1, done.stderr
    (host,) = json.loads(done.stdout)["hosts"]
    checks = {check["check"]: check for check in host["checks"]}
    assert checks["host-probe"]["verdict"] == checks["gpu-driver"]["verdict"] == "fail"
    assert "nvidia_smi" in checks["host-probe"]["seen"]
    assert checks["gpu-ecc"]["verdict"] == "unknown"
    assert checks["host-memory"]["verdict"] in {"pass", "warn"}
    assert come_true(lambda: not running(sleeps))


def test_a_run_that_is_stopped_keeps_what_it_has(tmp_path: Path) -> None:
    hosts = inventory(tmp_path, {"n1": {}, "n2": {**hung_smi(tmp_path), "preflight_timeout_seconds": 300}})
    options = ["-i", hosts, "--json", "--output-dir", tmp_path / "runs", "--only", "host-memlock"]
    command = [sys.executable, "-m", "raybench", "preflight", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("n1:")  # the other one is still being tried
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 3
    first, second = json.loads(out)["hosts"]
    assert [check["check"] for check in first["checks"]] == ["host-reachable", "host-memlock"]
    assert (second["reached"], second["reason"]) == (False, "stopped before it answered")


def test_a_host_that_hangs_holds_nobody_and_fails_in_its_own_name(tmp_path: Path, sleeps: str) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\nexec sleep {sleeps}\n")
    python.chmod(0o755)
    hosts = inventory(tmp_path, {"n1": {}, "n2": {"ansible_python_interpreter": str(python)}, "n3": {}})
    options = ["-e", "preflight_host_timeout_seconds=10", "-e", f"preflight_output_dir={tmp_path}/out"]
    done = playbook("playbooks/preflight.yml", "-i", hosts, *SHORT, *options)
    assert done.returncode == 2
    recap = {line.split()[0]: line for line in done.stdout.partition("PLAY RECAP")[2].splitlines() if "failed=" in line}
    assert {name for name, line in recap.items() if "failed=0" not in line} == {"n2"}
    entries = {host["host"]: host for host in json.loads((tmp_path / "out/preflight.json").read_text())["hosts"]}
    assert {name: host["reached"] for name, host in entries.items()} == {"n1": True, "n2": False, "n3": True}
    assert entries["n2"]["reason"].startswith("no answer within 10 s")
    assert come_true(lambda: not running(sleeps))


@pytest.mark.lab
def test_ten_hosts_by_ssh_with_five_faults() -> None:
    require_lab()
    with Lab(nodes=10) as lab:
        if lab.ssh is None:
            pytest.skip("no sshd on this machine: apt-get install openssh-server")
        names = [node.hostname for node in lab.nodes]
        lab.nodes[2].run(["ip", "link", "set", "eth0", "mtu", "1400"], check=True)
        lower_memlock(lab.nodes[3])
        settings: dict[str, dict[str, object]] = {
            names[4]: {"ansible_python_interpreter": shift_clock(lab.nodes[4])},
            names[5]: {"preflight_python": age_packages(lab.nodes[5])},
        }
        hosts = write_inventory(lab.folder.path / "hosts.yml", lab_inventory(lab, **settings))
        lab.nodes[1].kill()
        command = ["python", "-m", "raybench", "preflight", "-i", hosts, "--json", "--output-dir", lab.folder.shared]
        scratch = Path(tempfile.mkdtemp(prefix="rbt-"))
        done = lab.control.run(command, folder=REPOSITORY, timeout=250, environment={"TMPDIR": str(scratch)})
        left_files = list(scratch.iterdir())
        shutil.rmtree(scratch)
        clean = come_true(lambda: "control" not in lab.leftover_processes())  # ssh's masters are told to end
        left = lab.leftover_processes()
    assert done.returncode == 1, done.stderr
    judge_ten_hosts(json.loads(done.stdout), names)
    assert left_files == []  # no private folder, no control socket of ssh
    assert clean, left


@pytest.mark.lab
def test_why_a_host_gives_no_answer_and_what_a_slow_or_talkative_login_is_called() -> None:
    require_lab()
    with Lab(nodes=6) as lab:
        if lab.ssh is None:
            pytest.skip("no sshd on this machine: apt-get install openssh-server")
        good, unknown_key, broken, slow, hung, loud = (node.hostname for node in lab.nodes)
        for node, shell in zip(lab.nodes[3:], ("sleep 8", "sleep 4711", "printf '[welcome] {hi} '"), strict=True):
            node.run(["sh", "-c", "cat >/root/.bashrc"], text_in=shell + "\n", check=True)
        empty = lab.folder.path / "no_known_hosts"
        empty.touch()
        options = f"-o UserKnownHostsFile={empty} -o IdentityFile={lab.ssh.identity_file} -o BatchMode=yes"
        lab.nodes[2].run(["sh", "-c", "echo 'echo libpython is gone >&2; exit 1' > /root/py; chmod +x /root/py"])
        settings: dict[str, dict[str, object]] = {
            unknown_key: {"ansible_ssh_common_args": options},
            broken: {"ansible_python_interpreter": "/root/py"},
        }
        hosts = write_inventory(lab.folder.path / "hosts.yml", lab_inventory(lab, **settings))
        only = ["--only", "host-memory,host-login,host-clock-spread", "--host-timeout", "17"]
        command = ["python", "-m", "raybench", "preflight", "-i", hosts, "--json", *only]
        done = lab.control.run([*command, "--output-dir", lab.folder.shared], folder=REPOSITORY, timeout=200)
    report = {host["host"]: host for host in json.loads(done.stdout)["hosts"]}
    assert done.returncode == 3, done.stderr
    absent = {name for name, host in report.items() if not host["reached"]}
    assert absent == {unknown_key, broken, hung}
    assert "Host key verification failed" in report[unknown_key]["reason"]
    assert "libpython is gone" in report[broken]["reason"]
    assert report[hung]["reason"].startswith("no answer within 17 s: hangs at login: authentication succeeds")
    assert ".bashrc" in report[hung]["checks"][0]["advice"]
    checks = {name: {check["check"]: check for check in report[name]["checks"]} for name in (good, slow, loud)}
    assert {name: own["host-login"]["verdict"] for name, own in checks.items()} == {
        good: "pass", slow: "warn", loud: "warn",
    }  # fmt: skip
    assert "[welcome] {hi}" in checks[loud]["host-login"]["seen"]
    assert {own["host-clock-spread"]["verdict"] for own in checks.values()} <= {"pass", "unknown"}


def judge_ten_hosts(report: dict[str, Any], names: list[str]) -> None:
    failed = {
        host["host"]: {check["check"]: check for check in host["checks"] if check["verdict"] in {"fail", "error"}}
        for host in report["hosts"]
    }
    assert list(failed) == names
    assert {host: sorted(checks) for host, checks in failed.items() if checks} == {
        names[1]: ["host-reachable"],
        names[2]: ["drift-network"],
        names[3]: ["drift-limits"],
        names[4]: ["host-clock-spread"],
        names[5]: ["drift-versions"],
    }
    assert "mtu eth0: 1400" in failed[names[2]]["drift-network"]["seen"]
    assert "memlock: 65536" in failed[names[3]]["drift-limits"]["seen"]
    behind = float(failed[names[4]]["host-clock-spread"]["seen"].split()[0])
    assert behind == pytest.approx(-SHIFTED_SECONDS, abs=4)
    versions = failed[names[5]]["drift-versions"]
    assert "ray: 2.9.0" in versions["seen"]
    assert "package openssh-server: 0:1.0" in versions["seen"]
    assert all(check["advice"] for checks in failed.values() for check in checks.values())
    assert report["status"] == "partial"
    assert report["summary"]["unreachable"] == [names[1]]
    assert len({len(host["checks"]) for host in report["hosts"] if host["reached"]}) == 1
    fine = report["hosts"][-1]
    ports = [check for check in fine["checks"] if check["check"] == "host-ports"]
    assert [check["verdict"] for check in ports] == ["pass"]
