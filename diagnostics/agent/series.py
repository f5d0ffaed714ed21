"""Every series that the agent reads: its name, unit, and whether it is a counter or a level.

A series is named ``<group>/<device>/<metric>``, the unit in the metric: ``port/mlx5_3:1/symbol_errors``. A device may
hold slashes (``filesystem//home/free_bytes``). Counters are given raw, since some moment in the past; they may wrap,
and begin again where a driver is loaded anew. A series that cannot be read is missing, never 0.
"""

import re
import string
from dataclasses import dataclass
from typing import Literal, NamedTuple
from urllib.parse import quote

Unit = Literal[
    "bytes", "seconds", "microseconds", "percent", "watts", "celsius", "megahertz", "gbit/s", "count", "flag"
]
MAX_NAME_CHARACTERS = 200
CPU_WAITING = "pressure/cpu/some_seconds"
_LONGEST_DEVICE = 150
_PLAIN = string.punctuation.replace("%", "")
_NAME = re.compile(r"[a-z]+/[\x21-\x7e]+/[a-z0-9_]+", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """What is known of a metric of a group, whatever the device. A flag is 1 or 0.

    A counter only grows, but for resets and wraps; what is none is a level.
    """

    group: str
    metric: str
    title: str
    unit: Unit
    is_counter: bool


class SeriesName(NamedTuple):
    """The parts of a name."""

    group: str
    device: str
    metric: str


def _counters(group: str, unit: Unit, **titles: str) -> list[Series]:
    return [
        Series(group=group, metric=metric, title=title, unit=unit, is_counter=True) for metric, title in titles.items()
    ]


def _levels(group: str, unit: Unit, **titles: str) -> list[Series]:
    return [
        Series(group=group, metric=metric, title=title, unit=unit, is_counter=False) for metric, title in titles.items()
    ]


# Groups: port (of an RDMA device, mlx5_0:1), nic (eth0), gpu (index of NVML or amdsmi), host (cpu, load, memory, swap,
# tcp), tcp (address of a peer), pressure (cpu, memory, io), disk (nvme0n1), filesystem (a folder), process (id of a
# rank's process), other (id of a process that is not ours and takes processors from ours), agent (the agent itself).
_ROWS: list[Series] = [
    *_counters("port", "bytes", sent_bytes="sent", received_bytes="received"),
    *_counters(
        "port",
        "count",
        symbol_errors="symbol errors",
        link_downed="times the link went down",
        link_recoveries="link recoveries",
        receive_errors="receive errors",
        remote_physical_errors="packets that a switch marked as bad",
        send_discards="packets discarded before sending",
        send_wait_ticks="ticks with data and no credits to send",
        integrity_errors="local link integrity errors",
        buffer_overruns="buffer overruns",
        ack_timeouts="acknowledgements that timed out",
        out_of_sequence="packets out of sequence",
        packet_sequence_errors="negative acknowledgements for a packet out of sequence",
        implied_sequence_errors="acknowledgements out of sequence",
        receiver_not_ready="retries since the receiver was not ready, used up",
        adaptive_retransmissions="adaptive retransmissions",
        retransmitted_packets="retransmitted packets",
        retransmit_timeouts="retransmission timeouts",
        receive_drops="received packets that were dropped",
        cnp_sent="congestion notifications sent",
        cnp_handled="congestion notifications handled",
        ecn_marked_packets="packets marked by congestion",
    ),
    *_levels("port", "flag", up="link is active"),
    *_levels("port", "gbit/s", rate_gbit_per_s="link rate"),
    *_counters("nic", "bytes", sent_bytes="sent", received_bytes="received"),
    *_counters(
        "nic",
        "count",
        send_errors="send errors",
        receive_errors="receive errors",
        crc_errors="CRC errors",
        send_drops="packets dropped before sending",
        receive_drops="received packets that were dropped",
        receive_misses="packets missed since buffers were full",
        carrier_changes="times the link came or went",
    ),
    *_levels("nic", "flag", up="link is up"),
    *_levels("nic", "gbit/s", rate_gbit_per_s="link rate"),
    *_levels("gpu", "percent", utilization_percent="utilisation"),
    *_levels("gpu", "bytes", memory_used_bytes="memory used", memory_total_bytes="memory"),
    *_levels("gpu", "watts", power_watts="power", power_limit_watts="power limit"),
    *_levels("gpu", "megahertz", sm_clock_mhz="SM clock", memory_clock_mhz="memory clock"),
    *_levels("gpu", "celsius", temperature_celsius="temperature", memory_temperature_celsius="memory temperature"),
    *_levels(
        "gpu",
        "flag",
        throttle_thermal="clocks lowered for the temperature",
        throttle_power_brake="clocks lowered by the power brake",
        throttle_hardware="clocks lowered by the hardware",
        throttle_power_cap="clocks lowered by the power cap",
        row_remap_pending="a row remap waits for a reset",
        row_remap_failed="a row remap failed",
    ),
    *_counters(
        "gpu",
        "count",
        ecc_corrected_errors="corrected ECC errors",
        ecc_uncorrected_errors="uncorrected ECC errors",
        nvlink_errors="NVLink errors",
        pcie_replays="PCIe replays",
        xid_errors="Xid errors",
    ),
    *_levels("gpu", "count", nvlinks_up="active NVLinks"),
    *_counters(
        "host",
        "seconds",
        busy_seconds="processors busy",
        iowait_seconds="processors idle while waiting for a disk",
        stolen_seconds="processors taken by the hypervisor",
    ),
    *_levels("host", "count", cores="processors", one_minute="load average"),
    *_levels("host", "bytes", available_bytes="memory available", total_bytes="memory", used_bytes="swap used"),
    *_counters("host", "bytes", in_bytes="swapped in", out_bytes="swapped out"),
    *_counters(
        "host",
        "count",
        oom_kills="processes killed for lack of memory",
        sent_segments="TCP segments sent",
        retransmitted_segments="TCP segments retransmitted",
        needlessly_retransmitted_segments="TCP segments retransmitted that the peer had already",
    ),
    *_counters("tcp", "count", lost_segments="TCP segments lost on the way to it"),
    *_counters("tcp", "bytes", carried_bytes="sent to it by TCP in bulk, and acknowledged"),
    *_counters("tcp", "seconds", carrying_seconds="bulk data on its way to it by TCP"),
    *_levels("tcp", "microseconds", least_round_trip_microseconds="least round trip to it by TCP"),
    *_counters("pressure", "seconds", some_seconds="some tasks waited", full_seconds="all tasks waited"),
    *_counters("disk", "bytes", read_bytes="read", written_bytes="written"),
    *_counters("disk", "seconds", busy_seconds="busy"),
    *_levels("filesystem", "bytes", free_bytes="free", total_bytes="size"),
    *_levels("filesystem", "count", free_files="files that can be made", total_files="files at most"),
    *_levels("process", "bytes", resident_bytes="resident memory"),
    *_counters(
        "process", "seconds", cpu_seconds="processor time", held_back_seconds="held back by a limit of its cgroup"
    ),
    *_counters(
        "process",
        "count",
        major_faults="major page faults",
        voluntary_switches="voluntary context switches",
        involuntary_switches="involuntary context switches",
        cpu_limit_periods="periods of the limit of its cgroup",
        held_back_periods="periods in which the limit of its cgroup held it back",
    ),
    *_levels("process", "count", cpu_limit_processors="processors that its cgroup may use"),
    *_levels("process", "flag", stopped="stopped", uninterruptible="waits in the kernel, uninterruptible"),
    *_levels("other", "count", processors_used="processors used, since the last look"),
    *_counters("agent", "seconds", cpu_seconds="processor time"),
    *_levels("agent", "bytes", resident_bytes="resident memory"),
    *_counters("agent", "count", dropped_messages="messages dropped, since nobody read them"),
]
SERIES: dict[tuple[str, str], Series] = {(one.group, one.metric): one for one in _ROWS}


def device_of(name: str) -> str:
    """A folder or interface as the device of a series, escaped as in a URL; of a long one its end."""
    escaped = quote(name, safe=_PLAIN)
    return escaped if len(escaped) <= _LONGEST_DEVICE else f"...{escaped[3 - _LONGEST_DEVICE :]}"


def split_name(name: str) -> SeriesName:
    """The parts of a name. Raises ValueError for what is not the name of a series of the table."""
    if len(name) > MAX_NAME_CHARACTERS or not _NAME.fullmatch(name):
        raise ValueError("no name of a series: <group>/<device>/<metric>")
    group, _, rest = name.partition("/")
    device, _, metric = rest.rpartition("/")
    if not device or (group, metric) not in SERIES:
        raise ValueError("no series of the table in diagnostics/agent/series.py")
    return SeriesName(group, device, metric)


def series_of(name: str) -> Series:
    """What is known of a series by its name. Raises ValueError for one that is not in the table."""
    parts = split_name(name)
    return SERIES[parts.group, parts.metric]
