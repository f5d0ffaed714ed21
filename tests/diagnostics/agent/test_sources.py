"""What each source reads, of a machine made of files, and of this one; what is not there is missing and never 0."""

import errno
import os
import shutil
import signal
import socket
import struct
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
from diagnostics.agent.sources.tcp_connections import Connection
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


def peers_then(first: int, second: int, had: int) -> list[Connection]:
    """Two connections that send again, and one that never did."""
    return [
        Connection(b"a", "10.99.8.1", "10.99.8.2", sent_again=first, had_already=had),
        Connection(b"b", "10.99.8.1", "10.99.8.2", sent_again=second),
        Connection(b"c", "fd00::1", "fd00::3", sent_again=0),
    ]


def test_peers_are_asked_for_while_segments_are_sent_again(tmp_path: Path) -> None:
    proc, answers = machine(tmp_path) / "proc", list[list[Connection]]()
    steps = [(7, 100, 0, 9), (12, 105, 0, 9), (400, 400, 90, 109), (401, 401, 90, 109), (500, 450, 189, 120)]
    seen, said, source = [], [], None

    def ask() -> list[Connection]:
        answers.append(said)
        return said

    for machine_wide, first, second, had in steps:
        write(proc, "net/snmp", f"Tcp: OutSegs RetransSegs\nTcp: 1000 {machine_wide}")
        said = peers_then(first, second, had)
        source = source or TcpPeers(proc, ask)
        seen.append(dict(source.read().values))
    assert source is not None
    source.close()
    series = "tcp/10.99.8.2/lost_segments"
    assert seen == [{}, {}, {series: 200 + 90}, {series: 290}, {series: 290 + 39 + 99}]
    assert len(answers) == 3


def test_peers_of_a_machine_that_has_others_each_day_are_bounded(tmp_path: Path) -> None:
    proc, said = machine(tmp_path) / "proc", list[Connection]()
    source = TcpPeers(proc, lambda: said)
    for day in range(1, 9):
        write(proc, "net/snmp", f"Tcp: OutSegs RetransSegs\nTcp: 1000 {1000 * day}")
        said = [Connection(b"%d" % one, "a", f"10.{day}.{one // 250}.{one % 250}", 2) for one in range(1000)]
        said.append(Connection(b"same", "a", "10.0.0.2", 100 * day))
        values = source.read().values
    source.close()
    assert len(source._peers) <= tcp_peers.MAX_COUNTED
    assert values["tcp/10.0.0.2/lost_segments"] == 800


