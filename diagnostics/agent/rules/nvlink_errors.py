"""An NVLink of a GPU has errors, or is down.

Symptom: the errors of a GPU's NVLinks grow by ten and more in a minute, or fewer links are active than before.

Why: a connector, bridge or NVSwitch that fails. What is damaged is sent again; a link that is down takes its bandwidth
with it, and NCCL's next start chooses slower paths.

Not when: a counter is high and stands still; links that were never active.

Source: NVML, NVLink error counters (CRC, replay, recovery) and nvmlDeviceGetNvLinkState. The limit is this
project's, that of other links (port-errors).
"""

from collections.abc import Iterator

from diagnostics.agent.rules.base import LiveRule, Observed, advice
from diagnostics.agent.window import Window

LIMIT_ERRORS = 10
LOOKED_AT_SECONDS = 60.0


def check(window: Window) -> Iterator[Observed]:
    """One finding a GPU and symptom."""
    for device, name in window.growing("gpu", "nvlink_errors", LOOKED_AT_SECONDS):
        errors = window.increase(name, LOOKED_AT_SECONDS)
        if errors >= LIMIT_ERRORS:
            since = window.grew_since(name, LOOKED_AT_SECONDS)
            yield RULE.observed(
                window,
                device=device,
                summary=f"GPU {device}: {errors:,.0f} NVLink errors in {max(window.now - since, 1):.0f} s",
                explanation="What is damaged is sent again: transfers inside the node get slower.",
                since_seconds=since,
                series=(name,),
            )
    for device, name in window.devices("gpu", "nvlinks_up").items():
        if not window.changed(name, LOOKED_AT_SECONDS):
            continue
        active = window.latest(name)
        points = window.points(name, LOOKED_AT_SECONDS)
        before = max((point.value for point in points), default=0)
        if active is not None and active < before:
            yield RULE.observed(
                window,
                device=f"{device} links",
                severity="critical",
                summary=f"GPU {device}: {active:.0f} NVLinks active, {before:.0f} before",
                explanation="Traffic over the link that is down fails or hangs.",
                since_seconds=next(point.seconds for point in points if point.value < before),
                series=(name,),
            )


RULE = LiveRule(
    id="nvlink-errors",
    title="An NVLink has errors or is down",
    severity="warning; critical where a link is down",
    check=check,
    longest_interval_seconds=30.0,
    recommended=advice(
        "check-nvlink",
        "Look at the links and the fabric manager; drain the node where a link stays down.",
        "nvidia-smi nvlink -s -i <device>",
        "nvidia-smi nvlink -e -i <device>",
    ),
)
