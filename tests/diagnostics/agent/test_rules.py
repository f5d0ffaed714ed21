"""Each rule over samples: what it says of a fault, after how many seconds, and that its near misses are no finding."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from diagnostics.agent import rules
from diagnostics.agent.judging import QUIET_SECONDS, Judge, Told
from diagnostics.agent.messages import Event
from diagnostics.agent.rules import RULES, live_rules
from diagnostics.agent.rules.base import LiveRule, Observed
from diagnostics.agent.slope import slope_interval
from diagnostics.agent.window import MAX_SERIES, Point, Window

MIB = 1 << 20
Values = Callable[[int], float | None] | float


@dataclass(frozen=True, slots=True)
class Seen:
    """A finding, and the second in which it was told."""

    second: int
    observed: Observed

    @property
    def rule(self) -> str:
        return self.observed.finding.rule


def play(
    series: Mapping[str, Values],
    seconds: int,
    *,
    events: Mapping[int, Sequence[tuple[str, str, str]]] | None = None,
    pids: Sequence[int] = (),
) -> list[Seen]:
    """What is told while series take their values second by second; None is missing from its reading."""
    window, judge, told, seen = Window(host="node-7"), Judge(), Told(), []
    window.pids, window.pids_ever = frozenset(pids), set(pids)
    for second in range(seconds):
        values = {name: value(second) if callable(value) else value for name, value in series.items()}
        sources: dict[str, dict[str, float]] = {}
        for name, value in values.items():
            sources.setdefault(name.partition("/")[0], {}).update({} if value is None else {name: value})
        for source, read in sources.items():
            window.add(source, float(second), read)
        for source, device, text in (events or {}).get(second, ()):
            window.events.append(Event(monotonic_seconds=float(second), source=source, device=device, text=text))
        window.now = float(second)
        seen += [Seen(second, one) for one in told.fresh(judge.observed(window), window.now)]
        assert judge.broken == {}
    return seen


def probes(second: int) -> float:
    """A counter that grows by 90 a second from the tenth second on, and by 9 from the fifteenth."""
    return 90.0 * min(max(second - 10, 0), 5) + 9 * max(second - 15, 0)


def from_second(start: int, step: float, before: float = 0.0) -> Callable[[int], float]:
    """A counter that grows by ``step`` a second from then on."""
    return lambda second: before + max(second - start + 1, 0) * step


def between(start: int, end: int, value: float = 1.0, otherwise: float = 0.0) -> Callable[[int], float]:
    return lambda second: value if start <= second < end else otherwise


def held_back(periods: Values) -> dict[str, Values]:
    """A rank's process whose cgroup may use half a processor."""
    return {
        "process/7/held_back_periods": periods,
        "process/7/cpu_limit_periods": lambda second: 10.0 * second,
        "process/7/held_back_seconds": lambda second: 0.5 * second,
        "process/7/cpu_limit_processors": 0.5,
    }


