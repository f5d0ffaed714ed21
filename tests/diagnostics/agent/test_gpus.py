"""GPUs as NVML and amdsmi describe them, by stand-ins of the two libraries: no GPU is needed."""

import sys

import pytest

from diagnostics.agent.judging import Judge
from diagnostics.agent.series import split_name
from diagnostics.agent.sources.amd_gpus import AmdGpus, load_amdsmi
from diagnostics.agent.sources.base import SourceUnavailableError
from diagnostics.agent.sources.gpus import GpuErrors, Gpus, load_nvml
from diagnostics.agent.window import Window

from .fake_nvml import FakeAmdsmi, FakeNvml


def test_a_gpu_is_read_in_units_of_the_table() -> None:
    values = Gpus(FakeNvml(1)).read().values
    assert values == {
        "gpu/0/utilization_percent": 97,
        "gpu/0/memory_used_bytes": 70 << 30,
        "gpu/0/memory_total_bytes": 80 << 30,
        "gpu/0/power_watts": 612.4,
        "gpu/0/power_limit_watts": 700,
        "gpu/0/sm_clock_mhz": 1755,
        "gpu/0/memory_clock_mhz": 2619,
        "gpu/0/temperature_celsius": 61,
        "gpu/0/throttle_thermal": 0,
        "gpu/0/throttle_power_brake": 0,
        "gpu/0/throttle_hardware": 0,
        "gpu/0/throttle_power_cap": 1,
    }
    assert all(split_name(name) for name in values)


def test_what_a_gpu_does_not_have_is_missing_and_is_asked_once() -> None:
    nvml = FakeNvml(2)
    nvml.gpus[1].without = frozenset({"temperature", "power", "reasons"})
    gpus = Gpus(nvml)
    missing = set(gpus.read().values) - {name.replace("gpu/1", "gpu/0") for name in gpus.read().values}
    assert "gpu/0/temperature_celsius" in gpus.read().values
    assert not any(name.startswith("gpu/1/throttle") or name == "gpu/1/power_watts" for name in gpus.read().values)
    before = next(nvml.calls)
    gpus.read()
    assert next(nvml.calls) - before - 1 == 2 * 8 - 3
    assert missing


def test_a_gpu_that_is_lost_is_missing_and_the_others_are_read() -> None:
    nvml = FakeNvml(2)
    gpus, window, judge = Gpus(nvml), Window(host="node-7"), Judge()
    seen = set()
    for second in range(12):
        nvml.gpus[1].lost = second >= 5
        window.add("gpus", float(second), gpus.read().values)
        seen |= {(second, one.finding.summary) for one in judge.observed(window)}
    assert min(seen) == (7, "node-7 GPU 1 is gone")
    assert "gpu/0/power_watts" in gpus.read().values


@pytest.mark.parametrize(
    ("bits", "words"),
    [
        (0x20, "for its temperature"),
        (0x40 | 0x8, "for its temperature"),
        (0x80 | 0x8, "by the power brake"),
        (0x8, "by its hardware"),
        (0x4, ""),
        (0x1, ""),
        (0x10 | 0x2 | 0x100, ""),
    ],
)
def test_a_gpu_that_throttles_is_named_and_one_under_its_power_cap_is_not(bits: int, words: str) -> None:
    nvml = FakeNvml(8)
    gpus, window, judge = Gpus(nvml), Window(host="node-7"), Judge()
    nvml.gpus[5].figures |= {"celsius": 88, "sm": 1200}
    seen = []
    for second in range(20):
        nvml.gpus[5].reasons = bits if second >= 10 else 0x4
        window.add("gpus", float(second), gpus.read().values)
        seen += [(second, one.finding.summary) for one in judge.observed(window)]
    if words:
        assert seen[0] == (12, f"node-7 GPU 5: clocks are lowered {words}{seen[0][1].partition(words)[2]}")
        assert "(88 °C, SM clock 1200 MHz)" in seen[0][1]
    else:
        assert seen == []


def test_errors_are_counted_and_links_that_fell_are_seen() -> None:
    nvml = FakeNvml(1)
    nvml.gpus[0].fields = {3: 5, 4: 0, 94: 7, 144: 1, 145: 0, 38: 2, 52: 3}
    errors = GpuErrors(nvml)
    nvml.gpus[0].links[4] = 0
    assert errors.read().values == {
        "gpu/0/ecc_corrected_errors": 5,
        "gpu/0/ecc_uncorrected_errors": 0,
        "gpu/0/pcie_replays": 7,
        "gpu/0/row_remap_pending": 1,
        "gpu/0/row_remap_failed": 0,
        "gpu/0/nvlink_errors": 5,
        "gpu/0/nvlinks_up": 17,
        "gpu/0/xid_errors": 0,
    }
    errors.close()
    assert nvml.open == -1  # the events and NVML itself


def test_a_sum_that_lacks_one_of_its_parts_is_missing_and_no_growth() -> None:
    nvml = FakeNvml(1)
    nvml.gpus[0].fields = {38: 400, 52: 600}
    errors, window, judge = GpuErrors(nvml), Window(host="node-7"), Judge()
    for second in range(0, 30, 3):
        nvml.gpus[0].fields = {38: 400} if second == 12 else {38: 400, 52: 600}
        window.add("gpu errors", float(second), errors.read().values)
        assert judge.observed(window) == []


def test_an_xid_of_nvml_has_the_place_that_the_kernel_log_has() -> None:
    nvml = FakeNvml(2)
    errors = GpuErrors(nvml)
    nvml.xids = [(1, 79)]
    sample = errors.read()
    assert sample.values["gpu/1/xid_errors"] == 1
    assert [(one.device, one.text) for one in sample.events] == [("1", "NVML: Xid (PCI:0000:1c:00): 79")]
    assert errors.read().events == ()


def test_without_a_driver_or_a_library_there_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    for library, load in (("pynvml", load_nvml), ("amdsmi", load_amdsmi)):
        monkeypatch.setitem(sys.modules, library, None)
        with pytest.raises(SourceUnavailableError, match="is not installed"):
            load()
    with pytest.raises(SourceUnavailableError, match="no NVIDIA GPU"):
        Gpus(FakeNvml(0))


def test_an_amd_gpu_has_the_same_series() -> None:
    assert AmdGpus(FakeAmdsmi()).read().values == {
        "gpu/0/utilization_percent": 88,
        "gpu/0/memory_used_bytes": 100 << 30,
        "gpu/0/memory_total_bytes": 192 << 30,
        "gpu/0/power_watts": 711,
        "gpu/0/sm_clock_mhz": 2100,
        "gpu/0/temperature_celsius": 66,
        "gpu/0/ecc_corrected_errors": 2,
        "gpu/0/ecc_uncorrected_errors": 0,
    }
