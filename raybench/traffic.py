"""Which network devices carried data: byte counters of a machine's NICs and RDMA ports, and what they moved.

A setting says which network was asked for; these say which one was used, whatever the library.
"""

import contextlib
from collections.abc import Mapping
from pathlib import Path

Counters = dict[str, dict[str, int]]  # device: {"sent_bytes", "received_bytes"}, since some moment in the past

_WORD_BYTES = 4  # port_xmit_data and port_rcv_data count 4-byte words (InfiniBand PortCounters, volume 1, 16.1.3.5)
_RDMA_FILES = {  # RDMA counters of a port below its folder: (sent, received, bytes a unit)
    "infiniband": ("counters/port_xmit_data", "counters/port_rcv_data", _WORD_BYTES),
    "efa": ("hw_counters/tx_bytes", "hw_counters/rx_bytes", 1),
}


def read_counters(root: Path = Path("/sys/class")) -> Counters:
    """Bytes that each network interface (``eth0``) and RDMA port (``mlx5_0:1``) has sent and received.

    A device without readable counters is left out: Soft-RoCE ports have none.
    """
    return _interfaces(root / "net") | _rdma_ports(root / "infiniband")


def traffic_between(before: Mapping[str, Mapping[str, int]], after: Mapping[str, Mapping[str, int]]) -> Counters:
    """What each device moved between two readings. One that appeared, or whose counters went back, is left out."""
    moved = {
        device: {name: count - before[device][name] for name, count in counters.items()}
        for device, counters in after.items()
        if device in before
    }
    return {device: counters for device, counters in moved.items() if min(counters.values()) >= 0}


def _interfaces(folder: Path) -> Counters:
    counters = {}
    for device in sorted(folder.glob("*")):
        sent, received = (_number(device / "statistics" / f"{way}_bytes") for way in ("tx", "rx"))
        if sent is not None and received is not None:
            counters[device.name] = {"sent_bytes": sent, "received_bytes": received}
    return counters


def _rdma_ports(folder: Path) -> Counters:
    counters = {}
    for port in sorted(folder.glob("*/ports/*")):
        for sent_file, received_file, unit_bytes in _RDMA_FILES.values():
            sent, received = _number(port / sent_file), _number(port / received_file)
            if sent is not None and received is not None:
                name = f"{port.parent.parent.name}:{port.name}"
                counters[name] = {"sent_bytes": sent * unit_bytes, "received_bytes": received * unit_bytes}
                break
    return counters


def _number(path: Path) -> int | None:
    with contextlib.suppress(OSError, ValueError):
        return int(path.read_text(encoding="ascii"))
    return None