PORT = "port/mlx5_3:1"
XID = "NVRM: Xid (PCI:0000:1b:00): 79, pid=4117, GPU has fallen off the bus."
OOM = "Out of memory: Killed process 4242 (python) total-vm:1kB, anon-rss:1kB"
BUSY = {
    "host/cpu/cores": 4.0,
    "host/cpu/busy_seconds": from_second(0, 4.0),
    "pressure/cpu/some_seconds": from_second(0, 0.6),
}
# series, events, process ids; the rule, words of its summary, and the seconds from the fault (second 10) to the finding
FAULTS: dict[str, tuple[Mapping[str, Values], Mapping[int, Sequence[tuple[str, str, str]]], str, str, int]] = {
    "symbol errors": ({f"{PORT}/symbol_errors": from_second(10, 820, 5)}, {}, "port-errors", "mlx5_3:1: 820 symbol", 0),
    "few errors a second": ({f"{PORT}/symbol_errors": from_second(10, 3)}, {}, "port-errors", "12 symbol errors", 3),
    "CRC errors": ({"nic/eth0/crc_errors": from_second(10, 5)}, {}, "port-errors", "10 CRC errors", 1),
    "recoveries": ({f"{PORT}/link_recoveries": from_second(10, 5)}, {}, "port-errors", "5 link recoveries", 0),
    "time-outs": ({f"{PORT}/ack_timeouts": from_second(10, 1)}, {}, "rdma-retransmissions", "2 acknowledgements", 1),
    "refused": ({f"{PORT}/packet_sequence_errors": from_second(10, 60)}, {}, "rdma-retransmissions", "120 ", 1),
    "discards": ({f"{PORT}/send_discards": from_second(10, 400)}, {}, "packets-discarded", "1,200 packets", 2),
    "TCP loss": (
        {
            "host/tcp/retransmitted_segments": from_second(10, 40),
            "host/tcp/sent_segments": from_second(0, 1000),
        },
        {},
        "tcp-retransmissions",
        "TCP: 2.7% of the segments of the last 3 s were lost and sent again (80 of 3,000)",
        2,
    ),
    "TCP loss to a peer, some of it needless": (
        {
            "host/tcp/retransmitted_segments": from_second(10, 90),
            "host/tcp/needlessly_retransmitted_segments": from_second(11, 30),
            "host/tcp/sent_segments": from_second(0, 1000),
            "tcp/10.0.0.9/lost_segments": from_second(9, 1),
            "tcp/10.0.0.3/lost_segments": lambda second: 55.0 * (second - 9) if second >= 10 else None,
        },
        {},
        "tcp-retransmissions",
        "lost and sent again (60 of 3,000; 55 to 10.0.0.3; 2 to 10.0.0.9)",
        1,
    ),
    "TCP loss to peers of which one had its loss before": (
        {
            "host/tcp/retransmitted_segments": from_second(10, 60),
            "host/tcp/sent_segments": from_second(0, 1000),
            "tcp/10.0.0.9/lost_segments": 40_000.0,
            "tcp/fd00::3/lost_segments": from_second(10, 55, 900),
        },
        {},
        "tcp-retransmissions",
        "lost and sent again (60 of 3,000; 55 to fd00::3)",
        1,
    ),
    "link down": ({f"{PORT}/up": between(0, 10)}, {}, "link-down", "mlx5_3:1: the link is down", 0),
    "link flaps": (
        {"nic/eth0/up": 1.0, "nic/eth0/carrier_changes": from_second(10, 2)},
        {},
        "link-down",
        "went down and came back",
        0,
    ),
    "port vanishes": (
        {f"{PORT}/up": lambda second: 1.0 if second < 10 else None, "port/mlx5_0:1/up": 1.0},
        {},
        "device-vanished",
        "mlx5_3:1 is gone",
        2,
    ),
    "NIC's firmware": (
        {"host/cpu/cores": 4.0},
        {10: [("kernel", "", "mlx5_core 0000:b1:00.0: poll_health:835:(pid 0): device's health compromised")]},
        "nic-fault",
        "0000:b1:00.0",
        0,
    ),
    "hot": (
        {
            "gpu/3/throttle_thermal": between(10, 99),
            "gpu/3/throttle_hardware": between(10, 99),
            "gpu/3/temperature_celsius": 89.0,
        },
        {},
        "gpu-throttled",
        "GPU 3: clocks are lowered for its temperature (89 °C)",
        2,
    ),
    "power brake": ({"gpu/0/throttle_power_brake": between(10, 99)}, {}, "gpu-throttled", "power brake", 2),
    "uncorrected": ({"gpu/0/ecc_uncorrected_errors": from_second(10, 1)}, {}, "gpu-memory-errors", "1 uncorrected", 0),
    "remap failed": ({"gpu/0/row_remap_failed": between(10, 99)}, {}, "gpu-memory-errors", "could not be remapped", 0),
    "remap pending": ({"gpu/0/row_remap_pending": between(10, 99)}, {}, "gpu-memory-errors", "waits for a reset", 0),
    "Xid": ({"host/cpu/cores": 4.0}, {10: [("kernel", "", XID)]}, "gpu-xid", "Xid 79 on PCI:0000:1b:00", 0),
    "NVLink": ({"gpu/0/nvlink_errors": from_second(10, 8)}, {}, "nvlink-errors", "16 NVLink errors", 1),
    "NVLink down": ({"gpu/0/nvlinks_up": between(0, 10, 18, 17)}, {}, "nvlink-errors", "17 NVLinks active, 18", 0),
    "swaps": ({"host/swap/in_bytes": from_second(10, 3 * MIB)}, {}, "node-swaps", "6 MiB were read back", 1),
    "pressure": ({"pressure/memory/full_seconds": from_second(10, 0.3)}, {}, "memory-pressure", "of the last 10 s", 3),
    "nothing available": (
        {
            "host/memory/available_bytes": between(10, 99, 100 * MIB, 8000 * MIB),
            "host/memory/total_bytes": 16000.0 * MIB,
        },
        {},
        "memory-pressure",
        "100 MiB of 16 GiB",
        0,
    ),
    "nothing available of 2 TiB": (
        {
            "host/memory/available_bytes": between(10, 99, 3 * 2.0**30, 2.0**40),
            "host/memory/total_bytes": 2.0**41,
        },
        {},
        "memory-pressure",
        "3,072 MiB of 2,048 GiB",
        0,
    ),
    "OOM": ({"host/memory/oom_kills": from_second(10, 1)}, {}, "oom-kill", "killed 1 process for lack", 0),
    "OOM named": ({"host/cpu/cores": 4.0}, {10: [("kernel", "", OOM)]}, "oom-kill", "python (process 4242, a rank)", 0),
    "disk": (
        {
            "filesystem//out/free_bytes": lambda second: 100.0 * MIB - 8.0 * MIB * second,
            "filesystem//out/total_bytes": 400.0 * MIB,
        },
        {},
        "disk-full",
        "/out: 12 MiB of 0.4 GiB",
        1,
    ),
    "inodes": (
        {
            "filesystem//out/free_files": lambda second: 24_500.0 - 1_500.0 * second,
            "filesystem//out/total_files": 6_553_600.0,
        },
        {},
        "disk-full",
        "/out: 9,500 of 6,553,600 files (inodes) can still be made",
        0,
    ),
    "CPU hog": (
        {**BUSY, "other/99/processors_used": lambda second: None if second < 12 else 3.0},
        {10: [("others", "99", "stress-ng")]},
        "cpu-contention",
        "stress-ng (process 99), which is not of the job, takes 3.0 of 4",
        2,
    ),
    "a limit of processors": (
        held_back(from_second(10, 9)),
        {0: [("processes", "7", "/sys/fs/cgroup/pod")]},
        "cpu-limit",
        "the limit of the cgroup /sys/fs/cgroup/pod, 0.5 of them, held back process 7 in 27 of its last 100",
        2,
    ),
    "hardware": (
        {"host/cpu/cores": 4.0},
        {10: [("kernel", "", "EDAC MC0: 1 UE memory read error on CPU_SrcID#0_Ha#0_Chan#1_DIMM#0")]},
        "machine-check",
        "hardware error of the memory",
        0,
    ),
    "a processor": (
        {"host/cpu/cores": 4.0},
        {10: [("kernel", "", "mce: [Hardware Error]: CPU 2: Machine Check Exception: 5 Bank 8: be00000000800400")]},
        "machine-check",
        "hardware error of the processor",
        0,
    ),
    "a link that comes back": ({"nic/eth0/up": between(10, 12, 0, 1)}, {}, "link-down", "went down and came back", 2),
    "errors after a reset": (
        {f"{PORT}/symbol_errors": lambda second: 500 if second < 8 else max(second - 9, 0) * 12},
        {},
        "port-errors",
        "12 symbol errors",
        0,
    ),
    "NFS": (
        {"host/cpu/cores": 4.0},
        {10: [("kernel", "", "nfs: server nas1 not responding, still trying")]},
        "nfs-silent",
        "NFS server nas1",
        0,
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named_with_its_device_within_five_seconds(name: str) -> None:
    series, events, rule, words, delay = FAULTS[name]
    seen = [one for one in play(series, 30, events=events, pids=(4242,)) if one.rule == rule]
    first = next(one for one in seen if words in one.observed.finding.summary)
    assert first.second == 10 + delay <= 15
    finding = first.observed.finding
    assert finding.hosts == ("node-7",)
    assert finding.summary.startswith("node-7 ")
    assert finding.recommendations
    assert first.observed.series or first.observed.line
    assert 10 <= first.observed.since_seconds <= first.second
    assert {one.rule for one in play(series, 30, events=events, pids=(4242,))} == {rule}


def test_a_fault_that_goes_on_is_told_once_and_again_when_it_came_back_after_a_while() -> None:
    quiet = int(QUIET_SECONDS) + 70
    seen = play({f"{PORT}/symbol_errors": lambda second: 100.0 * min(second, 60)}, quiet)
    assert [one.second for one in seen] == [1]
    again = play({f"{PORT}/symbol_errors": lambda second: 100.0 if second < quiet + 60 else 500.0}, quiet + 70)
    assert [one.second for one in again] == [quiet + 60]
    twice = play(
        {f"{PORT}/symbol_errors": lambda second: 100.0 * (second > 5) + 100.0 * (second > quiet + 60)}, quiet + 70
    )
    assert [one.second for one in twice] == [6, quiet + 61]


@pytest.mark.parametrize(
    ("line", "severity"),
    [
        ("NVRM: Xid (PCI:0000:1b:00): 95, pid=7, Uncontained: LTC TAG", "critical"),
        ("NVRM: Xid (PCI:0000:1b:00): 31, pid=7, name=python, MMU Fault", "warning"),
        ("NVRM: Xid (PCI:0000:1b:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset)", "warning"),
        (
            "nvidia-nvswitch2: SXid (PCI:0000:c3:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error",
            "warning",
        ),
        ("nvidia-nvswitch2: SXid (PCI:0000:c3:00.0): 20034, Fatal, Link 30 LTSSM Fault Up", "critical"),
        ("NVRM: Xid (PCI:0008:01:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 01 (0x021425c6 0x00000000)", "critical"),
        ("NVRM: Xid (PCI:0008:01:00): 145, RLW_SRC_TRACK Nonfatal XC1 i0 Link 16 (0x040a08e2 0x00000008)", "warning"),
    ],
)
def test_an_xid_is_as_severe_as_its_number_says(line: str, severity: str) -> None:
    (seen,) = play({"host/cpu/cores": 4.0}, 5, events={2: [("kernel", "", line)]})
    assert (seen.rule, seen.observed.finding.severity) == ("gpu-xid", severity)


@pytest.mark.parametrize(
    "line",
    [
        "NVRM: Xid (PCI:0000:1b:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)",
        "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Severity 0 Engine instance 32 Sub-engine instance 00",
        "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Data {0x50610002, 0x10100030}",
        "mlx5_core 0000:41:00.0: print_health_info:458:(pid 0): synd 0x0: unrecognized error",
    ],
)
def test_a_line_of_the_kernel_that_only_looks_like_a_fault(line: str) -> None:
    assert play({"host/cpu/cores": 4.0}, 5, events={2: [("kernel", "", line)]}) == []


@pytest.mark.parametrize(
    "text",
    [
        "poll_health:800:(pid 0): Fatal error 1 detected",
        "mlx5_health_try_recover:335:(pid 88): health recovery flow aborted, PCI reads still not working",
        "print_health_info:458:(pid 0): synd 0x8: unrecoverable hardware error",
        "Port module event[error]: module 0, Cable error, High Temperature",
    ],
)
def test_what_a_nic_says_of_its_fault(text: str) -> None:
    (seen,) = play({"host/cpu/cores": 4.0}, 5, events={2: [("kernel", "", f"mlx5_core 0000:41:00.0: {text}")]})
    assert seen.rule == "nic-fault"


def sawtooth(second: int) -> float:
    return 4e9 + (second % 60) * 1e7


NEAR_MISSES: dict[str, tuple[Mapping[str, Values], Mapping[int, Sequence[tuple[str, str, str]]]]] = {
    "1 % of 2 TiB is available, and nobody waits": (
        {
            "host/memory/available_bytes": 20 * 2.0**30,
            "host/memory/total_bytes": 2.0**41,
            "pressure/memory/full_seconds": 7.0,
        },
        {},
    ),
    "20 GiB of 100 TiB are free": (
        {"filesystem//out/free_bytes": 20 * 2.0**30, "filesystem//out/total_bytes": 100 * 2.0**40},
        {},
    ),
    "a single symbol error": ({f"{PORT}/symbol_errors": from_second(10, 0, 70_000)}, {}),
    "one error in ten seconds": ({f"{PORT}/symbol_errors": lambda second: second // 10}, {}),
    "a high counter that stands": ({f"{PORT}/link_downed": 12.0, f"{PORT}/up": 1.0, f"{PORT}/receive_errors": 9e9}, {}),
    "a counter that begins again": ({f"{PORT}/symbol_errors": between(0, 10, 65_535, 3)}, {}),
    "a counter that wraps": ({f"{PORT}/send_discards": between(0, 10, 2**32 - 5, 4)}, {}),
    "one time-out": ({f"{PORT}/ack_timeouts": between(10, 99)}, {}),
    "out of order by adaptive routing": ({f"{PORT}/out_of_sequence": from_second(0, 500)}, {}),
    "EFA sends again": ({"port/rdmap0s6:1/retransmitted_packets": from_second(0, 5000)}, {}),
    "congestion, handled": (
        {f"{PORT}/cnp_handled": from_second(0, 9000), f"{PORT}/send_wait_ticks": from_second(0, 1e6)},
        {},
    ),
    "frames that nobody wants": ({"nic/eth0/receive_drops": from_second(0, 500)}, {}),
    "TCP windows sent again that the peer had already": (
        {
            "host/tcp/retransmitted_segments": from_second(10, 400),
            "host/tcp/needlessly_retransmitted_segments": lambda second: max(second - 10, 0) * 400 + 20.0,
            "host/tcp/sent_segments": from_second(0, 9000),
        },
        {},
    ),
    "TCP segments that the peer had already, many and then few": (
        {
            "host/tcp/retransmitted_segments": probes,
            "host/tcp/needlessly_retransmitted_segments": probes,
            "host/tcp/sent_segments": lambda second: 16_000.0 * min(second, 15) + 1000 * max(second - 15, 0),
        },
        {},
    ),
    "one TCP window sent again, of which the peer says later that it had it": (
        {"host/tcp/retransmitted_segments": between(10, 99, 200), "host/tcp/sent_segments": from_second(0, 1000)},
        {},
    ),
    "one TCP retransmission": (
        {"host/tcp/retransmitted_segments": between(10, 99), "host/tcp/sent_segments": from_second(0, 2)},
        {},
    ),
    "retransmissions beside much more": (
        {"host/tcp/retransmitted_segments": from_second(0, 100), "host/tcp/sent_segments": from_second(0, 200_000)},
        {},
    ),
    "a counter that is read as 0 once": ({f"{PORT}/symbol_errors": lambda second: 0 if second == 20 else 500}, {}),
    "a port that comes up": ({"nic/eth1/up": between(10, 999), "nic/eth1/carrier_changes": between(10, 999)}, {}),
    "an RDMA port that comes up": ({f"{PORT}/up": between(10, 999), f"{PORT}/link_downed": 3.0}, {}),
    "one file of a port that cannot be read": (
        {f"{PORT}/up": lambda second: 1.0 if second < 10 else None, f"{PORT}/symbol_errors": 0.0},
        {},
    ),
    "memory of a GPU that is not said for a while": (
        {"gpu/0/memory_used_bytes": lambda second: 1e9 if second % 40 < 20 else None, "gpu/0/power_watts": 300.0},
        {},
    ),
    "a processor that corrected an error": (
        {"host/cpu/cores": 4.0},
        {10: [("kernel", "", "mce: [Hardware Error]: CPU 2: Machine Check: 0 Bank 8: 8c00004000010091")]},
    ),
    "daemons of a large machine whose job is at work": (
        {
            **BUSY,
            "host/cpu/cores": 64.0,
            "host/cpu/busy_seconds": from_second(0, 64.0),
            "other/98/processors_used": 0.7,
            "other/99/processors_used": 0.6,
        },
        {},
    ),
    "a port that nobody uses": ({f"{PORT}/up": 0.0}, {}),
    "an interface that a container takes along": (
        {"nic/veth1/up": lambda second: 1.0 if second < 10 else None, "nic/eth0/up": 1.0},
        {},
    ),
    "a source that answers nothing any more": ({f"{PORT}/up": 1.0}, {}),
    "clocks lowered for moments": ({"gpu/0/throttle_thermal": lambda second: float(second % 3 != 0)}, {}),
    "the power cap under load": ({"gpu/0/throttle_power_cap": 1.0, "gpu/0/utilization_percent": 100.0}, {}),
    "corrected errors": ({"gpu/0/ecc_corrected_errors": from_second(0, 3), "gpu/0/ecc_uncorrected_errors": 7.0}, {}),
    "a process that ended": ({"host/cpu/cores": 4.0}, {10: [("kernel", "", "NVRM: Xid (PCI:0000:1b:00): 45, pid=1")]}),
    "links that were never active": ({"gpu/0/nvlinks_up": 0.0, "gpu/0/nvlink_errors": 500.0}, {}),
    "a GPU that compiles before its first step": ({"gpu/0/utilization_percent": between(100, 999, 97)}, {}),
    "a GPU at work, with checkpoints": ({"gpu/0/utilization_percent": lambda second: 0 if second % 60 < 8 else 98}, {}),
    "a GPU that nobody uses": ({"gpu/0/utilization_percent": 0.0}, {}),
    "swapped out, and swap in use": (
        {"host/swap/out_bytes": from_second(0, 9 * MIB), "host/swap/used_bytes": 9e9, "host/swap/in_bytes": 5e9},
        {},
    ),
    "the page cache grows": (
        {
            "host/memory/available_bytes": lambda second: 9e9 - second,
            "host/memory/total_bytes": 16e9,
            "pressure/memory/some_seconds": from_second(0, 0.05),
            "pressure/memory/full_seconds": from_second(0, 0.01),
        },
        {},
    ),
    "a kill before the first reading": ({"host/memory/oom_kills": 4.0}, {}),
    "a large disk with gigabytes left": ({"filesystem//d/free_bytes": 9e9, "filesystem//d/total_bytes": 1e13}, {}),
    "a few files of few": (
        {"filesystem//shm/free_files": 900.0, "filesystem//shm/total_files": 1_000.0},
        {},
    ),
    "a small disk that is empty": (
        {"filesystem//shm/free_bytes": 60.0 * MIB, "filesystem//shm/total_bytes": 64.0 * MIB},
        {},
    ),
    "the job itself uses all processors": (dict(BUSY), {}),
    "a limit that is hardly reached": (held_back(from_second(0, 2)), {}),
    "a limit that is reached while modules are loaded": (held_back(lambda second: 9.0 * min(second, 3)), {}),
    "a limit that was reached before": (held_back(from_second(0, 0, before=5000.0)), {}),
    "another process, and nobody waits": (
        {**BUSY, "pressure/cpu/some_seconds": from_second(0, 0.05), "other/99/processors_used": 2.0},
        {},
    ),
    "another process, and processors to spare": (
        {**BUSY, "host/cpu/busy_seconds": from_second(0, 2.0), "other/99/processors_used": 1.5},
        {},
    ),
    "corrected memory and a plugged module": (
        {"host/cpu/cores": 4.0},
        {
            10: [
                ("kernel", "", "EDAC MC0: 1 CE memory read error on CPU_SrcID#0_Ha#0_Chan#1_DIMM#0"),
                ("kernel", "", "mlx5_core 0000:b1:00.0: Port module event: module 0, Cable plugged"),
                ("kernel", "", "pcieport 0000:00:01.0: PCIe Bus Error: severity=Corrected, type=Physical Layer"),
            ]
        },
    ),
    "an NFS server that answers again": (
        {"host/cpu/cores": 4.0},
        {10: [("kernel", "", "nfs: server nas1 not responding, still trying"), ("kernel", "", "nfs: server nas1 OK")]},
    ),
    "memory that levels off": (
        {"process/7/resident_bytes": lambda second: 8e9 * (1 - 0.5 ** (second / 200)), "host/cpu/cores": 4.0},
        {},
    ),
    "memory that breathes": ({"process/7/resident_bytes": sawtooth}, {}),
    "memory that grows once": ({"process/7/resident_bytes": lambda second: 4e9 + 1e9 * (second > 900)}, {}),
}


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_a_near_miss_is_no_finding(name: str) -> None:
    series, events = NEAR_MISSES[name]
    seconds = 1500 if name.startswith("memory that") else 150
    assert play(series, seconds, events=events, pids=(7,)) == []


def test_a_limit_that_holds_back_now_and_then_is_told_after_ten_seconds() -> None:
    (seen,) = play(held_back(from_second(10, 3)), 40, pids=(7,))
    assert seen.rule == "cpu-limit"
    assert (
        "of process 7, 0.5 of them, held back process 7 in 27 of its last 100 periods" in seen.observed.finding.summary
    )


def test_without_ranks_nobody_is_accused_of_taking_processors_or_waiting() -> None:
    series = {**BUSY, "other/99/processors_used": 3.0, "gpu/0/utilization_percent": 40.0}
    assert play(series, 140) == []
    assert {one.rule for one in play(series, 140, pids=(7,))} == {"cpu-contention", "gpu-underused"}


def test_processes_of_one_command_are_counted_together() -> None:
    series = {**BUSY, **{f"other/{pid}/processors_used": 0.5 for pid in (91, 92, 93)}, "other/99/processors_used": 0.7}
    names = [("others", str(pid), "yes") for pid in (91, 92, 93)] + [("others", "99", "python")]
    (seen,) = play(series, 20, pids=(7,), events={0: names})
    assert "yes (process 93 and 2 more), which is not of the job, takes 1.5 of 4" in seen.observed.finding.summary


def test_a_gpu_that_waits_is_told_after_two_minutes() -> None:
    (seen,) = play({"gpu/2/utilization_percent": lambda second: 95 if second % 2 else 30}, 150, pids=(7,))
    assert seen.rule == "gpu-underused"
    assert "GPU 2: busy 6" in seen.observed.finding.summary
    assert 108 <= seen.second <= 125


def test_a_leak_is_told_with_its_rate_and_what_is_left() -> None:
    series = {
        "process/7/resident_bytes": lambda second: 4e9 + second * MIB / 4 + (second % 7) * MIB,
        "host/memory/available_bytes": 36_000.0 * MIB,
    }
    (seen,) = play(series, 1500, pids=(7,))
    assert seen.rule == "memory-grows"
    assert "by 15.0 MiB a minute" in seen.observed.finding.summary
    assert "lasts 40.0 h" in seen.observed.finding.summary
    assert 720 <= seen.second <= 760


def test_a_slope_is_not_moved_by_a_few_outliers() -> None:
    points = [Point(float(second), 2.0 * second + (5000 if second % 13 == 0 else 0)) for second in range(100)]
    slope = slope_interval(points)
    assert slope.low <= 2.0 <= slope.high
    assert abs(slope.middle - 2.0) < 0.2
    flat = slope_interval([Point(float(second), float(second % 5)) for second in range(100)])
    assert flat.low <= 0 <= flat.high


@pytest.mark.parametrize("rule", live_rules(), ids=lambda rule: rule.id)
def test_every_rule_has_a_fault_that_it_names(rule: LiveRule) -> None:
    named = {case[2] for case in FAULTS.values()} | {"gpu-underused", "memory-grows"}
    assert rule.id in named
    assert rule.id in RULES


def test_every_file_with_a_rule_is_in_the_table() -> None:
    files = {path.stem.replace("_", "-") for path in Path(rules.__file__).parent.glob("*.py")} - {"--init--", "base"}
    assert files == set(RULES)


def test_a_rule_that_breaks_is_said_and_the_others_are_asked() -> None:
    def broken(window: Window) -> list[Observed]:
        raise ZeroDivisionError("what")

    asked = [LiveRule(id="broken", title="x", severity="info", check=broken, recommended=()), *live_rules()]  # type: ignore[arg-type]
    judge, window = Judge(asked), Window(host="a")
    for second in range(3):
        window.add("ports", float(second), {f"{PORT}/symbol_errors": 100.0 * second})
        found = judge.observed(window)
    assert judge.broken == {"broken": "ZeroDivisionError: what"}
    assert [one.finding.rule for one in found] == ["port-errors"]


def test_a_window_is_bounded_in_series_and_in_time() -> None:
    window = Window(host="a")
    window.add("x", 0.0, {f"process/{number}/resident_bytes": 1.0 for number in range(MAX_SERIES + 10)})
    assert window.series_left_out == 10
    for second in range(1, 500):
        window.add("y", float(second), {"host/load/one_minute": 1.0})
    assert len(window.points("host/load/one_minute", 1e9)) <= 130
    window.forget_vanished()
    assert window.devices("process", "resident_bytes") == {}


def test_a_series_of_a_silent_source_is_missing() -> None:
    window = Window(host="a")
    window.add("gpus", 0.0, {"gpu/0/power_watts": 300.0})
    window.add("host", 4.0, {"host/load/one_minute": 1.0})
    assert window.latest("gpu/0/power_watts") == 300.0
    window.add("host", 11.0, {"host/load/one_minute": 1.0})
    assert window.latest("gpu/0/power_watts") is None
    assert not window.vanished("gpu/0/power_watts")


@pytest.mark.parametrize(("pids", "severity"), [((4242,), "critical"), ((), "critical"), ((7,), "warning")])
def test_a_kill_is_critical_unless_it_is_known_not_to_be_of_a_rank(pids: tuple[int, ...], severity: str) -> None:
    (seen,) = play({"host/cpu/cores": 4.0}, 5, events={2: [("kernel", "", OOM)]}, pids=pids)
    assert seen.observed.finding.severity == severity


@pytest.mark.parametrize(("interval", "blind"), [(1.0, 0), (2.0, 0), (10.0, 7), (60.0, 13)])
def test_rules_that_readings_far_apart_cannot_answer_say_so(interval: float, blind: int) -> None:
    assert len(Judge(interval_seconds=interval).blind) == blind


def test_at_the_longest_interval_of_each_rule_its_fault_is_seen() -> None:
    """A counter rule that looks at seconds, read as seldom as it allows."""
    growing = {
        "tcp-retransmissions": {"host/tcp/retransmitted_segments": 400, "host/tcp/sent_segments": 9000},
        "node-swaps": {"host/swap/in_bytes": 30 * MIB},
        "memory-pressure": {"pressure/memory/full_seconds": 0.5},
        "packets-discarded": {f"{PORT}/send_discards": 900},
        "port-errors": {f"{PORT}/symbol_errors": 50},
    }
    for rule in live_rules():
        if rule.id in growing:
            window = Window(host="a", interval_seconds=rule.longest_interval_seconds)
            for number in range(6):
                second = number * rule.longest_interval_seconds
                window.add("x", second, {name: step * second for name, step in growing[rule.id].items()})
            assert list(rule.check(window)), rule.id
