"""Metrics of dcgm-exporter and node_exporter as series of ``diagnostics/agent/series.py``.

Names and units: DCGM's dcgm_fields.h (memory in MiB), node_exporter's collectors (base units). Metrics that only sound
alike are not here: DCGM_FI_DEV_XID_ERRORS is the last code, no count.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from diagnostics.agent.series import CPU_WAITING

_MIB = 2**20
_PAGE = 4096  # the smallest that Linux has: what was swapped is never too much


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """``series``: its name, with labels in braces. ``factor``: what a value is multiplied with."""

    series: str
    factor: float = 1


_DCGM = "DCGM_FI_DEV_"
METRICS: Mapping[str, Metric] = {
    **{
        f"{_DCGM}{name}": Metric(series=f"gpu/{{gpu}}/{series}", factor=factor)
        for name, series, factor in (
            ("GPU_UTIL", "utilization_percent", 1),
            ("FB_USED", "memory_used_bytes", _MIB),
            ("FB_TOTAL", "memory_total_bytes", _MIB),
            ("POWER_USAGE", "power_watts", 1),
            ("SM_CLOCK", "sm_clock_mhz", 1),
            ("MEM_CLOCK", "memory_clock_mhz", 1),
            ("GPU_TEMP", "temperature_celsius", 1),
            ("MEMORY_TEMP", "memory_temperature_celsius", 1),
            ("ECC_SBE_VOL_TOTAL", "ecc_corrected_errors", 1),
            ("ECC_DBE_VOL_TOTAL", "ecc_uncorrected_errors", 1),
            ("PCIE_REPLAY_COUNTER", "pcie_replays", 1),
            ("ROW_REMAP_FAILURE", "row_remap_failed", 1),
            ("ROW_REMAP_PENDING", "row_remap_pending", 1),
        )
    },
    **{
        f"node_infiniband_{name}_total": Metric(series=f"port/{{device}}:{{port}}/{series}")
        for name, series in (
            ("port_data_transmitted_bytes", "sent_bytes"),
            ("port_data_received_bytes", "received_bytes"),
            ("symbol_error", "symbol_errors"),
            ("link_downed", "link_downed"),
            ("link_error_recovery", "link_recoveries"),
            ("port_errors_received", "receive_errors"),
            ("port_receive_remote_physical_errors", "remote_physical_errors"),
            ("local_link_integrity_errors", "integrity_errors"),
            ("excessive_buffer_overrun_errors", "buffer_overruns"),
            ("port_discards_transmitted", "send_discards"),
            ("port_transmit_wait", "send_wait_ticks"),
        )
    },
    **{
        f"node_network_{name}_total": Metric(series=f"nic/{{device}}/{series}")
        for name, series in (
            ("transmit_bytes", "sent_bytes"),
            ("receive_bytes", "received_bytes"),
            ("transmit_errs", "send_errors"),
            ("receive_errs", "receive_errors"),
            ("transmit_drop", "send_drops"),
            ("receive_drop", "receive_drops"),
            ("carrier_changes", "carrier_changes"),
        )
    },
    "node_network_up": Metric(series="nic/{device}/up"),
    "node_memory_MemAvailable_bytes": Metric(series="host/memory/available_bytes"),
    "node_memory_MemTotal_bytes": Metric(series="host/memory/total_bytes"),
    "node_vmstat_pswpin": Metric(series="host/swap/in_bytes", factor=_PAGE),
    "node_vmstat_pswpout": Metric(series="host/swap/out_bytes", factor=_PAGE),
    "node_load1": Metric(series="host/load/one_minute"),
    "node_pressure_cpu_waiting_seconds_total": Metric(series=CPU_WAITING),
    "node_pressure_memory_waiting_seconds_total": Metric(series="pressure/memory/some_seconds"),
    "node_pressure_memory_stalled_seconds_total": Metric(series="pressure/memory/full_seconds"),
    "node_pressure_io_waiting_seconds_total": Metric(series="pressure/io/some_seconds"),
    "node_pressure_io_stalled_seconds_total": Metric(series="pressure/io/full_seconds"),
    "node_disk_read_bytes_total": Metric(series="disk/{device}/read_bytes"),
    "node_disk_written_bytes_total": Metric(series="disk/{device}/written_bytes"),
    "node_disk_io_time_seconds_total": Metric(series="disk/{device}/busy_seconds"),
}
PROCESSORS = "node_cpu_seconds_total"  # a counter a processor and mode: summed to that of the host
IDLE = {"idle", "iowait"}
OF_MODES: Mapping[str, str] = {"iowait": "host/cpu/iowait_seconds", "steal": "host/cpu/stolen_seconds"}
# NVML's clocks event reasons (nvml.h): bits of DCGM_FI_DEV_CLOCK_THROTTLE_REASONS, CLOCKS_EVENT_REASONS since DCGM 4.
REASONS = frozenset({f"{_DCGM}CLOCK_THROTTLE_REASONS", f"{_DCGM}CLOCKS_EVENT_REASONS"})
BITS: Mapping[str, int] = {
    "throttle_power_cap": 0x4,
    "throttle_hardware": 0x8,
    "throttle_thermal": 0x20 | 0x40,
    "throttle_power_brake": 0x80,
}
