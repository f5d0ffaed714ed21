"""Processors, memory, swap, pressure, disks and TCP of the machine, out of a few files below ``/proc``.

The files stay open: one ``pread`` each costs a tenth of what psutil does for the same.
"""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from diagnostics.agent.sources.base import Sample, SourceUnavailableError

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_SECTOR_BYTES = 512  # of /proc/diskstats, whatever the disk's own are (Documentation/admin-guide/iostats.rst)
_LONGEST_FILE = 1 << 16
_NO_DISKS = ("loop", "ram", "zram", "dm-", "md", "sr", "fd", "nbd")

Values = Iterator[tuple[str, float]]


class Host:
    """All that the machine as a whole says. ``proc`` is ``/proc``."""

    def __init__(self, proc: Path) -> None:
        self._open: dict[str, int] = {}
        for name in _FILES:
            try:
                self._open[name] = os.open(proc / name, os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                continue  # no PSI in this kernel, no disks in this container
        if "stat" not in self._open:
            raise SourceUnavailableError(f"{proc}/stat cannot be opened")

    def read(self) -> Sample:
        """Every file once; one that cannot be read or is of another form gives no series."""
        values: dict[str, float] = {}
        for name, number in self._open.items():
            try:
                values.update(_FILES[name](os.pread(number, _LONGEST_FILE, 0).decode("ascii", "replace")))
            except (OSError, ValueError, IndexError, KeyError):
                continue
        return Sample(values=values | dict(_itself()))

    def close(self) -> None:
        """Close the files."""
        for number in self._open.values():
            os.close(number)
        self._open.clear()


def _itself() -> Values:
    yield "agent/self/cpu_seconds", time.process_time()
    with Path("/proc/self/statm").open("rb") as stream:
        yield "agent/self/resident_bytes", int(stream.read().split()[1]) * _PAGE_BYTES


def _stat(text: str) -> Values:
    """``cpu  user nice system idle iowait irq softirq steal``, in ticks; guests are in user already."""
    total, *lines = text.split("\n")
    user, nice, system, _, iowait, irq, softirq, steal = map(int, total.split()[1:9])
    yield "host/cpu/busy_seconds", (user + nice + system + irq + softirq) / _TICKS
    yield "host/cpu/iowait_seconds", iowait / _TICKS
    yield "host/cpu/stolen_seconds", steal / _TICKS
    yield "host/cpu/cores", sum(line.startswith("cpu") for line in lines)


def _loadavg(text: str) -> Values:
    yield "host/load/one_minute", float(text.split(maxsplit=1)[0])


def _meminfo(text: str) -> Values:
    """``MemAvailable:  123 kB``."""
    kib = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in text.splitlines()[:20])}
    yield "host/memory/total_bytes", kib["MemTotal"] * 1024
    yield "host/memory/available_bytes", kib["MemAvailable"] * 1024
    yield "host/swap/total_bytes", kib["SwapTotal"] * 1024
    yield "host/swap/used_bytes", (kib["SwapTotal"] - kib["SwapFree"]) * 1024


def _vmstat(text: str) -> Values:
    """``pswpin 0``; ``oom_kill`` since Linux 4.13."""
    for key, name, unit in _VMSTAT:
        _, found, rest = text.partition(key)
        if found:
            yield name, int(rest.split("\n", 1)[0]) * unit


_VMSTAT = (
    ("\npswpin ", "host/swap/in_bytes", _PAGE_BYTES),
    ("\npswpout ", "host/swap/out_bytes", _PAGE_BYTES),
    ("\noom_kill ", "host/memory/oom_kills", 1),
)


def _pressure(device: str) -> Callable[[str], Values]:
    def parse(text: str) -> Values:
        """``some avg10=0.00 avg60=0.00 avg300=0.00 total=42028755880``, in microseconds."""
        for line in text.splitlines():
            kind, *_, total = line.split()
            yield f"pressure/{device}/{kind}_seconds", int(total.removeprefix("total=")) / 1e6

    return parse


def _diskstats(text: str) -> Values:
    """``259 0 nvme0n1 reads merged sectors ms writes merged sectors ms in_flight busy_ms``; whole disks only."""
    whole = ""
    for line in text.splitlines():
        fields = line.split()
        name = fields[2]
        if name.startswith(_NO_DISKS) or (whole and name.startswith(whole)):
            continue  # a partition stands behind its disk
        whole = name
        yield f"disk/{name}/read_bytes", int(fields[5]) * _SECTOR_BYTES
        yield f"disk/{name}/written_bytes", int(fields[9]) * _SECTOR_BYTES
        yield f"disk/{name}/busy_seconds", int(fields[12]) / 1000


def _snmp(text: str) -> Values:
    tcp = tcp_counters(text)
    yield "host/tcp/sent_segments", int(tcp["OutSegs"])
    yield "host/tcp/retransmitted_segments", int(tcp["RetransSegs"])


def _netstat(text: str) -> Values:
    """Segments of which the peer said (DSACK, RFC 2883) that it had them already; counted since Linux 5.9."""
    yield "host/tcp/needlessly_retransmitted_segments", int(tcp_counters(text, "TcpExt:")["TCPDSACKRecvSegs"])


def tcp_counters(text: str, mark: str = "Tcp:") -> dict[str, str]:
    """Two lines ``Tcp:``, names and values."""
    names, values = (line.split() for line in text.splitlines() if line.startswith(mark))
    return dict(zip(names, values, strict=True))


_FILES: dict[str, Callable[[str], Values]] = {
    "stat": _stat,
    "loadavg": _loadavg,
    "meminfo": _meminfo,
    "vmstat": _vmstat,
    "pressure/cpu": _pressure("cpu"),
    "pressure/memory": _pressure("memory"),
    "pressure/io": _pressure("io"),
    "diskstats": _diskstats,
    "net/snmp": _snmp,
    "net/netstat": _netstat,
}