def test_connections_are_what_the_kernel_counts_and_no_more_than_are_allowed() -> None:
    """Real ones, over IPv4 and over IPv6 that carries it."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as one,
        server.accept()[0] as other,
    ):
        one.sendall(bytes(100_000))
        got = 0
        while got < 100_000:
            got += len(other.recv(100_000))
        found = {struct.unpack(">HH", each.ends[:4]): each for each in tcp_connections.connections()}
        mine = found[one.getsockname()[1], server.getsockname()[1]]
        assert (mine.local, mine.peer) == ("127.0.0.1", "127.0.0.1")
        assert 100_000 <= mine.acked <= 100_001
        assert 1 <= mine.segments <= 100
        assert mine.largest > 1000
        assert 0 < mine.round_trip < 1e6
        assert 0 <= mine.window_full <= mine.busy < 5
        assert found[server.getsockname()[1], one.getsockname()[1]].acked <= 1
        assert (server.getsockname()[1], 0) not in found  # it listens
        with pytest.raises(SourceUnavailableError, match="more than 1 TCP connections"):
            tcp_connections.connections(1)


# What Linux 6.18 answered of a connection that lost segments, to a peer of IPv4 by a socket of IPv6.
ANSWER = (Path(__file__).parent / "sock_diag.bin").read_bytes()
INFO_AT = 124  # where its tcp_info begins, behind the length and kind of an attribute
OLD = {"acked": 0, "busy": 0.0, "window_full": 0.0, "segments": 0, "round_trip": 0, "had_already": 0}
OLDEST = {**OLD, "sent_again": 0, "largest": 0}


def test_an_older_kernel_tells_less_and_a_cut_answer_nothing_wrong() -> None:
    (whole,) = tcp_connections.read_connections(ANSWER)
    assert whole[1:] == (
        "10.99.8.1",
        "10.99.8.2",
        2328,
        2080,
        5_662_048_257,
        3.48,
        0.0,
        3_919_411,
        1448,
        3,
    )  # as ss has it
    assert struct.unpack_from("=HH", ANSWER, INFO_AT)[1] == 2
    for size, known in ((216, {"had_already": 0}), (184, {"had_already": 0}), (176, OLD), (104, OLD), (90, OLDEST)):
        cut = bytearray(ANSWER[: INFO_AT + 4 + size])
        struct.pack_into("=I", cut, 0, len(cut))
        struct.pack_into("=H", cut, INFO_AT, 4 + size)
        assert list(tcp_connections.read_connections(bytes(cut))) == [whole._replace(**known)], size
    for length in range(len(ANSWER)):
        assert list(tcp_connections.read_connections(ANSWER[:length])) == []


@pytest.mark.parametrize("error", [errno.EPERM, errno.ENOENT])
def test_a_kernel_that_refuses_says_so(monkeypatch: pytest.MonkeyPatch, error: int) -> None:
    """No tcp_diag in this kernel, or none for this process."""
    refusal = struct.pack("=IHHII", 36, 2, 0, socket.AF_INET, 0) + struct.pack("=i", -error) + bytes(16)
    monkeypatch.setattr(socket.socket, "recvfrom", lambda *_: (refusal, (0, 0)))
    with pytest.raises(SourceUnavailableError, match=f"does not tell its TCP connections: .*{os.strerror(error)}"):
        tcp_connections.connections()


def carried(
    acked: int, busy: int, *, segments: int | None = None, ends: bytes = b"9", peer: str = "10.0.0.2", limited: int = 0
) -> Connection:
    """A connection from this machine; times in milliseconds."""
    count = acked // 1448 + 1 if segments is None else segments
    return Connection(ends, "10.0.0.1", peer, 0, 0, acked, busy / 1e3, limited / 1e3, count, 1448, 53)


def looks(tmp_path: Path, *said: list[Connection]) -> list[dict[str, float]]:
    """What a source reads of these connections, look by look, the first of them when it is opened."""
    proc, seen = tmp_path / "proc", []
    answers, source = iter(said), None
    for number in range(len(said)):
        write(proc, "net/snmp", f"Tcp: OutSegs RetransSegs\nTcp: {1000 * number} 0")
        if source is None:
            source = TcpPaths(proc, lambda: next(answers))
        else:
            seen.append(dict(source.read().values))
    assert source is not None
    source.close()
    return seen


MIB = 2**20


def path_series(carried_bytes: int, seconds: float, peer: str = "10.0.0.2") -> dict[str, float]:
    names = ("carried_bytes", "carrying_seconds", "least_round_trip_microseconds")
    return {f"tcp/{peer}/{name}": value for name, value in zip(names, (carried_bytes, seconds, 53.0), strict=True)}


DEVICES = (
    "Inter-| Receive | Transmit\n face |bytes packets |bytes packets\n"
    "    lo: 1 2 0 0 0 0 0 0 {own} 2 0\n  eth0:9 2 0 0 0 0 0 0 {sent} 2 0\n"
)


def test_nobody_is_asked_while_a_machine_talks_with_itself(tmp_path: Path) -> None:
    proc, asked = tmp_path / "proc", list[int]()

    def ask() -> list[Connection]:
        asked.append(1)
        return []

    def sent(number: int, devices: str) -> int:
        write(proc, "net/snmp", f"Tcp: OutSegs RetransSegs\nTcp: {1000 * number} 0")
        write(proc, "net/dev", devices)
        return number

    sent(0, DEVICES.format(own=10**9, sent=10**6))
    source = TcpPaths(proc, ask)
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
    source.close()


def test_what_paths_carry_is_counted_by_peer(tmp_path: Path) -> None:
    both = [carried(5 * MIB, 100), carried(5 * MIB, 100, ends=b"10"), carried(9 * MIB, 5, ends=b"6", peer="10.0.0.3")]
    later = [carried(8 * MIB, 1600), carried(7 * MIB, 600, ends=b"10"), carried(9 * MIB, 5, ends=b"6", peer="10.0.0.3")]
    assert looks(tmp_path, both, both, later) == [{}, path_series(5 * MIB, 2.0)]


BESIDE = {
    "words now and then": carried(70_000, 9000, segments=400, ends=b"11"),
    "less than an eighth of the busiest": carried(200_000, 9000, ends=b"11"),
    "a full window": carried(4 * MIB, 9000, ends=b"11", limited=8900),
    "this machine": carried(4 * MIB, 9000, ends=b"11", peer="10.0.0.1"),
    "a kernel that does not count": Connection(b"11", "10.0.0.1", "10.0.0.2", 0, largest=1448),
}


@pytest.mark.parametrize("name", BESIDE)
def test_what_tells_nothing_of_a_path_is_not_counted(tmp_path: Path, name: str) -> None:
    seen = looks(tmp_path, [], [carried(4 * MIB, 40), BESIDE[name]])
    assert seen == [path_series(4 * MIB, 0.04)]


def test_a_window_that_was_full_for_a_part_of_the_time_is_taken_out(tmp_path: Path) -> None:
    one = carried(4 * MIB, 1000, limited=400)
    assert looks(tmp_path, [], [one]) == [path_series(4 * MIB, 0.6)]


def test_another_connection_between_the_same_ends_counts_from_its_beginning(tmp_path: Path) -> None:
    assert looks(tmp_path, [carried(9 * MIB, 800)], [carried(3 * MIB, 30, ends=b"later")]) == [
        path_series(3 * MIB, 0.03)
    ]


def test_paths_of_a_machine_that_has_others_each_day_are_bounded(tmp_path: Path) -> None:
    days = [
        [
            carried(2 * MIB, 20, ends=b"%d %d" % (day, one), peer=f"10.{day}.{one // 250}.{one % 250}")
            for one in range(1000)
        ]
        for day in range(1, 5)
    ]
    seen = looks(tmp_path, [], *days)
    assert all(len(one) == 3 * tcp_paths.MAX_PEERS for one in seen)


def test_nobody_asks_for_paths_while_little_is_sent(tmp_path: Path) -> None:
    times = list[int]()

    def ask() -> list[Connection]:
        times.append(1)
        return []

    source = TcpPaths(machine(tmp_path) / "proc", ask)
    for _ in range(3):
        assert source.read().values == {}
    assert len(times) == 1
    source.close()
