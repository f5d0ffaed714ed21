"""AMD GPUs by amdsmi, which ROCm brings along: the same series as of NVIDIA's, as far as amdsmi has them."""

import contextlib
import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from diagnostics.agent.sources.base import Sample, SourceUnavailableError

Values = Iterator[tuple[str, Any]]
_NO_NUMBER = "N/A"  # what amdsmi says for what a GPU does not have


def load_amdsmi() -> Any:
    """amdsmi, started. Raises SourceUnavailableError without the library or the driver."""
    try:
        amdsmi: Any = importlib.import_module("amdsmi")
    except (ImportError, OSError, KeyError) as error:  # it looks for its C library where it is imported
        raise SourceUnavailableError("amdsmi is not installed") from error
    try:
        amdsmi.amdsmi_init()
    except amdsmi.AmdSmiException as error:
        raise SourceUnavailableError(f"no AMD driver: {error}") from error
    return amdsmi


class AmdGpus:
    """All GPUs that amdsmi lists, by their position in its list."""

    def __init__(self, amdsmi: Any) -> None:
        self._amdsmi = amdsmi
        try:
            self._handles = {str(index): one for index, one in enumerate(amdsmi.amdsmi_get_processor_handles())}
        except amdsmi.AmdSmiException as error:
            raise SourceUnavailableError(f"amdsmi: {error}") from error
        if not self._handles:
            raise SourceUnavailableError("no AMD GPU")
        self._parts: Mapping[str, Callable[[Any], Values]] = {
            "activity": self._activity,
            "memory": self._memory,
            "power": self._power,
            "clock": self._clock,
            "temperature": self._temperature,
            "memory temperature": self._memory_temperature,
            "ecc": self._ecc,
        }

    def read(self) -> Sample:
        """All GPUs once; what one does not have is missing."""
        values: dict[str, float] = {}
        for device, handle in self._handles.items():
            for ask in self._parts.values():
                with contextlib.suppress(self._amdsmi.AmdSmiException, KeyError):
                    values.update(
                        {f"gpu/{device}/{metric}": float(value) for metric, value in ask(handle) if value != _NO_NUMBER}
                    )
        return Sample(values=values)

    def close(self) -> None:
        """Give amdsmi back."""
        with contextlib.suppress(self._amdsmi.AmdSmiException):
            self._amdsmi.amdsmi_shut_down()

    def _activity(self, handle: Any) -> Values:
        yield "utilization_percent", self._amdsmi.amdsmi_get_gpu_activity(handle)["gfx_activity"]

    def _memory(self, handle: Any) -> Values:
        kind = self._amdsmi.AmdSmiMemoryType.VRAM
        yield "memory_used_bytes", self._amdsmi.amdsmi_get_gpu_memory_usage(handle, kind)
        yield "memory_total_bytes", self._amdsmi.amdsmi_get_gpu_memory_total(handle, kind)

    def _power(self, handle: Any) -> Values:
        power = self._amdsmi.amdsmi_get_power_info(handle)
        now = power.get("current_socket_power", _NO_NUMBER)  # MI300; older GPUs have the average only
        yield "power_watts", power["average_socket_power"] if now == _NO_NUMBER else now

    def _clock(self, handle: Any) -> Values:
        clock = self._amdsmi.amdsmi_get_clock_info(handle, self._amdsmi.AmdSmiClkType.GFX)
        yield "sm_clock_mhz", clock["clk"]

    def _temperature(self, handle: Any) -> Values:
        place, current = self._amdsmi.AmdSmiTemperatureType.HOTSPOT, self._amdsmi.AmdSmiTemperatureMetric.CURRENT
        yield "temperature_celsius", self._amdsmi.amdsmi_get_temp_metric(handle, place, current)

    def _memory_temperature(self, handle: Any) -> Values:
        place, current = self._amdsmi.AmdSmiTemperatureType.VRAM, self._amdsmi.AmdSmiTemperatureMetric.CURRENT
        yield "memory_temperature_celsius", self._amdsmi.amdsmi_get_temp_metric(handle, place, current)

    def _ecc(self, handle: Any) -> Values:
        errors = self._amdsmi.amdsmi_get_gpu_total_ecc_count(handle)
        yield "ecc_corrected_errors", errors["correctable_count"]
        yield "ecc_uncorrected_errors", errors["uncorrectable_count"]
