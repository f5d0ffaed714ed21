"""What each source reads, of a machine made of files, and of this one; what is not there is missing and never 0."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from diagnostics.agent.judging import Judge
from diagnostics.agent.series import split_name
from diagnostics.agent.sources import counter_files, tcp_connections, tcp_paths, tcp_peers
from diagnostics.agent.sources.base import SourceUnavailableError
from diagnostics.agent.sources.filesystems import FileSystem
from diagnostics.agent.sources.host import Host
from diagnostics.agent.sources.nics import Nics
from diagnostics.agent.sources.ports import Ports
from diagnostics.agent.sources.processes import Processes
from diagnostics.agent.sources.tcp_paths import TcpPaths
from diagnostics.agent.sources.tcp_peers import TcpPeers
from diagnostics.agent.window import Window

from .machine import PROC, machine, nic, port, write


def test_a_port_is_read_whole(tmp_path: Path) -> None:
    port(tmp_path, "mlx5_0")
    values = Ports(tmp_path / "sys/class/infiniband").read().values
    assert values["port/mlx5_0:1/sent_bytes"] == 4000  # words of four bytes
    assert values["port/mlx5_0:1/link_downed"] == 1
    assert values["port/mlx5_0:1/cnp_handled"] == 6
    assert values["port/mlx5_0:1/up"] == 1
    assert values["port/mlx5_0:1/rate_gbit_per_s"] == 400
    assert all(split_name(name) for name in values)
    assert "port/mlx5_0:1/retransmitted_packets" not in values  # EFA's


def test_ports_of_efa_have_names_of_their_own(tmp_path: Path) -> None:
    folder = tmp_path / "rdmap0s6/ports/1"
    for name, count in {"tx_bytes": 64, "rx_bytes": 32, "rx_drops": 1, "retrans_pkts": 9}.items():
        write(folder, f"hw_counters/{name}", count)
    assert Ports(tmp_path).read().values == {
        "port/rdmap0s6:1/sent_bytes": 64,
        "port/rdmap0s6:1/received_bytes": 32,
        "port/rdmap0s6:1/receive_drops": 1,
        "port/rdmap0s6:1/retransmitted_packets": 9,
    }


def test_a_machine_without_ports_says_so(tmp_path: Path) -> None:
    with pytest.raises(SourceUnavailableError, match="no port"):
        Ports(tmp_path)


def test_a_device_that_vanishes_is_missing_and_is_read_again_when_it_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counter_files, "RELIST_SECONDS", 0.0)
    port(tmp_path, "mlx5_0")
    gone = port(tmp_path, "mlx5_1")
    ports = Ports(tmp_path / "sys/class/infiniband")
    assert {split_name(name).device for name in ports.read().values} == {"mlx5_0:1", "mlx5_1:1"}
    shutil.rmtree(gone.parents[1])
    assert {split_name(name).device for name in ports.read().values} == {"mlx5_0:1"}
    port(tmp_path, "mlx5_1", symbol_error=3)
    assert ports.read().values["port/mlx5_1:1/symbol_errors"] == 3


def test_a_counter_that_says_no_number_is_missing_until_it_does(tmp_path: Path) -> None:
    folder = port(tmp_path, "mlx5_0")
    ports = Ports(tmp_path / "sys/class/infiniband")
    write(folder, "counters/symbol_error", "N/A (no PMA)")
    assert "port/mlx5_0:1/symbol_errors" not in ports.read().values
    write(folder, "counters/symbol_error", 12)
    assert ports.read().values["port/mlx5_0:1/symbol_errors"] == 12


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_no_file_stays_open_after_the_end(tmp_path: Path) -> None:
    before = open_files()
    machine(tmp_path)
    sources = [Ports(tmp_path / "sys/class/infiniband"), Nics(tmp_path / "sys/class/net"), Host(tmp_path / "proc")]
    assert open_files() > before
    for source in sources:
        source.close()
    assert open_files() == before


def test_interfaces_of_hardware_are_read_and_others_only_where_there_is_none(tmp_path: Path) -> None:
    folder = tmp_path / "sys/class/net"
    shutil.rmtree(nic(tmp_path, "veth1") / "device")
    shutil.rmtree(nic(tmp_path, "lo") / "device")
    shutil.rmtree(nic(tmp_path, "docker0") / "device")
    write(folder / "docker0", "bridge/bridge_id", "8000")
    assert {split_name(name).device for name in Nics(folder).read().values} == {"veth1"}
    nic(tmp_path, "eth0")
    values = Nics(folder).read().values
    assert {split_name(name).device for name in values} == {"eth0"}
    assert values["nic/eth0/rate_gbit_per_s"] == 100
    assert values["nic/eth0/up"] == 1


@pytest.mark.parametrize(
    ("file", "text", "metric"), [("speed", "-1", "rate_gbit_per_s"), ("operstate", "unknown", "up")]
)
def test_an_interface_that_does_not_say_is_unknown(tmp_path: Path, file: str, text: str, metric: str) -> None:
    write(nic(tmp_path, "tap0"), file, text)
    values = Nics(tmp_path / "sys/class/net").read().values
    assert f"nic/tap0/{metric}" not in values
    assert "nic/tap0/sent_bytes" in values


def test_the_host_is_read_in_units_of_the_table(tmp_path: Path) -> None:
    values = dict(Host(machine(tmp_path) / "proc").read().values)
    ticks, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    itself = {name: values.pop(name) for name in list(values) if name.startswith("agent/")}
    assert min(itself.values()) > 0
    assert values == {
        "host/cpu/busy_seconds": 150 / ticks,
        "host/cpu/iowait_seconds": 25 / ticks,
        "host/cpu/stolen_seconds": 5 / ticks,
        "host/cpu/cores": 2,
        "host/load/one_minute": 0.5,
        "host/memory/total_bytes": 1000 * 1024,
        "host/memory/available_bytes": 600 * 1024,
        "host/swap/total_bytes": 100 * 1024,
        "host/swap/used_bytes": 10 * 1024,
        "host/swap/in_bytes": 3 * page,
        "host/swap/out_bytes": 4 * page,
        "host/memory/oom_kills": 1,
        "pressure/cpu/some_seconds": 2,
        "pressure/cpu/full_seconds": 0,
        "disk/nvme0n1/read_bytes": 5120,
        "disk/nvme0n1/written_bytes": 10240,
        "disk/nvme0n1/busy_seconds": 1.5,
        "host/tcp/sent_segments": 1000,
        "host/tcp/retransmitted_segments": 7,
        "host/tcp/needlessly_retransmitted_segments": 5,
    }


@pytest.mark.parametrize("name", sorted(set(PROC) - {"stat"}))
def test_a_file_that_is_missing_or_damaged_costs_its_own_series_only(tmp_path: Path, name: str) -> None:
    whole = set(Host(machine(tmp_path / "whole") / "proc").read().values)
    (machine(tmp_path / "missing") / "proc" / name).unlink()
    write(machine(tmp_path / "damaged") / "proc", name, "\x00 what")
    for folder in ("missing", "damaged"):
        left = set(Host(tmp_path / folder / "proc").read().values)
        assert left < whole
        assert "host/cpu/busy_seconds" in left


def test_this_machine_is_read_as_it_is() -> None:
    values = Host(Path("/proc")).read().values
    assert values["host/cpu/busy_seconds"] > 0
    assert values["host/memory/available_bytes"] <= values["host/memory/total_bytes"]
    assert all(split_name(name) for name in values)


def test_a_process_is_read_until_it_ends() -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdout.readline()
    processes = Processes(Path("/proc"), (child.pid, 2**22 + 1))
    try:
        values = processes.read().values
        assert values[f"process/{child.pid}/resident_bytes"] > 0
        assert values[f"process/{child.pid}/stopped"] == 0
        assert f"process/{child.pid}/voluntary_switches" in values
        child.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
        assert processes.read().values[f"process/{child.pid}/stopped"] == 1
    finally:
        child.kill()
        child.wait()
        child.stdin.close()
        child.stdout.close()
    assert processes.read().values == {}
    assert processes.pids == ()


def test_a_name_of_a_process_may_hold_anything(tmp_path: Path) -> None:
    fields = ["S", *["0"] * 8, "3", "0", "200", "50", *["0"] * 8, "10", *["0"] * 20]
    write(tmp_path / "7", "stat", f"7 (a) R (b) {' '.join(fields)}")
    write(tmp_path / "7", "status", "Name: x\nvoluntary_ctxt_switches:\t15\nnonvoluntary_ctxt_switches:\t4")
    assert Processes(tmp_path, (7,)).read().values == {
        "process/7/resident_bytes": 10 * os.sysconf("SC_PAGE_SIZE"),
        "process/7/cpu_seconds": 250 / os.sysconf("SC_CLK_TCK"),
        "process/7/major_faults": 3,
        "process/7/stopped": 0,
        "process/7/uninterruptible": 0,
        "process/7/voluntary_switches": 15,
        "process/7/involuntary_switches": 4,
    }


def test_a_file_system_says_its_space_and_one_that_is_gone_why(tmp_path: Path) -> None:
    values = FileSystem(tmp_path).read().values
    assert 0 < values[f"filesystem/{tmp_path}/free_bytes"] <= values[f"filesystem/{tmp_path}/total_bytes"]
    with pytest.raises(SourceUnavailableError, match="No such file"):
        FileSystem(tmp_path / "gone").read()


@pytest.mark.parametrize("name", ["my data", "Bücher", "x" * 250])
def test_a_folder_of_any_name_is_watched_and_no_end_of_the_agent(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    values = FileSystem(folder).read().values
    window = Window(host="a")
    window.add("filesystem", 1.0, {one: 0.0 if one.endswith("free_bytes") else 1e9 for one in values})
    (found,) = Judge().observed(window)
    assert f"{name[-100:]}: 0 MiB of 0.9 GiB are free" in found.finding.summary


def test_a_series_that_no_table_has_is_said_and_is_no_end_of_the_agent() -> None:
    window = Window(host="a")
    window.add("nics", 1.0, {"nic/odd name/up": 1.0, "nic/eth0/up": 1.0})
    assert window.unknown_series == "nic/odd name/up"
    assert window.latest("nic/eth0/up") == 1


# As iproute2 6.1 wrote it, its lines cut; the last is that of one that never sent a segment again.
SS = """\
ESTAB 0      4163376 [::ffff:10.99.8.1]:34048 [::ffff:10.99.8.2]:5999 bbr retrans:0/{first} lost:40 dsack_dups:{had}
ESTAB 0      0       10.99.8.1%r0:22     10.99.8.2:34050 cubic wscale:10,10 retrans:1/{second} lost:1 reordering:270
CLOSE-WAIT 0 0       [fd00::1]:80        [fd00::3]:34050 cubic wscale:10,10 rto:204 rtt:0.019/0.009
"""


def test_peers_are_asked_for_while_segments_are_sent_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, asked = machine(tmp_path / "machine"), tmp_path / "asked"
    proc = root / "proc"
    write(proc, "net/sockstat", "TCP: inuse 3 orphan 0 tw 0 alloc 8 mem 948")
    program = tmp_path / "bin/ss"
    write(tmp_path, "bin/ss", f"#!/bin/sh\necho >>{asked}\nexec cat {tmp_path}/said")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    steps = [(7, 100, 0, 9), (12, 105, 0, 9), (400, 400, 90, 109), (401, 401, 90, 109), (500, 450, 189, 120)]
    seen = []
    source = None
    for machine_wide, first, second, had in steps:
        write(proc, "net/snmp", f"Tcp: OutSegs RetransSegs\nTcp: 1000 {machine_wide}")
        (tmp_path / "said").write_text(SS.format(first=first, second=second, had=had))
        source = source or TcpPeers(proc)
        seen.append(dict(source.read().values))
    series = "tcp/10.99.8.2/lost_segments"
    assert seen == [{}, {}, {series: 200 + 90}, {series: 290}, {series: 290 + 39 + 99}]
    assert len(asked.read_text()) == 3


def test_peers_of_a_machine_that_has_others_each_day_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proc, said = tmp_path / "proc", [""]
    write(proc, "net/sockstat", "TCP: inuse 3 orphan 0 tw 0 alloc 8 mem 948")
    monkeypatch.setattr(tcp_connections, "asked", lambda: said[0])
    write(proc, "net/snmp", "Tcp: OutSegs RetransSegs\nTcp: 1000 0")
    source = TcpPeers(proc)
    for day in range(1, 9):
        write(proc, "net/snmp", f"Tcp: OutSegs RetransSegs\nTcp: 1000 {1000 * day}")
        ends = [f"10.{day}.{one // 250}.{one % 250}" for one in range(1000)]
        said[0] = "".join(f"ESTAB 0 0 10.0.0.1:22 {end}:9 cubic retrans:0/2\n" for end in ends)
        said[0] += f"ESTAB 0 0 10.0.0.1:22 10.0.0.2:9 cubic retrans:0/{100 * day}\n"
        values = source.read().values
    assert len(source._peers) <= tcp_peers.MAX_COUNTED
    assert values["tcp/10.0.0.2/lost_segments"] == 800


@pytest.mark.parametrize("sockstat", ["TCP: inuse 3 orphan 0 tw 0 alloc 20001 mem 948", "TCP6: inuse 4"])
def test_peers_are_not_asked_for_among_too_many_connections(tmp_path: Path, sockstat: str) -> None:
    proc = machine(tmp_path) / "proc"
    write(proc, "net/sockstat", sockstat)
    with pytest.raises(SourceUnavailableError, match="more than 20,000 TCP connections, or an unknown number"):
        TcpPeers(proc)


# As iproute2 6.1 wrote it on Linux 6.18, words left out.
CARRIED = (
    "ESTAB 0 0 {local} {peer} bbr wscale:10,10 rto:204 rtt:68.5/9.73 ato:40 mss:1448 pmtu:1500 rcvmss:536 advmss:1448 "
    "cwnd:170 bytes_sent:{acked} bytes_acked:{acked} segs_out:{segments} data_segs_out:{segments} bbr:(bw:1bps,mrtt:9) "
    "delivery_rate 14813848bps busy:{busy}ms {limited} snd_wnd:64 minrtt:0.053"
)


def carried(
    acked: int, busy: int, *, segments: int | None = None, port: int = 9, peer: str = "10.0.0.2", limited: str = ""
) -> str:
    """A connection from this machine as ``ss`` shows it."""
    count = acked // 1448 + 1 if segments is None else segments
    local = f"10.0.0.1:{port}"
    return CARRIED.format(local=local, peer=f"{peer}:5", acked=acked, segments=count, busy=busy, limited=limited)


def looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *said: list[str]) -> list[dict[str, float]]:
    """What a source reads of these connections, look by look, the first of them when it is opened."""
    proc, lines = tmp_path / "proc", [""]
    write(proc, "net/sockstat", "TCP: inuse 3 orphan 0 tw 0 alloc 8 mem 948")
    monkeypatch.setattr(tcp_connections, "asked", lambda: lines[0])
    source, seen = None, []
    for number, one in enumerate(said):
        write(proc, "net/snmp", f"Tcp: OutSegs RetransSegs\nTcp: {1000 * number} 0")
        lines[0] = "\n".join(one)
        if source is None:
            source = TcpPaths(proc)
        else:
            seen.append(dict(source.read().values))
    return seen


MIB = 2**20


def path_series(carried_bytes: int, seconds: float, peer: str = "10.0.0.2") -> dict[str, float]:
    names = ("carried_bytes", "carrying_seconds", "least_round_trip_microseconds")
    return {f"tcp/{peer}/{name}": value for name, value in zip(names, (carried_bytes, seconds, 53.0), strict=True)}


DEVICES = (
    "Inter-| Receive | Transmit\n face |bytes packets |bytes packets\n"
    "    lo: 1 2 0 0 0 0 0 0 {own} 2 0\n  eth0:9 2 0 0 0 0 0 0 {sent} 2 0\n"
)


def test_nobody_is_asked_while_a_machine_talks_with_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    proc, asked = tmp_path / "proc", []
    write(proc, "net/sockstat", "TCP: inuse 3 orphan 0 tw 0 alloc 8 mem 948")
    monkeypatch.setattr(tcp_connections, "asked", lambda: asked.append(1) or "")

    def sent(number: int, devices: str) -> int:
        write(proc, "net/snmp", f"Tcp: OutSegs RetransSegs\nTcp: {1000 * number} 0")
        write(proc, "net/dev", devices)
        return number

    sent(0, DEVICES.format(own=10**9, sent=10**6))
    source = TcpPaths(proc)
    expected = [
        (DEVICES.format(own=9 * 10**9, sent=10**6 + 1000), 1),  # to itself alone
        (DEVICES.format(own=9 * 10**9, sent=10**6 + 40_000), 1),
        (DEVICES.format(own=9 * 10**9, sent=10**6 + 70_000), 2),  # in all since the last look
        (DEVICES.format(own=9 * 10**9, sent=500), 3),  # an interface has gone
        ("Inter-|\n face |\n  eth0: 1 2\n", 4),  # of another form: as if all went to others
    ]
    for number, (devices, times) in enumerate(expected, 1):
        sent(number, devices)
        source.read()
        assert len(asked) == times, devices


def test_what_paths_carry_is_counted_by_peer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    both = [carried(5 * MIB, 100), carried(5 * MIB, 100, port=10), carried(9 * MIB, 5, peer="[::ffff:10.0.0.3]")]
    later = [carried(8 * MIB, 1600), carried(7 * MIB, 600, port=10), carried(9 * MIB, 5, peer="[::ffff:10.0.0.3]")]
    assert looks(tmp_path, monkeypatch, both, both, later) == [{}, path_series(5 * MIB, 2.0)]


BESIDE: dict[str, str] = {
    "words now and then": carried(70_000, 9000, segments=400, port=11),
    "less than an eighth of the busiest": carried(200_000, 9000, port=11),
    "a full window": carried(4 * MIB, 9000, port=11, limited="rwnd_limited:8900ms(98.9%)"),
    "this machine": carried(4 * MIB, 9000, port=11, peer="10.0.0.1"),
    "a kernel that does not count": "ESTAB 0 0 10.0.0.1:11 10.0.0.2:5 cubic mss:1448 rtt:0.1/0.1",
    "no connection": "Cannot open netlink socket: Protocol not supported",
}


@pytest.mark.parametrize("name", BESIDE)
def test_what_tells_nothing_of_a_path_is_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    seen = looks(tmp_path, monkeypatch, [], [carried(4 * MIB, 40), BESIDE[name]])
    assert seen == [path_series(4 * MIB, 0.04)]


def test_a_window_that_was_full_for_a_part_of_the_time_is_taken_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = carried(4 * MIB, 1000, limited="rwnd_limited:400ms(40.0%)")
    assert looks(tmp_path, monkeypatch, [], [line]) == [path_series(4 * MIB, 0.6)]


def test_another_connection_between_the_same_ends_counts_from_its_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert looks(tmp_path, monkeypatch, [carried(9 * MIB, 800)], [carried(3 * MIB, 30)]) == [path_series(3 * MIB, 0.03)]


def test_paths_of_a_machine_that_has_others_each_day_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    days = [
        [carried(2 * MIB, 20, peer=f"10.{day}.{one // 250}.{one % 250}") for one in range(1000)] for day in range(1, 5)
    ]
    seen = looks(tmp_path, monkeypatch, [], *days)
    assert all(len(one) == 3 * tcp_paths.MAX_PEERS for one in seen)


def test_nobody_asks_for_paths_while_little_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    proc, times = machine(tmp_path) / "proc", []
    write(proc, "net/sockstat", "TCP: inuse 3 orphan 0 tw 0 alloc 8 mem 948")
    monkeypatch.setattr(tcp_connections, "asked", lambda: times.append(1) or "")
    source = TcpPaths(proc)
    for _ in range(3):
        assert source.read().values == {}
    assert len(times) == 1
