"""NICs tested with themselves: a stand-in for ib_write_bw prints what real ones printed, over a made-up /sys."""

import os
import shlex
import stat
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import psutil
import pytest

from raybench.benchmarks.node_tests import nic
from raybench.preflight.node_tests.judgement import judge
from raybench.preflight.node_tests.plan import CHECKS
from tests.benchmarks.node_tests.said import figures_of
from tests.preflight.node_tests.answers import host_tests, load

RECORDED = Path(__file__).parents[2] / "preflight/fabric/recorded"
NIC = tuple(one for one in CHECKS if one.name == "test-nic")
TABLE = """ #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 65536      5000             {0}             {0}             0.376342
"""
PYTHON = shlex.quote(sys.executable)  # python3 may be a script that looks for one, which takes ten times as long
SERVE = "import socket,sys; s=socket.create_server(('', int(sys.argv[1]))); c, _ = s.accept(); c.recv(9)"
CALL = "import socket,sys; socket.create_connection(('127.0.0.1', int(sys.argv[1]))).sendall(b'x')"
SCRIPT = """#!/bin/sh
echo "$@" >> {told}
for last; do :; done
if [ "$last" = 127.0.0.1 ]; then {client}; else {server}; fi
"""
Device = Callable[..., None]
Perftest = Callable[..., Path]


@pytest.fixture
def device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Device:
    """Makes an RDMA device in a /sys of our own."""
    root = tmp_path / "infiniband"
    root.mkdir()
    monkeypatch.setattr(nic, "_ROOT", str(root))

    def make(name: str, *, state: str = "4: ACTIVE", layer: str = "InfiniBand", driver: str = "mlx5_core") -> None:
        port = root / name / "ports/1"
        files = {port / "state": state, port / "rate": "400 Gb/sec (4X NDR)", port / "link_layer": layer,
                 root / name / "hca_type": "MT4129"}  # fmt: skip
        if layer == "Ethernet":
            for index, (kind, gid) in enumerate([("IB/RoCE v1", "fe80:"), ("RoCE v2", "fe80:"),
                                                 ("RoCE v2", "0000:0000:0000:0000:0000:ffff:0a00:0001")]):  # fmt: skip
                files |= {port / f"gid_attrs/types/{index}": kind, port / f"gids/{index}": gid}
        if driver == "rdma_rxe":
            files[root / name / "parent"] = "eth0"
        else:
            (root / "drivers" / driver).mkdir(parents=True, exist_ok=True)
            (root / name / "device").mkdir(parents=True)
            (root / name / "device/driver").symlink_to(root / "drivers" / driver)
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text + "\n")

    return make


@pytest.fixture
def perftest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Perftest:
    """Puts a program in ib_write_bw's place; the file that it returns has its arguments, a line a call."""
    monkeypatch.setattr(nic, "_READY_SECONDS", 60.0)  # how long a start of Python takes beside other tests is no matter

    def put(output: str = "", *, client: str = "", server: str = "") -> Path:
        (tmp_path / "output").write_text(output)
        told, program = tmp_path / "told", tmp_path / "ib_write_bw"
        call = client or f'{PYTHON} -ISc "{CALL}" "$6" && cat {tmp_path / "output"}'
        serve = server or f'exec {PYTHON} -ISc "{SERVE}" "$6" {tmp_path}'  # the folder tells it from another test's
        program.write_text(SCRIPT.format(told=told, client=call, server=serve))
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
        return told

    return put


def verdict(figures: Mapping[str, list[dict[str, object]]]) -> dict[str, tuple[str, str]]:
    """What the check says of each host with these figures."""
    tests = {host: host_tests(*load(), *({"figure": one} for one in own)) for host, own in figures.items()}
    results = judge(tests, {}, NIC)
    found = {host: next(one for one in results[host] if one.check == "test-nic") for host in figures}
    return {host: (one.verdict, one.seen) for host, one in found.items()}


