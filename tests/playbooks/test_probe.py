"""The probe's own parts, on this machine: nothing that hangs, floods or is cut may hang it, fill it or pass for all."""

import ast
import json
import os
import runpy
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from module_utils.raybench_host import command
from module_utils.raybench_probe import files, filters, gather, network, process, programs, settings, system

from raybench.preflight import probe_answer
from tests.preflight.alarm_cases import AlarmCase
from tests.preflight.alarm_table import ALARM_CASES
from tests.preflight.test_checks import CASES
from tests.processes.waiting import come_true, has_ended

_PLAYBOOKS = Path(__file__).resolve().parents[2] / "playbooks"


def answer_of(name: str, script: str, folder: Path, seconds: float = 20) -> dict[str, Any]:
    """What the probe reads of a program whose output is that of a script."""
    program = folder / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    found: dict[str, Any] = process.run([name], environment, seconds, keep=filters.FILTERS.get(name))
    return found


def test_the_newest_messages_of_a_long_kernel_log_are_kept(tmp_path: Path) -> None:
    lines = "yes '[1.0] audit: type=1400 a message that no check wants to see at all' | head -n 60000"
    xid = "[99.0] NVRM: Xid (PCI:0000:18:00): 79, GPU has fallen off the bus."
    answer = answer_of("dmesg", f"{lines}; echo '{xid}'", tmp_path)
    assert (answer["status"], answer["text"]) == ("ok", xid)


def test_devices_at_the_end_of_a_long_lspci_are_kept(tmp_path: Path) -> None:
    other = (
        r"0000:00:00.0 System peripheral [0880]: Intel Device [8086:09a2]\n\tCapabilities: a long line of things\n\n"
    )
    last = "0000:f1:00.0 3D controller [0302]: NVIDIA Corporation GA100 [10de:20b2]"
    script = f"i=0; while [ $i -lt 9000 ]; do printf '{other}'; i=$((i+1)); done; echo '{last}'"
    assert answer_of("lspci", script, tmp_path)["text"] == last


def test_what_has_no_end_is_ended_and_what_is_too_long_is_not_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "MOST_BYTES", 1 << 20)
    monkeypatch.setattr(process, "MOST_CHARACTERS", 1000)
    flood = answer_of("nvidia_smi", "exec yes", tmp_path)
    assert (flood["status"], flood["text"]) == ("failed", "")
    assert "MiB" in flood["error"]
    long = answer_of("nvidia_smi", "printf %01001d 7", tmp_path)
    assert (long["status"], long["error"]) == ("failed", "nvidia_smi printed 1001 characters")
    fits = answer_of("nvidia_smi", "printf %01000d 7; echo x >&2; exit 3", tmp_path)
    assert (fits["status"], len(fits["text"]), fits["error"], fits["rc"]) == ("failed", 1000, "x", 3)


def test_a_program_that_closes_its_output_and_stays_is_timed_out(tmp_path: Path) -> None:
    begun = time.monotonic()
    answer = answer_of("ibstat", "exec >&- 2>&-; exec sleep 60", tmp_path, seconds=0.5)
    assert answer["status"] == "timeout"
    assert time.monotonic() - begun < 30


