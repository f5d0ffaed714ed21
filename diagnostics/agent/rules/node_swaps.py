"""The node swaps.

Symptom: within five seconds 4 MiB and more were read back from swap.

Why: processes use more memory than there is. What was swapped out is read back page by page, a thousand times slower
than memory; a rank that waits for it holds up all others.

Not when: the kernel only writes to swap what nobody has used for long, or swap is in use and stands still.

Source: pswpin of /proc/vmstat. The limit is this project's.
"""

from collections.abc import Iterator

from diagnostics.agent.rules.base import LiveRule, Observed, advice
from diagnostics.agent.window import Window

LIMIT_BYTES = 4 << 20
LOOKED_AT_SECONDS = 5.0
_SWAPPED_IN = "host/swap/in_bytes"


def check(window: Window) -> Iterator[Observed]:
    """Of the whole machine."""
    swapped = window.increase(_SWAPPED_IN, LOOKED_AT_SECONDS)
    if swapped >= LIMIT_BYTES:
        yield RULE.observed(
            window,
            device="swap",
            summary=f"swaps: {swapped / 2**20:,.0f} MiB were read back from swap in {LOOKED_AT_SECONDS:.0f} s",
            explanation="Processes use more memory than there is, and wait for the disk that swap is on.",
            since_seconds=window.grew_since(_SWAPPED_IN, LOOKED_AT_SECONDS),
            series=(_SWAPPED_IN, "host/memory/available_bytes"),
        )


RULE = LiveRule(
    id="node-swaps",
    title="The node swaps",
    severity="warning",
    check=check,
    longest_interval_seconds=4.0,
    recommended=advice(
        "free-memory",
        "See who uses the memory; fewer data loaders or a smaller batch, or swap off on nodes that train.",
        "ps -eo pid,rss,comm --sort=-rss | head",
        "swapon --show",
    ),
)