def test_each_port_that_is_up_is_tested_with_itself(
    device: Device, perftest: Perftest, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    told = perftest(TABLE.format("197.31"))
    device("mlx5_0")
    device("mlx5_1", layer="Ethernet")
    device("mlx5_2", state="1: DOWN")
    one, other = figures_of(nic.run, capsys)
    assert (one["device"], one["model"], one["samples"]) == ("mlx5_0/1", "MT4129", [197.31] * 3)
    assert (other["device"], other["status"]) == ("mlx5_1/1", "ok")
    lines = told.read_text().splitlines()
    assert len(lines) == 12  # server and client, three times, of two
    assert "-x" not in lines[0].split()
    assert "-x 2" in lines[-1]  # RoCE version 2 with an IPv4 address
    left = [one for one in psutil.process_iter(["cmdline"]) if str(tmp_path) in (one.info["cmdline"] or [])]
    assert left == []


@pytest.mark.parametrize("name", ["soft_roce_write_bw.txt", "connectx7_with_least_column.txt"])
def test_tables_of_real_tools_are_read(
    name: str,
    device: Device,
    perftest: Perftest,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(nic, "_ROUNDS", 1)
    perftest((RECORDED / name).read_text())
    device("mlx5_0")
    (only,) = figures_of(nic.run, capsys)
    assert only["samples"][0] > 0


@pytest.mark.parametrize(
    ("text", "figure"),
    [(TABLE.format("0.00"), 0.0), ("no table", 0.0), ("#bytes #iterations BW average[MB/sec]\n65536 5000 99.0\n", 0.0),
     (TABLE.format("1e9"), 0.0), ("#bytes\n" * 3, 0.0)],
)  # fmt: skip
def test_what_is_no_figure_is_none(text: str, figure: float) -> None:
    value, problem = nic._average(text)
    assert (value, bool(problem)) == (figure, True)


def test_a_device_that_fails_or_hangs_is_named_and_the_next_one_is_tested(
    device: Device, perftest: Perftest, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nic, "_RUN_SECONDS", 4.0)
    monkeypatch.setattr(nic, "_ROUNDS", 1)
    good = (
        f'echo "{TABLE.format("390.0")}"'  # no client that has to start: it ends within the limit on a busy machine too
    )
    bad = 'echo "Completion with error at client"; echo " Failed status 12: wr_id 0"; exit 17'
    perftest(client=f'case "$2" in mlx5_0) {bad} ;; mlx5_1) exec sleep 300 ;; *) {good} ;; esac')
    for name in ("mlx5_0", "mlx5_1", "mlx5_2"):
        device(name)
    began = time.monotonic()
    first, second, third = figures_of(nic.run, capsys)
    assert time.monotonic() - began < 60
    assert (first["status"], first["reason"]) == ("failed", "ib_write_bw ended with 17: Failed status 12: wr_id 0")
    assert (second["status"], "did not end within 4 s" in second["reason"]) == ("failed", True)
    assert third["status"] == "ok"
    found, seen = verdict({"n1": [dict(one) for one in (first, second, third)]})["n1"]
    assert (found, "mlx5_0/1" in seen, "mlx5_2" in seen) == ("fail", True, False)


def test_without_devices_nothing_is_tested_and_without_perftest_it_is_unknown(
    device: Device, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nic.shutil, "which", lambda *_, **__: None)
    (none,) = figures_of(nic.run, capsys)
    assert (none["status"], none["reason"]) == ("skipped", "no RDMA device here")
    device("mlx5_0", state="1: DOWN")
    (down,) = figures_of(nic.run, capsys)
    assert (down["status"], down["reason"]) == ("missing", "no RDMA port is up; rdma-port says why")
    device("mlx5_1")
    (missing,) = figures_of(nic.run, capsys)
    told = verdict({"none": [dict(none)], "down": [dict(down)], "missing": [dict(missing)]})
    assert [found for found, _ in told.values()] == ["skipped", "unknown", "unknown"]
    assert "ib_write_bw is not installed" in told["missing"][1]


def test_a_nic_that_is_slower_than_its_like_is_named_and_software_is_not_compared(
    device: Device, perftest: Perftest, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nic, "_ROUNDS", 1)
    perftest(TABLE.format("0.42"))
    device("rxe0", driver="rdma_rxe", layer="Ethernet")
    (soft,) = figures_of(nic.run, capsys)
    assert verdict({"n1": [dict(soft)]})["n1"] == (
        "pass",
        "rxe0/1: 0.42 Gb/s of rdma_rxe, which is software: not compared",
    )

    def nics(*speeds: float) -> list[dict[str, object]]:
        return [{"test": "nic-loopback", "device": f"mlx5_{n}/1", "model": "MT4129", "setting": "s", "unit": "Gb/s",
                 "samples": [speed] * 3} for n, speed in enumerate(speeds)]  # fmt: skip

    told = verdict({"n1": nics(390.0, 388.0), "n2": nics(391.0, 195.0), "n3": nics(389.0, 392.0)})
    assert [found for found, _ in told.values()] == ["pass", "fail", "pass"]
    assert told["n2"][1].startswith("mlx5_1/1: 195 Gb/s")
