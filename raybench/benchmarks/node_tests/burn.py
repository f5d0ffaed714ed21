"""All devices under full load for minutes: whether results stay the same, whether speed is kept, and why not.

Of each device ``burn-repeat`` compares the results of one product bit by bit with the first, ``burn-speed`` is
TFLOP/s (10^12 operations a second), a sample each block, and ``burn-state`` has meanwhile, once a second, what the
driver says: temperature, power, the clock, and the share of the time in which its clocks were held down, by reason.
Of a CPU the kernel counts the times when it was too hot.
"""

from __future__ import annotations

import glob
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Protocol

from raybench.benchmarks.node_tests.devices import Device, devices, is_out_of_order, repeats_for, seconds_of
from raybench.benchmarks.node_tests.gemm import differing
from raybench.benchmarks.node_tests.pattern import dense_operands
from raybench.benchmarks.node_tests.plan import Figure, Plan, say

_BLOCK_SECONDS = 1.0
_MOST_SAMPLES = 600
_END_SECONDS = 2.0  # of the plan's time, for the last block
_UNITS = {"temperature_celsius": "C", "power_watts": "W", "sm_clock_mhz": "MHz"}
_HELD_DOWN = "throttle_"  # what the agent's series of these reasons begin with; 0 or 1


class OpenSource(Protocol):
    """The agent's source of readings of all GPUs."""

    def read(self) -> Any:
        """One reading, with ``values`` by name (``gpu/0/power_watts``). Raises OSError where it ends for good."""

    def close(self) -> None:
        """Give back what it holds."""


def run(plan: Plan) -> None:
    """Load all devices for ``burn_seconds``, or for what is left of the plan's time."""
    found = devices()
    seconds = min(plan.burn_seconds, plan.seconds - _END_SECONDS)
    if seconds < _BLOCK_SECONDS:
        say(Figure("burn", "host", status="missing", reason=f"{plan.seconds:.0f} s were left for it"))
        return
    width = plan.gpu_widths[1] if found[0].is_gpu else plan.cpu_widths[1]
    operands = dense_operands(width)
    loads = [_Load(device, operands, min(_BLOCK_SECONDS, seconds / 5)) for device in found]
    states = States(_opened(found[0]))
    ends = time.monotonic() + seconds
    with states.watched(), ThreadPoolExecutor(len(found)) as pool:
        list(pool.map(lambda load: load.until(ends), loads))
    for load in loads:
        load.say(seconds)
    for figure in states.figures(found):
        say(figure)


class _Load:
    """The load of one device: what it found until it ended, or was ended by an error."""

    def __init__(self, device: Device, operands: tuple[Any, Any], block_seconds: float) -> None:
        self.device = device
        self._operands = operands
        self._block_seconds = block_seconds
        self.status, self.reason = "ok", ""
        self.checked = self.wrong = 0
        self.samples: list[float] = []

    def until(self, ends: float) -> None:
        """Multiply, and compare after each block."""
        try:
            self._multiply(ends)
        except RuntimeError as error:
            self.status = "failed" if is_out_of_order(error) else "missing"
            self.reason = " ".join(str(error).split())[:300]

    def _multiply(self, ends: float) -> None:
        import torch

        dtype = torch.bfloat16 if self.device.is_gpu else torch.float32
        left, right = (one.to(self.device.torch_name, dtype) for one in self._operands)
        out = torch.empty_like(left)

        def product() -> Any:
            return torch.mm(left, right, out=out)

        first = product().clone()
        times = repeats_for(product, self.device, self._block_seconds)
        operations = 2.0 * left.shape[0] ** 3 * times
        while time.monotonic() < ends:
            self.samples.append(operations / seconds_of(product, times, self.device) / 1e12)
            self.wrong += differing(out, first)
            self.checked += first.numel()

    def say(self, seconds: float) -> None:
        """Its figures."""
        width = self._operands[0].shape[0]
        common: dict[str, Any] = {"device": self.device.name, "case": "bf16" if self.device.is_gpu else "fp32"}
        common |= {"status": self.status, "reason": self.reason, "model": self.device.model}
        common["setting"] = f"{width} x {width} for {seconds:.0f} s, {self.device.stack}"
        say(Figure("burn-repeat", checked=self.checked, wrong=self.wrong, **common))
        say(Figure("burn-speed", unit="TFLOP/s", samples=thinned(self.samples), **common))


