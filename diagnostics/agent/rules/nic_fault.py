"""A NIC's firmware, cable or temperature is reported by its driver.

Symptom: mlx5 says in the kernel's log that the device's health is compromised, a command timed out, a cable error, or a
high temperature.

Why: the NIC, its firmware, its transceiver or its cooling fails. The driver resets the device, which ends all of its
connections.

Not when: a module is plugged in or out, which mlx5 reports as an event of the same kind.

Source: the kernel's drivers/net/ethernet/mellanox/mlx5/core (health.c, events.c, cmd.c).
"""

import re
from collections.abc import Iterator

from diagnostics.agent.rules.base import LiveRule, Observed, advice
from diagnostics.agent.window import Window

LOOKED_AT_SECONDS = 60.0
_DEVICE = re.compile(r"mlx5_core (?P<device>[0-9a-f:.]{7,16})")
_FAULT = re.compile(
    r"health compromised|device's health|firmware (?:fatal|internal) error|assert_var\[0\]"
    r"|Port module event\[error\]: module \d+, (?!Cable is unplugged)|High temperature|timeout\. Will cause a leak"
    r"|Fatal error \d+ detected|recovery (?:flow )?aborted|synd 0x(?!0\b)[0-9a-f]+: "
)


def check(window: Window) -> Iterator[Observed]:
    """One finding a device."""
    for event in window.recent_events(LOOKED_AT_SECONDS):
        found = _DEVICE.search(event.text)
        if found is None or not _FAULT.search(event.text):
            continue
        yield RULE.observed(
            window,
            device=found["device"],
            summary=f"the driver of the NIC at {found['device']} reports a fault",
            explanation="The driver may reset the device, which ends all of its connections.",
            since_seconds=event.monotonic_seconds,
            line=event.text,
        )


RULE = LiveRule(
    id="nic-fault",
    title="A NIC's driver reports a fault",
    severity="critical",
    check=check,
    recommended=advice(
        "check-nic",
        "Read what the driver says, and look at firmware, transceiver and temperature.",
        "dmesg -T | grep mlx5_core",
        "mlxlink -d <PCI address> -m; mget_temp -d <PCI address>",
    ),
)