def test_a_file_system_that_does_not_answer_costs_its_own_reading_only(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    real = os.statvfs

    def hanging(path: str) -> os.statvfs_result:
        if path == str(tmp_path):
            time.sleep(600)
        return real(path)

    monkeypatch.setattr(os, "statvfs", hanging)
    asked = system.FileSystems(["/", str(tmp_path), "/none/such"])
    hung = asked.children[1]
    readings = asked.finish(time.monotonic() + 5)
    assert set(readings["file_systems"]["value"]) == {"/", "/dev/shm"}
    assert readings[f"file_system:{tmp_path}"]["status"] == "timeout"
    assert come_true(lambda: has_ended(hung))
    with pytest.raises(ChildProcessError):
        os.waitpid(hung, 0) and os.waitpid(hung, 0)


def test_the_rules_of_a_container_network_are_left_out() -> None:
    text = (
        "*filter\n:INPUT DROP [0:0]\n:FORWARD DROP [0:0]\n-A KUBE-FIREWALL -j DROP\n-A INPUT -s 10.0.0.0/8 -j REJECT\n"
    )
    assert filters.firewall_rules(text) == ":INPUT DROP [0:0]\n-A INPUT -s 10.0.0.0/8 -j REJECT"
    chain = "type filter hook input priority filter; policy drop;"
    assert filters.firewall_rules(f"table inet filter {{\n\tchain input {{\n\t\t{chain}\n\t}}\n}}") == f"\t\t{chain}"


def test_a_probe_whose_asker_is_gone_ends_with_all_that_it_started(tmp_path: Path) -> None:
    program = tmp_path / "ibstat"
    program.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 600\n")
    program.chmod(0o755)
    script = (
        f"import os, sys\nsys.path.insert(0, {str(_PLAYBOOKS)!r})\n"
        "from module_utils.raybench_probe.runner import Runner\n"
        "r = Runner(dict(os.environ), 300)\nr.start('ibstat', ['ibstat'])\nr.finish()\n"
    )
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    asked = subprocess.Popen([sys.executable, "-c", script], env=environment, stdout=subprocess.PIPE)
    told = tmp_path / "pid"
    assert come_true(lambda: told.exists() and told.read_text().endswith("\n"))
    time.sleep(1)
    assert asked.poll() is None
    assert asked.stdout is not None
    asked.stdout.close()
    assert asked.wait(60) == 1
    assert come_true(lambda: has_ended(int(told.read_text())))


def test_variables_are_found_in_the_files_that_set_them_and_nothing_else_is_carried() -> None:
    text = (
        '# NCCL_ALGO=Tree\nNCCL_IB_DISABLE=1\n  export NCCL_DEBUG="WARN"\nHTTP_PROXY=http://user:secret@proxy\n'
        "NCCL_SOCKET_IFNAME DEFAULT=eth0\nMY_NCCL_ALGO=Ring\nGLOO_SOCKET_IFNAME=\n"
    )
    assert dict(settings.variables_in(text)) == {
        "NCCL_IB_DISABLE": "1",
        "NCCL_DEBUG": "WARN",
        "NCCL_SOCKET_IFNAME": "eth0",
        "GLOO_SOCKET_IFNAME": "",
    }


def test_a_file_system_that_fstab_wants_written_and_is_not(tmp_path: Path) -> None:
    mounted, listed = tmp_path / "mounts", tmp_path / "fstab"
    mounted.write_text(
        "proc /proc proc rw 0 0\n/dev/sda1 / ext4 ro,errors=remount-ro 0 0\n/dev/sdb1 /my\\040data xfs rw 0 0\n"
        "/dev/loop0 /snap/core squashfs ro 0 0\nnas:/sw /sw nfs4 ro,vers=4.2 0 0\n/dev/sdc1 /boot ext4 ro 0 0\n"
    )
    listed.write_text("# fstab\n/dev/sda1 / ext4 errors=remount-ro 0 1\nnas:/sw /sw nfs4 ro 0 0\n")
    assert settings.mounts(str(mounted), str(listed)) == [
        ("/", "ext4", True, False),
        ("/my data", "xfs", False, None),
        ("/sw", "nfs4", True, True),
        ("/boot", "ext4", True, None),
    ]
    assert settings.mounts(str(mounted), str(tmp_path / "none"))[0] == ("/", "ext4", True, None)


ROUTES = (
    "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
    "eth0\t00000000\t010000C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n"
    "eth0\t000000C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
)


def test_routes_are_read_as_the_kernel_writes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "_rows", lambda _: [line.split() for line in ROUTES.splitlines()])
    assert network.routes() == [
        {"interface": "eth0", "network": "0.0.0.0/0", "gateway": "192.0.0.1", "metric": "100"},
        {"interface": "eth0", "network": "192.0.0.0/24", "gateway": "", "metric": "0"},
    ]


Looks = list[dict[tuple[str, str, str], str]]


