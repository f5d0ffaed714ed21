"""NVIDIA GPUs by NVML (nvidia-ml-py), named by NVML's index, whatever CUDA_VISIBLE_DEVICES says.

What changes each second is one source (``Gpus``), error counters another, read less often (``GpuErrors``): a call of
NVML takes up to a millisecond of a driver that ranks use too.
"""

import contextlib
import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from diagnostics.agent.sources.base import DeviceEvent, Sample, SourceUnavailableError

ERROR_INTERVALS = 3  # error counters are read each third time
_MAX_XIDS = 32  # of one reading
_MAX_LINKS = 18  # of a GPU: NVML_NVLINK_MAX_LINKS

Values = Iterator[tuple[str, float]]

# bits of nvmlDeviceGetCurrentClocksEventReasons (nvml.h, nvmlClocksEventReasons)
_THROTTLE = {
    "throttle_thermal": 0x20 | 0x40,
    "throttle_power_brake": 0x80,
    "throttle_hardware": 0x8,
    "throttle_power_cap": 0x4,
}
_FIELDS = {  # by the names of nvml.h; those that a driver does not know are passed over
    "NVML_FI_DEV_ECC_SBE_VOL_TOTAL": "ecc_corrected_errors",
    "NVML_FI_DEV_ECC_DBE_VOL_TOTAL": "ecc_uncorrected_errors",
    "NVML_FI_DEV_PCIE_REPLAY_COUNTER": "pcie_replays",
    "NVML_FI_DEV_REMAPPED_PENDING": "row_remap_pending",
    "NVML_FI_DEV_REMAPPED_FAILURE": "row_remap_failed",
    "NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL": "nvlink_errors",
    "NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL": "nvlink_errors",
    "NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL": "nvlink_errors",
    "NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL": "nvlink_errors",
}
_FLAGS = frozenset({"row_remap_pending", "row_remap_failed"})


def load_nvml() -> Any:  # gpu: agent-gpu
    """NVML, started. Raises SourceUnavailableError without the library or the driver."""
    try:
        nvml: Any = importlib.import_module("pynvml")
    except ImportError as error:
        raise SourceUnavailableError("nvidia-ml-py is not installed") from error
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        raise SourceUnavailableError(f"no NVIDIA driver: {error}") from error
    return nvml


class _Devices:  # gpu: agent-gpu
    """The GPUs that NVML lists. What one of them does not have, or cannot say now, is missing."""

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml
        try:
            count = nvml.nvmlDeviceGetCount()
            self._handles = {str(index): nvml.nvmlDeviceGetHandleByIndex(index) for index in range(count)}
        except nvml.NVMLError as error:
            raise SourceUnavailableError(f"NVML: {error}") from error
        if not self._handles:
            raise SourceUnavailableError("no NVIDIA GPU")
        self._unsupported: set[tuple[str, str]] = set()

    def _asked(self, parts: Mapping[str, Callable[[Any], Values]]) -> dict[str, float]:
        values = {}
        for device, handle in self._handles.items():
            for part, ask in parts.items():
                if (device, part) in self._unsupported:
                    continue
                try:
                    values.update({f"gpu/{device}/{metric}": value for metric, value in ask(handle)})
                except self._nvml.NVMLError_NotSupported:
                    self._unsupported.add((device, part))
                except self._nvml.NVMLError:
                    continue  # the GPU is lost or busy with a reset; the rest of the machine is not
        return values

    def close(self) -> None:
        with contextlib.suppress(self._nvml.NVMLError):
            self._nvml.nvmlShutdown()


class Gpus(_Devices):  # gpu: agent-gpu
    """Load, memory, power, clocks, temperature and the reasons of lowered clocks, of all GPUs."""

    def __init__(self, nvml: Any) -> None:
        super().__init__(nvml)
        self._parts: Mapping[str, Callable[[Any], Values]] = {
            "utilization": self._utilization,
            "memory": self._memory,
            "power": self._power,
            "power limit": self._power_limit,
            "clocks": self._clocks,
            "temperature": self._temperature,
            "reasons": self._reasons,
        }

    def read(self) -> Sample:
        """All GPUs once."""
        return Sample(values=self._asked(self._parts))

    def _utilization(self, handle: Any) -> Values:
        yield "utilization_percent", self._nvml.nvmlDeviceGetUtilizationRates(handle).gpu

    def _memory(self, handle: Any) -> Values:
        memory = self._nvml.nvmlDeviceGetMemoryInfo(handle)
        yield "memory_used_bytes", memory.used
        yield "memory_total_bytes", memory.total

    def _power(self, handle: Any) -> Values:
        yield "power_watts", self._nvml.nvmlDeviceGetPowerUsage(handle) / 1000

    def _power_limit(self, handle: Any) -> Values:
        yield "power_limit_watts", self._nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000

    def _clocks(self, handle: Any) -> Values:
        yield "sm_clock_mhz", self._nvml.nvmlDeviceGetClockInfo(handle, self._nvml.NVML_CLOCK_SM)
        yield "memory_clock_mhz", self._nvml.nvmlDeviceGetClockInfo(handle, self._nvml.NVML_CLOCK_MEM)

    def _temperature(self, handle: Any) -> Values:
        yield "temperature_celsius", self._nvml.nvmlDeviceGetTemperature(handle, self._nvml.NVML_TEMPERATURE_GPU)

    def _reasons(self, handle: Any) -> Values:
        reasons = self._nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)  # its name in drivers before 535, too
        for metric, bits in _THROTTLE.items():
            yield metric, int(bool(reasons & bits))


