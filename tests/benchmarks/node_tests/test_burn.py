"""A short burn of this machine's CPU, and what the driver of emulated GPUs says meanwhile."""

from typing import Any

import pytest

from diagnostics.agent.sources.base import SourceUnavailableError
from diagnostics.agent.sources.gpus import Gpus
from raybench.benchmarks.node_tests import burn
from raybench.benchmarks.node_tests.devices import Device
from tests.benchmarks.node_tests.said import SMALL, figures_of
from tests.diagnostics.agent.fake_nvml import FakeNvml

GPUS = [Device(f"gpu{index}", f"cuda:{index}", "NVIDIA H100 80GB HBM3", "torch", is_gpu=True) for index in range(2)]


def states_of(nvml: FakeNvml, readings: int = 2) -> dict[tuple[str, str], Any]:
    states = burn.States(lambda: Gpus(nvml))
    states._over.set()  # one reading each time
    for _ in range(readings):
        states._read()
    return {(one.device, one.case): one for one in states.figures(GPUS)}


def test_a_cpu_computes_the_same_again_and_again_and_says_how_fast(capsys: pytest.CaptureFixture[str]) -> None:
    repeat, speed, *_ = figures_of(burn.run, capsys)
    assert (repeat["test"], repeat["checked"] > 0, repeat.get("wrong")) == ("burn-repeat", True, None)
    assert (speed["test"], speed["unit"]) == ("burn-speed", "TFLOP/s")
    assert all(sample > 0 for sample in speed["samples"])


def test_no_time_left_is_no_figure_of_a_burn(capsys: pytest.CaptureFixture[str]) -> None:
    (only,) = figures_of(burn.run, capsys, SMALL._replace(seconds=2.0))
    assert (only["test"], only["status"]) == ("burn", "missing")


def test_temperatures_clocks_and_the_share_of_reasons_are_taken_of_each_gpu() -> None:
    nvml = FakeNvml(2)
    nvml.gpus[1].reasons = 0x20
    found = states_of(nvml)
    assert found["gpu0", "temperature_celsius"].samples == (61.0, 61.0)
    assert found["gpu0", "sm_clock_mhz"].samples == (1755.0, 1755.0)
    assert found["gpu0", "throttle_thermal"].samples == (0.0,)
    assert found["gpu1", "throttle_thermal"].samples == (1.0,)
    assert ("gpu1", "utilization_percent") not in found


def test_a_gpu_of_which_the_driver_says_nothing_is_told() -> None:
    nvml = FakeNvml(2)
    nvml.gpus[1].lost = True
    found = states_of(nvml)
    assert found["gpu1", ""].status == "missing"
    assert found["gpu0", "power_watts"].status == "ok"


def test_without_the_library_it_says_why() -> None:
    def unavailable() -> burn.OpenSource:
        raise SourceUnavailableError("nvidia-ml-py is not installed")

    states = burn.States(unavailable)
    assert [(one.status, one.reason) for one in states.figures(GPUS)] == [
        ("missing", "nvidia-ml-py is not installed")
    ] * 2


def test_many_samples_are_thinned_evenly() -> None:
    assert burn.thinned([float(number) for number in range(1200)]) == tuple(float(one) for one in range(0, 1200, 2))
    assert burn.thinned([]) == ()
