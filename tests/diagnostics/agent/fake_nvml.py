"""NVML with GPUs of our own: the functions that the agent calls, answering as an H100 did, one of them throttling."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

H100 = {"utilization": 97, "watts": 612.4, "limit": 700.0, "sm": 1755, "memory": 2619, "celsius": 61}


@dataclass(slots=True)
class FakeGpu:
    """One GPU; whoever tests changes it while it runs."""

    index: int
    reasons: int = 0x4  # the power cap, as under load
    fields: dict[int, int] = field(default_factory=dict)
    links: list[int] = field(default_factory=lambda: [1] * 18)
    without: frozenset[str] = frozenset()
    lost: bool = False
    figures: dict[str, float] = field(default_factory=lambda: dict(H100))


class FakeNvml:
    """As the module pynvml. ``xids`` are taken one by one, as (GPU, number)."""

    class NVMLError(Exception):
        pass

    class NVMLError_NotSupported(NVMLError):
        pass

    class NVMLError_GpuIsLost(NVMLError):
        pass

    class NVMLError_Timeout(NVMLError):
        pass

    NVML_SUCCESS = 0
    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0
    NVML_VALUE_TYPE_UNSIGNED_INT, NVML_VALUE_TYPE_UNSIGNED_LONG = 1, 2
    NVML_VALUE_TYPE_UNSIGNED_LONG_LONG, NVML_VALUE_TYPE_SIGNED_LONG_LONG = 3, 4
    NVML_FI_DEV_ECC_SBE_VOL_TOTAL, NVML_FI_DEV_ECC_DBE_VOL_TOTAL = 3, 4
    NVML_FI_DEV_PCIE_REPLAY_COUNTER = 94
    NVML_FI_DEV_REMAPPED_PENDING, NVML_FI_DEV_REMAPPED_FAILURE = 144, 145
    NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL, NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL = 38, 52
    nvmlEventTypeXidCriticalError = 8

    def __init__(self, count: int = 8) -> None:
        self.gpus = [FakeGpu(index) for index in range(count)]
        self.xids: list[tuple[int, int]] = []
        self.calls: Iterator[int] = itertools.count()
        self.open = 1

    def _asked(self, gpu: FakeGpu, part: str) -> None:
        next(self.calls)
        if gpu.lost:
            raise self.NVMLError_GpuIsLost("GPU is lost")
        if part in gpu.without:
            raise self.NVMLError_NotSupported("Not Supported")

    def nvmlDeviceGetCount(self) -> int:
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> FakeGpu:
        return self.gpus[index]

    def nvmlDeviceGetIndex(self, gpu: FakeGpu) -> int:
        return gpu.index

    def nvmlDeviceGetPciInfo(self, gpu: FakeGpu) -> SimpleNamespace:
        return SimpleNamespace(busId=f"00000000:{0x1B + gpu.index:02X}:00.0")

    def nvmlDeviceGetUtilizationRates(self, gpu: FakeGpu) -> SimpleNamespace:
        self._asked(gpu, "utilization")
        return SimpleNamespace(gpu=gpu.figures["utilization"], memory=40)

    def nvmlDeviceGetMemoryInfo(self, gpu: FakeGpu) -> SimpleNamespace:
        self._asked(gpu, "memory")
        return SimpleNamespace(used=70 << 30, total=80 << 30, free=10 << 30)

    def nvmlDeviceGetPowerUsage(self, gpu: FakeGpu) -> float:
        self._asked(gpu, "power")
        return gpu.figures["watts"] * 1000

    def nvmlDeviceGetEnforcedPowerLimit(self, gpu: FakeGpu) -> float:
        self._asked(gpu, "limit")
        return gpu.figures["limit"] * 1000

    def nvmlDeviceGetClockInfo(self, gpu: FakeGpu, kind: int) -> float:
        self._asked(gpu, "clocks")
        return gpu.figures["sm" if kind == self.NVML_CLOCK_SM else "memory"]

    def nvmlDeviceGetTemperature(self, gpu: FakeGpu, kind: int) -> float:
        self._asked(gpu, "temperature")
        return gpu.figures["celsius"]

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, gpu: FakeGpu) -> int:
        self._asked(gpu, "reasons")
        return gpu.reasons

    def nvmlDeviceGetFieldValues(self, gpu: FakeGpu, ids: Sequence[int]) -> list[SimpleNamespace]:
        self._asked(gpu, "fields")
        return [
            SimpleNamespace(
                fieldId=one,
                nvmlReturn=0 if one in gpu.fields else 3,
                valueType=self.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG,
                value=SimpleNamespace(ullVal=gpu.fields.get(one, 99), uiVal=-1),
            )
            for one in ids
        ]

    def nvmlDeviceGetNvLinkState(self, gpu: FakeGpu, link: int) -> int:
        self._asked(gpu, "links")
        return gpu.links[link]

    def nvmlEventSetCreate(self) -> object:
        return self

    def nvmlDeviceRegisterEvents(self, gpu: FakeGpu, kind: int, events: object) -> None:
        self._asked(gpu, "events")

    def nvmlEventSetWait_v2(self, events: object, milliseconds: int) -> SimpleNamespace:
        if not self.xids:
            raise self.NVMLError_Timeout("Timeout")
        index, number = self.xids.pop(0)
        return SimpleNamespace(device=self.gpus[index], eventData=number)

    def nvmlEventSetFree(self, events: object) -> None:
        self.open -= 1

    def nvmlShutdown(self) -> None:
        self.open -= 1


class FakeAmdsmi(SimpleNamespace):
    """As the module amdsmi, with one MI300X that has no reading of its memory's temperature."""

    class AmdSmiException(Exception):
        pass

    AmdSmiMemoryType = SimpleNamespace(VRAM="vram")
    AmdSmiClkType = SimpleNamespace(GFX="gfx")
    AmdSmiTemperatureType = SimpleNamespace(HOTSPOT="hotspot", VRAM="vram")
    AmdSmiTemperatureMetric = SimpleNamespace(CURRENT="current")

    def amdsmi_get_processor_handles(self) -> list[str]:
        return ["gpu"]

    def amdsmi_get_gpu_activity(self, handle: str) -> dict[str, Any]:
        return {"gfx_activity": 88, "umc_activity": 3, "mm_activity": "N/A"}

    def amdsmi_get_gpu_memory_usage(self, handle: str, kind: str) -> int:
        return 100 << 30

    def amdsmi_get_gpu_memory_total(self, handle: str, kind: str) -> int:
        return 192 << 30

    def amdsmi_get_power_info(self, handle: str) -> dict[str, Any]:
        return {"current_socket_power": 711, "average_socket_power": "N/A"}

    def amdsmi_get_clock_info(self, handle: str, kind: str) -> dict[str, Any]:
        return {"clk": 2100, "min_clk": 132, "max_clk": 2100}

    def amdsmi_get_temp_metric(self, handle: str, kind: str, metric: str) -> int:
        if kind == "vram":
            raise self.AmdSmiException("not supported")
        return 66

    def amdsmi_get_gpu_total_ecc_count(self, handle: str) -> dict[str, Any]:
        return {"correctable_count": 2, "uncorrectable_count": 0}
