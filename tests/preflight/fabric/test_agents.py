"""Agents that meet on this machine: real processes, real sockets; a partner that dies, a server that does not start."""

import secrets
import socket
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from raybench.preflight.fabric.conduct import Reply, plan_scan
from raybench.preflight.fabric.ends import EMULATED_DRIVERS
from raybench.preflight.fabric.measurements import figure, measurements
from raybench.preflight.fabric.settings import FabricSettings
from tests.playbooks.local import require_ansible
from tests.preflight.fabric.agents import agents, load
from tests.preflight.fabric.ends import found
from tests.processes.ports import free_port
from tests.processes.waiting import come_true
from tests.processes.waiting import running as processes_with

pytestmark = pytest.mark.usefixtures("ansible")
SETTINGS = FabricSettings(tool="tcp", scope="all", seconds=1, start_seconds=15, limit_seconds=10)


@pytest.fixture
def ansible() -> None:
    require_ansible()


def works(count: int, settings: FabricSettings = SETTINGS) -> dict[str, dict[str, Any]]:
    replies = [
        Reply(
            name=f"h{number}",
            end=found() | {"control_port": free_port()},
            problem="",
            options={"fabric_address": f"127.0.0.{number + 1}"},
        )
        for number in range(count)
    ]
    return dict(plan_scan(replies, settings, token="secret", forks=50).work)


def with_commands(work: dict[str, dict[str, Any]], server: list[str], client: list[str]) -> dict[str, dict[str, Any]]:
    for one in work.values():
        one["commands"]["tcp"] |= {"kind": "process", "server": server, "client": client, "keep_from": ""}
    return work


SERVER = "import socket,sys; s=socket.create_server(('', int(sys.argv[1]))); c, _ = s.accept(); c.recv(9)"
CLIENT = """import socket, sys
socket.create_connection((sys.argv[1], int(sys.argv[2]))).sendall(b'x')
print('spoke to', *sys.argv[1:])"""
LISTEN, CALL = [sys.executable, "-c", SERVER, "{port}"], [sys.executable, "-c", CLIENT, "{peer}", "{port}"]


def test_three_hosts_measure_all_pairs_in_both_directions(tmp_path: Path) -> None:
    with agents(tmp_path, works(3)) as running:
        results = {host: agent.finish() for host, agent in running.items()}
    tests = measurements(results, "tcp")
    assert len(tests) == 6
    assert [one.problem for one in tests] == [None] * 6
    assert all(one.value is not None and one.value > 0.01 for one in tests)
    rounds = [one.round for one in tests]
    assert sorted(set(rounds)) == [0, 1, 2]


def test_processes_are_run_and_none_is_left(tmp_path: Path) -> None:
    own = str(tmp_path)  # tells them from another test's
    with agents(tmp_path, with_commands(works(2), [*LISTEN, own], [*CALL, own])) as running:
        results = {host: agent.finish() for host, agent in running.items()}
    clients = [entry for entries in results.values() for entry in entries if entry["role"] == "client"]
    assert [entry["code"] for entry in clients] == [0, 0]
    assert all("spoke to 127.0.0." in entry["output"] for entry in clients)
    assert come_true(lambda: not processes_with(own)), processes_with(own)


def test_a_server_that_ends_at_once_fails_its_test_with_its_words(tmp_path: Path) -> None:
    broken = ["sh", "-c", "echo Unable to find the Infiniband/RoCE device; exit 1"]
    with agents(tmp_path, with_commands(works(2), broken, CALL)) as running:
        results = {host: agent.finish() for host, agent in running.items()}
    problems = [one.problem or "" for one in measurements(results, "tcp")]
    assert len(problems) == 2
    assert all("ended with status 1" in text and "Unable to find" in text for text in problems)


def test_a_client_that_hangs_is_ended_in_time(tmp_path: Path) -> None:
    settings = FabricSettings(tool="tcp", scope="all", seconds=1, start_seconds=15, limit_seconds=1)
    with agents(tmp_path, with_commands(works(2, settings), LISTEN, ["sleep", "60"])) as running:
        begun = time.monotonic()
        results = {host: agent.finish() for host, agent in running.items()}
    assert time.monotonic() - begun < 40
    assert all("did not end within 2 s" in (one.problem or "") for one in measurements(results, "tcp"))