def thinned(samples: list[float]) -> tuple[float, ...]:
    """At most so many of them as an answer takes, evenly."""
    every = -(-len(samples) // _MOST_SAMPLES) or 1
    return tuple(round(one, 6) for one in samples[::every])


class States:
    """What a driver says of all devices, read once a second. ``opened`` gives the source, or raises OSError."""

    def __init__(self, opened: Callable[[], OpenSource]) -> None:
        self._seen: dict[tuple[str, str], list[float]] = {}
        self._over = threading.Event()
        self.reason = ""
        try:
            self._source: OpenSource | None = opened()
        except (OSError, ImportError, TypeError) as error:  # TypeError: the agent's source needs Python 3.10
            self._source = None
            self.reason = " ".join(str(error).split())[:300] or type(error).__name__

    def watched(self) -> States:
        """Itself, which reads from ``with`` on."""
        return self

    def __enter__(self) -> None:
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(5)
        if self._source is not None and not self._thread.is_alive():
            self._source.close()

    def _read(self) -> None:
        while self._source is not None:
            try:
                values = self._source.read().values
            except OSError as error:
                self.reason = str(error)
                return
            for name, value in values.items():
                _, device, metric = name.split("/")
                self._seen.setdefault((device, metric), []).append(float(value))
            if self._over.wait(1.0):
                return

    def figures(self, found: list[Device]) -> list[Figure]:
        """What was read of each device; why nothing was, where that is so."""
        figures = []
        for number, device in enumerate(found):
            own = {metric: values for (index, metric), values in self._seen.items() if index == str(number)}
            for metric, values in own.items():
                if metric in _UNITS or metric.startswith(_HELD_DOWN):
                    unit = _UNITS.get(metric, "share of readings")
                    samples = thinned(values) if metric in _UNITS else (round(sum(values) / len(values), 4),)
                    figures.append(
                        Figure("burn-state", device.name, metric, model=device.model, unit=unit, samples=samples)
                    )
            if not own:
                reason = self.reason or "the driver says nothing of it"
                figures.append(Figure("burn-state", device.name, status="missing", reason=reason, model=device.model))
        return figures


def _opened(device: Device) -> Callable[[], OpenSource]:
    if not device.is_gpu:
        return ProcessorHeat
    return _gpu_source  # gpu: node-tests


def _gpu_source() -> OpenSource:  # gpu: node-tests
    """NVML's or amdsmi's, as the diagnostics agent reads them."""
    import torch

    from diagnostics.agent.sources import amd_gpus, gpus

    if torch.version.hip:
        return amd_gpus.AmdGpus(amd_gpus.load_amdsmi())
    return gpus.Gpus(gpus.load_nvml())


class ProcessorHeat:
    """Whether a CPU became too hot since it was read last, by the kernel's count. Raises OSError where it has none."""

    def __init__(self) -> None:
        self._before = self._count()

    def _count(self) -> int:
        paths = glob.glob("/sys/devices/system/cpu/cpu[0-9]*/thermal_throttle/*_throttle_count")
        if not paths:
            raise OSError("the kernel does not count when this CPU is too hot")
        total = 0
        for path in paths:
            with open(path, encoding="ascii") as file:
                total += int(file.read())
        return total

    def read(self) -> Any:
        """A reading as the agent's sources give them."""
        now = self._count()
        hotter, self._before = now > self._before, now
        return _Reading({"cpu/0/throttle_thermal": float(hotter)})

    def close(self) -> None:
        """Nothing is held."""


class _Reading:
    def __init__(self, values: dict[str, float]) -> None:
        self.values = values