class GpuErrors(_Devices):  # gpu: agent-gpu
    """ECC, row remaps, NVLink, PCIe and Xid errors of all GPUs."""

    def __init__(self, nvml: Any) -> None:
        super().__init__(nvml)
        self._fields = {getattr(nvml, name): metric for name, metric in _FIELDS.items() if hasattr(nvml, name)}
        self._counted: set[tuple[int, int]] = set()  # handles and fields that have had a value
        self._links = {id(handle): self._active_links(handle) for handle in self._handles.values()}
        self._xids = dict.fromkeys(self._handles, 0)
        self._events = self._event_set()

    def read(self) -> Sample:
        """All GPUs once, and the Xids since the last time."""
        values = self._asked({"fields": self._field_values, "links": self._links_up})
        told = tuple(self._new_xids())
        if self._events is not None:
            values.update({f"gpu/{device}/xid_errors": count for device, count in self._xids.items()})
        return Sample(values=values, events=told)

    def close(self) -> None:
        """Give NVML back."""
        if self._events is not None:
            with contextlib.suppress(self._nvml.NVMLError):
                self._nvml.nvmlEventSetFree(self._events)
        super().close()

    def _field_values(self, handle: Any) -> Values:
        sums: dict[str, int] = {}
        partial: set[str] = set()  # a sum without one of its parts is another number
        for field in self._nvml.nvmlDeviceGetFieldValues(handle, list(self._fields)):
            metric = self._fields[field.fieldId]
            if field.nvmlReturn == self._nvml.NVML_SUCCESS:
                sums[metric] = sums.get(metric, 0) + self._number(field)
                self._counted.add((id(handle), field.fieldId))
            elif (id(handle), field.fieldId) in self._counted:
                partial.add(metric)
        for metric, value in sums.items():
            if metric not in partial:
                yield metric, int(value > 0) if metric in _FLAGS else value

    def _number(self, field: Any) -> int:
        """NVML says for each field in which member of the union its value is."""
        members = {
            self._nvml.NVML_VALUE_TYPE_UNSIGNED_INT: "uiVal",
            self._nvml.NVML_VALUE_TYPE_UNSIGNED_LONG: "ulVal",
            self._nvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG: "ullVal",
            self._nvml.NVML_VALUE_TYPE_SIGNED_LONG_LONG: "sllVal",
        }
        return int(getattr(field.value, members.get(field.valueType, "uiVal")))

    def _active_links(self, handle: Any) -> list[int]:
        active = []
        for link in range(_MAX_LINKS):
            try:
                if self._nvml.nvmlDeviceGetNvLinkState(handle, link):
                    active.append(link)
            except self._nvml.NVMLError:
                break  # no more links, or none at all
        return active

    def _links_up(self, handle: Any) -> Values:
        links = self._links[id(handle)]
        if links:
            yield "nvlinks_up", sum(bool(self._nvml.nvmlDeviceGetNvLinkState(handle, link)) for link in links)

    def _event_set(self) -> Any:
        """Where the driver puts Xids; None where it has no events."""
        try:
            events = self._nvml.nvmlEventSetCreate()
            for handle in self._handles.values():
                self._nvml.nvmlDeviceRegisterEvents(handle, self._nvml.nvmlEventTypeXidCriticalError, events)
        except self._nvml.NVMLError:
            return None
        return events

    def _new_xids(self) -> Iterator[DeviceEvent]:
        for _ in range(_MAX_XIDS if self._events is not None else 0):
            try:
                event = self._nvml.nvmlEventSetWait_v2(self._events, 0)
                device = str(self._nvml.nvmlDeviceGetIndex(event.device))
                bus = self._nvml.nvmlDeviceGetPciInfo(event.device).busId
            except self._nvml.NVMLError:
                return  # no more of them
            self._xids[device] = self._xids.get(device, 0) + 1
            place = bus.decode() if isinstance(bus, bytes) else bus
            yield DeviceEvent(device=device, text=f"NVML: Xid ({_as_kernel_names(place)}): {event.eventData}")


def _as_kernel_names(bus: str) -> str:
    """``00000000:1B:00.0`` as ``PCI:0000:1b:00``, which is in the kernel's log."""
    return f"PCI:{bus.lower()[-12:].removesuffix('.0')}"
