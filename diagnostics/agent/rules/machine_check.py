"""The machine reports a hardware error.

Symptom: the kernel's log has an uncorrected memory error (EDAC), a hardware error of the processor (MCE), or an
uncorrected error of the PCIe bus (AER).

Why: memory, processor, riser or slot fail. The process at the address is ended, or the device reset.

Not when: the error was corrected, which memory and links do all the time.

Source: the kernel's drivers/edac, Documentation/arch/x86/x86_64/machinecheck.rst and
Documentation/PCI/pcieaer-howto.rst.
"""

import re
from collections.abc import Iterator

from diagnostics.agent.rules.base import LiveRule, Observed, advice
from diagnostics.agent.window import Window

LOOKED_AT_SECONDS = 60.0
_UNCORRECTED = 1 << 61  # UC of IA32_MCi_STATUS (Intel SDM, volume 3, 17.3.2.2)
_ERRORS = {
    "memory": re.compile(r"EDAC \w+: \d+ UE |Uncorrected (?:hardware )?memory error|Memory failure: 0x"),
    "processor": re.compile(
        r"mce: \[Hardware Error\]: CPU \d+: Machine Check(?: Exception)?: \w+ Bank \d+: [0-9a-f]{1,16}"
        r"|\[Hardware Error\]: Uncorrected error"
    ),
    "PCIe bus": re.compile(r"PCIe Bus Error: severity=Uncorrect\w+"),
}


def check(window: Window) -> Iterator[Observed]:
    """One finding a part of the machine."""
    for event in window.recent_events(LOOKED_AT_SECONDS):
        for part, pattern in _ERRORS.items():
            found = pattern.search(event.text)
            if found and not _is_corrected(found[0]):
                yield RULE.observed(
                    window,
                    device=part,
                    summary=f"a hardware error of the {part}",
                    explanation="The process at the address is ended, or the device reset.",
                    since_seconds=event.monotonic_seconds,
                    line=event.text,
                )


def _is_corrected(text: str) -> bool:
    """``Machine Check: 0 Bank 8: 8c00004000010091``: the kernel prints corrected errors by the same words."""
    status = re.search(r"Bank \d+: ([0-9a-f]+)$", text)
    return status is not None and not int(status[1], 16) & _UNCORRECTED


RULE = LiveRule(
    id="machine-check",
    title="The machine reports a hardware error",
    severity="critical",
    check=check,
    recommended=advice(
        "see-hardware-error",
        "Read the whole report, drain the node, and have the part changed.",
        "dmesg -T | grep -i -e 'hardware error' -e edac -e aer",
        "ras-mc-ctl --errors",
    ),
)