@pytest.mark.parametrize(
    ("looks", "stuck"),
    [
        ([{("12", "900", "5 0"): "nfsd"}], [["12", "nfsd"]]),  # the same at every look
        ([{("12", "900", "5 0"): "dd"}, {("12", "900", "6 0"): "dd"}], []),  # it was scheduled between
        ([{("12", "900", "5 0"): "dd"}, {}], []),
        ([{}], []),
        ([{("12", "900", "5 0"): "dd"}, {("12", "950", "5 0"): "dd"}], []),  # another process of that number
    ],
)
def test_only_a_process_without_a_step_is_stuck(
    looks: Looks, stuck: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(system.time, "sleep", pauses.append)
    monkeypatch.setattr(system, "_blocked", lambda: looks.pop(0) if len(looks) > 1 else looks[0])
    assert system.uninterruptible() == stuck
    assert sum(pauses) == 2.0 if stuck else sum(pauses) < 0.5


def test_what_the_probe_started_is_its_own() -> None:
    parents = {"50": str(os.getpid()), "60": "50", "70": "1", "80": "80"}
    assert [system._is_ours(pid, parents) for pid in ("50", "60", "70", "80")] == [True, True, False, False]


def test_versions_of_packages_are_those_that_python_would_import(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for path in (first / "torch-2.6.0+cu124.dist-info", second / "torch-2.5.0.dist-info", second / "ray.egg-info",
                 second / "nvidia_nccl_cu12-2.21.5.dist-info", second / "numpy-1.24.2-py3.11.egg-info"):  # fmt: skip
        path.mkdir(parents=True)
    (second / "ray.egg-info/PKG-INFO").write_text("Metadata-Version: 2.1\nName: ray\nVersion: 2.49.1\n")
    other = tmp_path / "python"
    other.symlink_to(sys.executable)
    options = {"prefix": [], "python": str(other)}
    (command,) = [words for name, words in programs.commands(options, os.defpath) if name == "python"]
    environment = os.environ | {"PYTHONPATH": f"{first}{os.pathsep}{second}"}
    said = subprocess.run([command[0], "-S", *command[1:]], env=environment, capture_output=True, text=True, check=True)
    assert json.loads(said.stdout)["packages"] == {
        "torch": "2.6.0+cu124", "ray": "2.49.1", "nvidia-nccl-cu12": "2.21.5", "numpy": "1.24.2",
    }  # fmt: skip


def test_nothing_is_forked_once_there_are_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """A child of a process with threads may wait for ever for a lock: a host's own name then timed out at load."""
    fork, before, beside = os.fork, set(threading.enumerate()), []

    def counted() -> int:
        beside.append(set(threading.enumerate()) - before)  # some of earlier tests may end meanwhile
        return fork()

    monkeypatch.setattr(os, "fork", counted)
    options: dict[str, Any] = {"timeout_seconds": 20, "interval_seconds": 0.1, "python": sys.executable, "prefix": []}
    options |= {"folders": ["/"], "listen_ports": [9], "listen_seconds": 1, "listen_connections": 0, "expectations": {}}
    options |= {"reach_early": [["n2", "127.0.0.1"]], "reach_early_seconds": 0, "environment_variables": {}}
    monkeypatch.setattr(gather, "listen", lambda *_: {"status": "ok"})
    assert gather.gather(options)["readings"]["own_name"]["status"] == "ok"
    assert beside
    assert not any(beside)


@pytest.mark.parametrize(
    ("version", "arguments", "said"),
    [
        ((2, 7, 18), {"source": ""}, f"needs Python 3.8 or later, and {sys.executable} is 2.7.18"),
        ((3, 6, 8), {"source": ""}, "is 3.6.8; set ansible_python_interpreter"),
        ((3, 8, 0), {}, "without its action plugin"),
    ],
)
def test_a_host_that_cannot_be_probed_says_why(
    version: tuple[int, ...],
    arguments: dict[str, str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = (_PLAYBOOKS / "library/raybench_probe.py").read_text()
    ast.parse(text, feature_version=(3, 4))  # an old Python has to read it to say that it is too old
    module = tmp_path / "module.py"
    module.write_text(text.replace("<<INCLUDE_ANSIBLE_MODULE_JSON_ARGS>>", json.dumps(arguments)))
    monkeypatch.setattr(sys, "version_info", version)
    runpy.run_path(str(module), run_name="__main__")
    answer = json.loads(capsys.readouterr().out)
    assert answer["failed"]
    assert said in answer["msg"]


def test_processors_that_a_login_may_not_use_are_not_counted() -> None:
    """As where sshd lies in a cpuset of its own."""
    script = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
    script += "from module_utils.raybench_probe import system; print(system.processor()['usable'], os.cpu_count())"
    environment = {**os.environ, "PYTHONPATH": str(_PLAYBOOKS)}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["1", str(os.cpu_count())]
    assert system.processor()["usable"] == len(os.sched_getaffinity(0))


def test_the_form_of_every_value_is_checked_where_it_arrives() -> None:
    """A reading without a form would be taken as whatever a host sends."""
    assert set(gather._VALUES) <= set(probe_answer._VALUES)


@pytest.mark.parametrize(
    "case", [*CASES, *((c.check, c.fires, "", c.near, "") for c in ALARM_CASES)], ids=lambda case: case[0]
)
def test_the_probe_reads_what_a_check_is_about(
    case: tuple[str, Mapping[str, Any], str, Mapping[str, Any], str],
) -> None:
    """What it does not read is on no host: the check would be unknown everywhere."""
    check, firing, _, missing, _ = case
    source = Path(programs.__file__).read_text()
    for name, content in (*firing.items(), *missing.items()):
        for path in content.get("values", {}) if isinstance(content, dict) else ():
            read = any(fnmatchcase(path, pattern) for pattern in files.FILES.get(name, ()))
            assert read, f"{check}: nothing reads {path}: add it to {name!r} of FILES in raybench_probe/files.py"
        if isinstance(content, str) or "rc" in content:
            program = name.partition(":")[0]
            assert f'"{program}' in source, f"{check}: add {program} to _PROGRAMS in raybench_probe/programs.py"
        elif "value" in content:
            assert name in probe_answer._VALUES, f"{check}: {name} has no form in raybench/preflight/probe_answer.py"


@pytest.mark.parametrize("case", ALARM_CASES, ids=lambda case: case.name)
def test_the_probe_keeps_the_lines_that_an_alarm_is_made_of(case: AlarmCase) -> None:
    """A line that the filter on the host takes out would never be judged."""
    for name in {"dmesg", "lspci"} & set(case.fires):
        kept = filters.FILTERS[name](case.fires[name]).splitlines()
        assert [line for line in case.fires[name].splitlines() if line.strip() and line not in kept] == []