def test_a_partner_that_dies_stops_nobody_else(tmp_path: Path) -> None:
    settings = FabricSettings(tool="tcp", scope="all", seconds=1, start_seconds=10, limit_seconds=10)
    with agents(tmp_path, works(3, settings)) as running:
        running["h1"].kill()
        results = {host: running[host].finish() for host in ("h0", "h2")}
    tests = {(one.source, one.destination): one for one in measurements(results, "tcp")}
    assert tests["h0", "h2"].value
    assert tests["h2", "h0"].value
    assert "does not answer" in (tests["h0", "h1"].problem or "")


def test_an_agent_that_nobody_asks_ends_with_its_processes(tmp_path: Path) -> None:
    sleeps = f"60{secrets.randbelow(10**9)}"  # for ever: tells them from another test's
    work = with_commands(works(2), LISTEN, ["sleep", sleeps])
    for one in work.values():
        one["lease_seconds"] = 1
    with agents(tmp_path, work) as running:
        for agent in running.values():
            agent.process.wait(60)
        assert come_true(lambda: not processes_with(sleeps)), processes_with(sleeps)
        assert any("nobody asked" in (entry.get("problem") or "") for entry in running["h0"].results())


def test_a_client_without_the_token_gets_no_answer() -> None:
    talk = load("raybench_fabric_talk")
    port = free_port()
    listener = talk.Listener("127.0.0.1", port, "right", lambda _: {"state": "alive"})
    try:
        assert talk.ask("127.0.0.1", port, {"token": "right", "ask": "alive"}) == {"state": "alive"}
        for token in ("wrong", None, "", ["right"]):
            with pytest.raises(OSError, match="is not an agent"):
                talk.ask("127.0.0.1", port, {"token": token, "ask": "alive"}, 2.0)
    finally:
        listener.close()


def test_a_stream_is_counted_where_it_arrives() -> None:
    stream = load("raybench_fabric_stream")
    port = free_port()
    receiver = stream.Receiver("127.0.0.1", port, 2)
    stream.send("127.0.0.1", port, 0.3, 2, lambda: False)
    value, _ = figure(receiver.end(), "tcp")
    assert value > 0.01
    silent = stream.Receiver("127.0.0.1", free_port(), 1)
    with pytest.raises(ValueError, match="not measured"):
        figure(silent.end(0.1), "tcp")


def test_a_host_describes_itself_and_only_reads() -> None:
    end = load("raybench_fabric_end").discover([18500, 18699])
    assert end["hostname"] == socket.gethostname()
    assert 18500 <= end["control_port"] <= 18699
    assert {"lo"} <= {interface["name"] for interface in end["interfaces"]}
    assert isinstance(end["devices"], list)


def test_amd_gpus_are_numbered_as_hip_does(tmp_path: Path) -> None:
    """By the kernel's compute nodes, of which the first are the processors; 10 comes after 2."""
    for number, text in {
        0: "cpu_cores_count 96\nsimd_count 0\nlocation_id 0\n",
        2: "simd_count 304\nlocation_id 3072\ndomain 0\nunique_id 1234567890123456789012\n",
        10: "simd_count 304\nlocation_id 8712\ndomain 1\n",
        11: "",
    }.items():
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "properties").write_text(text)
    gpus = load("raybench_fabric_end").amd_gpus(str(tmp_path))
    assert [path.rpartition("/")[2] for path in gpus] == ["0000:0c:00.0", "0001:22:01.0"]
    assert load("raybench_fabric_end").amd_gpus(str(tmp_path / "none")) == []


def test_a_software_device_on_a_nic_is_not_taken_for_the_nic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Soft-iWARP's device link is that of the NIC below it; its figures are a processor's, and shown as EMULATED."""
    (tmp_path / "drivers/mlx5_core").mkdir(parents=True)
    for name in ("siw_ens1f0", "mlx5_0"):
        (tmp_path / f"devices/{name}/ports/1").mkdir(parents=True)
        (tmp_path / f"devices/{name}/device").mkdir()
        (tmp_path / f"devices/{name}/device/driver").symlink_to(tmp_path / "drivers/mlx5_core")
    (tmp_path / "devices/mlx5_0/hca_type").write_text("MT4129\n")
    monkeypatch.setattr(load("raybench_host.rdma"), "CLASS", str(tmp_path / "devices"))
    devices = load("raybench_fabric_end").discover([18500, 18699])["devices"]
    drivers = {device["name"]: device["driver"] for device in devices}
    assert drivers == {"mlx5_0": "mlx5_core", "siw_ens1f0": "siw"}
    assert "siw" in EMULATED_DRIVERS
