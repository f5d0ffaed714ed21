"""A GPU lowers its clocks.

Symptom: a GPU reports in three readings on end, a second apart, that its clocks are lowered for its temperature, by the
power brake, or by its hardware.

Why: cooling (fans, air flow, a blocked inlet, liquid cooling that failed), a power supply that gives too little (the
brake is pulled from outside), or the GPU protects itself. All ranks wait for the slowest GPU.

Not when: the clocks are lowered by the power cap, which is normal under full load, or since the GPU is idle. A single
reading is no finding: clocks are lowered for moments when load sets in.

Source: NVML, nvmlClocksEventReasons: HwSlowdown 0x8, SwThermalSlowdown 0x20, HwThermalSlowdown 0x40,
HwPowerBrakeSlowdown 0x80; SwPowerCap 0x4 and GpuIdle 0x1 are not judged.
"""

from collections.abc import Iterator

from diagnostics.agent.rules.base import LiveRule, Observed, advice
from diagnostics.agent.window import Window

HELD_SECONDS = 2.0
_REASONS = {  # the first that holds is told: the hardware's flag is set together with the others
    "throttle_power_brake": "by the power brake, which is pulled from outside the GPU",
    "throttle_thermal": "for its temperature",
    "throttle_hardware": "by its hardware",
}


def check(window: Window) -> Iterator[Observed]:
    """One finding a GPU."""
    told = set()
    for metric, why in _REASONS.items():
        for device, name in window.devices("gpu", metric).items():
            if device in told or not window.held(name, HELD_SECONDS):
                continue
            told.add(device)
            yield RULE.observed(
                window,
                device=device,
                summary=f"GPU {device}: clocks are lowered {why}{_figures(window, device)}",
                explanation="The ranks of all GPUs wait for the slowest one.",
                since_seconds=window.held_since(name),
                series=(name, *(shown for shown in _shown(device) if window.latest(shown) is not None)),
            )


def _shown(device: str) -> tuple[str, str]:
    return f"gpu/{device}/temperature_celsius", f"gpu/{device}/sm_clock_mhz"


def _figures(window: Window, device: str) -> str:
    temperature, clock = (window.latest(name) for name in _shown(device))
    told = [
        *([f"{temperature:.0f} °C"] if temperature is not None else []),
        *([f"SM clock {clock:.0f} MHz"] if clock is not None else []),
    ]
    return f" ({', '.join(told)})" if told else ""


RULE = LiveRule(
    id="gpu-throttled",
    title="A GPU lowers its clocks",
    severity="warning",
    check=check,
    recommended=advice(
        "cool-gpu",
        "Compare temperatures, fans and power of the GPUs of the node; look at its cooling and power supplies.",
        "nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER -i <device>",
    ),
)
