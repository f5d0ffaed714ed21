"""Which network devices carried data: byte counters of a machine's NICs and RDMA ports, and what they moved.

A setting says which network was asked for; these say which one was used, whatever the library.
"""

from collections.abc import Mapping
from pathlib import Path

from diagnostics.agent.series import split_name
from diagnostics.agent.sources.counter_files import CounterFiles
from diagnostics.agent.sources.nics import interface_bytes
from diagnostics.agent.sources.ports import port_bytes

Counters = dict[str, dict[str, int]]  # device: {"sent_bytes", "received_bytes"}, since some moment in the past
_WAYS = 2


def read_counters(root: Path = Path("/sys/class")) -> Counters:
    """Bytes that each network interface (``eth0``) and RDMA port (``mlx5_0:1``) has sent and received.

    A device without readable counters is left out: Soft-RoCE ports have none.
    """
    files = CounterFiles(lambda: {**interface_bytes(root / "net"), **port_bytes(root / "infiniband")})
    counters: Counters = {}
    for name, count in files.read().items():
        _, device, metric = split_name(name)
        counters.setdefault(device, {})[metric] = int(count)
    files.close()
    return {device: moved for device, moved in counters.items() if len(moved) == _WAYS}


def traffic_between(before: Mapping[str, Mapping[str, int]], after: Mapping[str, Mapping[str, int]]) -> Counters:
    """What each device moved between two readings. One that appeared, or whose counters went back, is left out."""
    moved = {
        device: {name: count - before[device][name] for name, count in counters.items()}
        for device, counters in after.items()
        if device in before
    }
    return {device: counters for device, counters in moved.items() if min(counters.values()) >= 0}
