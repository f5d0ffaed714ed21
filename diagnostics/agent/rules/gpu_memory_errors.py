"""A GPU's memory fails.

Symptom: uncorrected ECC errors of a GPU grow, a row could not be remapped, or a remap waits for a reset.

Why: a cell of the memory is broken. An uncorrected error ends the process that reads it; a pending remap takes the row
out of use once the GPU is reset; a remap that failed has no spare row left.

Not when: errors were corrected, or were counted before the first reading.

Source: NVIDIA, "GPU memory error management" (row remapping, RMA policy); NVML, volatile ECC counters and
nvmlDeviceGetRemappedRows.
"""

from collections.abc import Iterator

from diagnostics.agent.rules.base import LiveRule, Observed, advice
from diagnostics.agent.window import Window

LOOKED_AT_SECONDS = 60.0


def check(window: Window) -> Iterator[Observed]:
    """One finding a GPU and kind of failure."""
    for device, name in window.growing("gpu", "ecc_uncorrected_errors", LOOKED_AT_SECONDS):
        errors = window.increase(name, LOOKED_AT_SECONDS)
        yield RULE.observed(
            window,
            device=device,
            summary=f"GPU {device}: {errors:,.0f} uncorrected ECC error{'' if errors == 1 else 's'}",
            explanation="The process that reads the broken cell is ended.",
            since_seconds=window.grew_since(name, LOOKED_AT_SECONDS),
            series=(name,),
        )
    for device, name in window.devices("gpu", "row_remap_failed").items():
        if window.latest(name) == 1:
            yield RULE.observed(
                window,
                device=f"{device} failed",
                summary=f"GPU {device}: a row of its memory could not be remapped",
                explanation="There is no spare row left: the GPU is due for replacement.",
                since_seconds=window.held_since(name),
                series=(name,),
            )
    for device, name in window.devices("gpu", "row_remap_pending").items():
        if window.latest(name) == 1:
            yield RULE.observed(
                window,
                device=f"{device} pending",
                severity="warning",
                summary=f"GPU {device}: a row of its memory waits for a reset to be remapped",
                explanation="Until then the broken row stays in use.",
                since_seconds=window.held_since(name),
                series=(name,),
            )


RULE = LiveRule(
    id="gpu-memory-errors",
    title="A GPU's memory fails",
    severity="critical; warning where a remap is pending",
    check=check,
    longest_interval_seconds=30.0,
    recommended=advice(
        "reset-gpu",
        "Drain the node and reset the GPU; replace it where a remap failed or errors come back.",
        "nvidia-smi -q -d ECC,ROW_REMAPPER -i <device>",
        link="https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/index.html",
    ),
)
