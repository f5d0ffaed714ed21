"""The kernel's log, time services, and small files of Linux."""

import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelMessage:
    """A line of ``dmesg``. ``age_seconds`` is None where its stamp is not seconds since boot."""

    text: str
    age_seconds: float | None


def parse_dmesg(text: str, uptime_seconds: float | None) -> tuple[KernelMessage, ...]:
    """Sample: ``[12345.678901] NVRM: Xid (PCI:0000:18:00): 79, pid=1234, GPU has fallen off the bus.``"""
    messages = []
    for line in text.splitlines():
        match = re.match(r"\[\s*(\d+\.\d+)\]\s?(.*)", line)
        age = uptime_seconds - float(match[1]) if match and uptime_seconds is not None else None
        messages.append(KernelMessage(text=match[2] if match else line, age_seconds=age))
    return tuple(messages)


@dataclass(frozen=True, slots=True, kw_only=True)
class Xid:
    """A fault that NVIDIA's driver reported. ``switch`` says that it is an SXid, of an NVSwitch."""

    number: int
    device: str
    text: str
    age_seconds: float | None
    switch: bool = False


def xids_of(messages: tuple[KernelMessage, ...]) -> tuple[Xid, ...]:
    """Xids and SXids of the kernel's log. An SXid: ``nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 12028, Non-fatal``.

    Lines of detail that follow an SXid (``..., Severity 1 Engine instance 30``, ``..., Data {0x...}``) are left out
    where its own line is there: the log's beginning may be lost.
    """
    found = []
    told: set[tuple[str, str]] = set()
    for message in messages:
        match = re.search(
            r"\b(S?)Xid \((?:PCI:)?([0-9a-fA-F:.]+)\): (\d+)\b(?P<detail>, (?:Severity|Data \{))?", message.text
        )
        if match and not (match["detail"] and (match[2], match[3]) in told):
            told.add((match[2], match[3]))
            found.append(
                Xid(
                    number=int(match[3]),
                    device=match[2],
                    text=message.text,
                    age_seconds=message.age_seconds,
                    switch=match[1] == "S",
                )
            )
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracking:
    """``chronyc tracking``. ``offset_seconds`` is positive where the host is ahead, None where not synchronised."""

    offset_seconds: float | None
    synchronised: bool


def parse_chrony(text: str) -> Tracking:
    """Samples: ``System time     : 0.000001234 seconds slow of NTP time``, ``Leap status     : Not synchronised``."""
    offset = re.search(r"^System time\s*:\s*([\d.]+) seconds (fast|slow) of NTP time", text, re.MULTILINE)
    unsynchronised = re.search(r"^Leap status\s*:\s*Not synchronised", text, re.MULTILINE)
    reference = re.search(r"^Reference ID\s*:\s*(\w+)", text, re.MULTILINE)
    synchronised = bool(reference) and not unsynchronised and reference is not None and reference[1] != "00000000"
    if offset is None or not synchronised:
        return Tracking(offset_seconds=None, synchronised=synchronised)
    return Tracking(offset_seconds=float(offset[1]) * (1 if offset[2] == "fast" else -1), synchronised=True)


def parse_ntpq(text: str) -> float | None:
    """Offset in seconds of the peer that ntpd follows (its line begins with ``*``); None where it follows none."""
    for line in text.splitlines():
        if line.startswith("*"):
            cells = line.split()
            try:
                return float(cells[8]) / 1000
            except (IndexError, ValueError):
                return None
    return None


def parse_pairs(text: str, separator: str = "=") -> dict[str, str]:
    """Lines of ``NAME=value``, quotes and comments taken off: os-release, ``timedatectl show``, ``systemctl show``."""
    pairs = (line.partition(separator) for line in text.splitlines() if not line.lstrip().startswith(("#", ";")))
    return {name.strip(): value.strip().strip('"') for name, found, value in pairs if found}


def parse_meminfo(text: str) -> dict[str, int]:
    """Bytes by name from /proc/meminfo: ``MemTotal:       24683592 kB``."""
    return {name: int(value) * 1024 for name, value in re.findall(r"^(\w+):\s+(\d+) kB", text, re.MULTILINE)}


def parse_modules(text: str) -> frozenset[str]:
    """Names of loaded modules from /proc/modules."""
    return frozenset(line.split()[0] for line in text.splitlines() if line.strip())


def parse_packages(text: str) -> dict[str, str]:
    """Versions by package from lines of ``NAME VERSION``."""
    pairs = (line.split(None, 1) for line in text.splitlines())
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}


def grouped(values: Mapping[str, str | None], suffix: str) -> dict[str, str]:
    """Files that end so, by the name of the folder they stand in: ``/sys/class/net/eth0/mtu`` gives ``eth0``."""
    return {path.split("/")[-2]: value for path, value in values.items() if path.endswith(suffix) and value is not None}
