"""A NIC or GPU that was there is gone.

Symptom: every series of an RDMA port or a GPU is missing from three readings and more that still have the others.

Why: the device fell off the PCIe bus, its driver was unloaded or reset it, or it was handed to a virtual machine.

Not when: nothing of the kind can be read any more (a library or driver that hangs is said as a source that is silent).
A virtual interface that a container takes along is no NIC.

Source: what sysfs and NVML list; NVML_ERROR_GPU_IS_LOST.
"""

from collections.abc import Iterator

from diagnostics.agent.rules.base import LiveRule, Observed, advice
from diagnostics.agent.window import Window

_SHOWN_BY = (("port", "up"), ("gpu", "memory_used_bytes"))


def check(window: Window) -> Iterator[Observed]:
    """One finding a device."""
    for group, metric in _SHOWN_BY:
        for device, name in window.devices(group, metric).items():
            if not window.vanished(name):
                continue
            what = f"GPU {device}" if group == "gpu" else device
            yield RULE.observed(
                window,
                device=device,
                summary=f"{what} is gone",
                explanation="The machine no longer lists a device that it had; whoever uses it fails or hangs.",
                since_seconds=window.last_seconds(name) + window.interval_seconds,
                series=(name,),
            )


RULE = LiveRule(
    id="device-vanished",
    title="A NIC or GPU is gone",
    severity="critical",
    check=check,
    recommended=advice(
        "find-device",
        "See what the kernel says of it and whether the bus still has it; drain the node.",
        "dmesg -T | tail -50",
        "lspci | grep -i -e nvidia -e mellanox",
    ),
)
