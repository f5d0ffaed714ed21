"""Preflight and fabric tests by ssh between machines with real verbs devices (Soft-RoCE): EMULATED, and slow.

Other work on the machine moves their figures by a factor of five and more: faults are planted far below that.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab.rdma.flows import side_by_side, used_twice
from tests.lab.rdma.machines import RdmaLab
from tests.lab.virtual.image import image_of_environment, image_unavailable
from tests.playbooks.local import require_ansible

pytestmark = [pytest.mark.lab, pytest.mark.timeout(4 * 3600)]
ROOT = Path(__file__).parents[3]
# Limits are of the lab, whose machines have a tenth of a processor on a bad day: none is met on a good one.
PATIENT = {
    "scope": "all", "seconds": 3, "queue_pairs": 1, "emulated_ratio": 0.1, "start_seconds": 600, "limit_seconds": 300,
    "host_timeout_seconds": 600,
}  # fmt: skip
SLOW = "2mbit"  # of some 50
MOST_SECONDS = 5400


@pytest.fixture(scope="module")
def lab() -> Iterator[RdmaLab]:
    reason = image_unavailable()
    if reason is not None:
        pytest.skip(reason)
    require_ansible()
    with RdmaLab(nodes=4, image=image_of_environment()) as built:
        yield built


@pytest.fixture
def hosts(lab: RdmaLab, tmp_path: Path) -> Path:
    """An inventory, whose machines get the settings for slow ones."""
    path = tmp_path / "hosts.yml"
    settings = "".join(f"    fabric_{name}: {value}\n" for name, value in PATIENT.items())
    path.write_text(lab.inventory() + settings)
    return path


def run(lab: RdmaLab, *words: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    command = lab.inside(*words)
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=os.environ | {"ANSIBLE_CONFIG": str(ROOT / "playbooks/ansible.cfg"), "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        out, errors = process.communicate(timeout=MOST_SECONDS)
    except BaseException:
        process.send_signal(signal.SIGINT)  # it then ends Ansible, which a kill would leave behind
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=120)
        process.kill()
        raise
    return subprocess.CompletedProcess(command, process.returncode, out, errors)


def raybench(lab: RdmaLab, hosts: Path, *words: str) -> tuple[int, dict[str, Any]]:
    """Exit status and report of a command with ``--json``."""
    done = run(lab, sys.executable, "-m", "raybench", *words, "-i", hosts, "--json", folder=hosts.parent)
    assert done.stdout, done.stderr[-3000:]
    report: dict[str, Any] = json.loads(done.stdout)
    return done.returncode, report


def fabric(lab: RdmaLab, hosts: Path, *words: str) -> tuple[int, dict[str, Any]]:
    options = [f"--{name.replace('_', '-')}={value}" for name, value in PATIENT.items() if "_seconds" not in name]
    return raybench(lab, hosts, "fabric", "run", *options, *words)


def troubles(report: dict[str, Any]) -> str:
    hosts = [f"{host['name']}: {host['problems']}" for host in report["hosts"] if host["problems"]]
    tested = [f"{pair['source']} {pair['seen']}" for pair in report["pairs"] if pair["value"] is None]
    return "\n".join([*hosts, *tested, *(f"{one['summary']}: {one['seen']}" for one in report["suspects"])])


def told(report: dict[str, Any]) -> list[tuple[str, list[str], str]]:
    """What stands out for certain: kind, hosts and verdict."""
    return [(one["kind"], one["hosts"], one["verdict"]) for one in report["suspects"] if one["confirmed"]]


def test_ib_write_bw_between_all_machines(lab: RdmaLab, hosts: Path) -> None:
    with lab.watched() as flows:
        status, report = fabric(lab, hosts)
    assert (report["tool"], report["unit"], report["emulated"]) == ("ib_write_bw", "Gb/s", True)
    figures = {(p["source"]["host"], p["destination"]["host"]): p["value"] for p in report["pairs"]}
    assert len(figures) == 12, troubles(report)
    assert all(0.0001 < figure < 20 for figure in figures.values()), figures
    assert {port["driver"] for host in report["hosts"] for port in host["ports"]} == {"rdma_rxe"}
    assert (status, told(report)) == (0, []), troubles(report)  # a pair that was bad once only is a warning
    seen = {(flow.source[-1], flow.destination[-1]) for flow in flows}
    assert seen == {(a[-1], b[-1]) for a, b in figures}  # what was measured did go over RDMA, and nothing else did
    assert used_twice(flows) == []
    assert list(side_by_side(flows))  # pairs of a round are measured at the same time
    print(f"{len(flows)} flows, {len(list(side_by_side(flows)))} times two of them side by side, no host in both")


def test_a_host_that_is_used_twice_at_once_is_seen_on_the_wire(lab: RdmaLab) -> None:
    ports = {2: "18702", 3: "18703"}
    with lab.watched() as flows, contextlib.ExitStack() as stack:
        servers = [stack.enter_context(_ib_write_bw(lab, server, port)) for server, port in ports.items()]
        for server, port in ports.items():
            _wait_until_listening(lab, server, port)
        clients = [
            stack.enter_context(_ib_write_bw(lab, 1, port, f"10.77.0.{server}")) for server, port in ports.items()
        ]
        assert [one.wait(300) for one in (*clients, *servers)] == [0] * 4
    (twice,) = used_twice(flows)
    assert twice.startswith("10.77.0.1: ")


@contextlib.contextmanager
def _ib_write_bw(lab: RdmaLab, number: int, port: str, *server: str) -> Iterator["subprocess.Popen[bytes]"]:
    words = lab.ssh(number, "ib_write_bw", "-x", "1", "--duration=10", "-p", port, *server)
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


def _wait_until_listening(lab: RdmaLab, number: int, port: str) -> None:
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        words = lab.ssh(number, "ss", "-Htln", f"sport = :{port}")
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
        if done.stdout.strip():
            return
    raise TimeoutError(f"ib_write_bw does not listen at port {port}")


def test_ib_write_lat_by_the_playbook(lab: RdmaLab, hosts: Path, tmp_path: Path) -> None:
    playbook = Path(sys.executable).with_name("ansible-playbook")
    path = tmp_path / "fabric.json"
    chosen = ["-e", "fabric_tool=ib_write_lat", "-e", f"fabric_output={path}", "-e", "fabric_latency_ratio=0.05"]
    done = run(lab, playbook, "-i", hosts, ROOT / "playbooks/fabric.yml", *chosen, folder=tmp_path)
    assert done.returncode == 0, done.stdout[-3000:]
    assert "EMULATED" in done.stdout
    report = json.loads(path.read_text())
    assert (report["tool"], report["unit"], report["emulated"]) == ("ib_write_lat", "us", True)
    assert len([p for p in report["pairs"] if p["value"] and 10 < p["value"] < 1e6]) == 12


def test_a_host_that_receives_slowly_is_named(lab: RdmaLab, hosts: Path) -> None:
    lab.limit(3, SLOW)
    try:
        status, report = fabric(lab, hosts)
    finally:
        lab.limit(3, None)
    assert (status, told(report)) == (1, [("host", ["node3"], "fail")]), troubles(report)
    assert "in what it is sent only" in report["suspects"][0]["summary"]


def test_a_slow_way_between_two_good_hosts_is_told_from_a_bad_host(lab: RdmaLab, hosts: Path) -> None:
    lab.limit(2, SLOW, sender=1)
    try:
        status, report = fabric(lab, hosts)
    finally:
        lab.limit(2, None)
    assert (status, told(report)) == (1, [("link", ["node1", "node2"], "fail")]), troubles(report)
    assert report["rounds"]["confirm"] >= 1


def test_a_cable_that_is_out_is_found_by_both_commands(lab: RdmaLab, hosts: Path) -> None:
    lab.cable(4, plugged=False)
    try:
        status, report = fabric(lab, hosts)
        checked, preflight = raybench(lab, hosts, "preflight", "--only=rdma,roce")
    finally:
        lab.cable(4, plugged=True)
    (broken,) = [host for host in report["hosts"] if host["verdict"] != "pass"]
    assert (status, broken["name"], broken["verdict"]) == (1, "node4", "fail")
    assert "DOWN" in broken["problems"][0]["seen"]
    assert len([pair for pair in report["pairs"] if pair["value"]]) >= 6  # the others are measured
    checks = {host["host"]: {check["check"]: check for check in host["checks"]} for host in preflight["hosts"]}
    assert checked == 1
    assert [name for name, found in sorted(checks.items()) if found["rdma-port"]["verdict"] != "pass"] == ["node4"]
    assert checks["node4"]["rdma-port"]["seen"] == "rxe0/1 Down/Polling"
    good = checks["node1"]
    assert {
        name: good[name]["verdict"] for name in ("rdma-modules", "rdma-nodes", "roce-gid", "roce-mtu")
    } == dict.fromkeys(("rdma-modules", "rdma-nodes", "roce-gid", "roce-mtu"), "pass")
    assert (good["rdma-software"]["verdict"], good["rdma-rate"]["verdict"]) == ("warn", "skipped")
    assert "EMULATED" in good["rdma-software"]["seen"]
