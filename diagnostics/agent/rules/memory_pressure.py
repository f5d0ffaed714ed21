"""The node is short of memory.

Symptom: in a tenth of the last ten seconds every task that could run waited for memory, or less than 2 % of the memory
and less than 4 GiB are available.

Why: processes use nearly all memory: the kernel takes pages from one to give them to another, and the next step is
that it kills one.

Not when: the page cache fills the memory: what is available counts what can be taken back at once. Of a large memory
2 % are left, which are many GiB: there the time that tasks wait decides.

Source: the kernel's Documentation/accounting/psi.rst (memory, full) and MemAvailable of /proc/meminfo; systemd-oomd
kills at 60 % over 30 s by default. The limits are this project's.
"""

from collections.abc import Iterator

from diagnostics.agent.rules.base import LiveRule, Observed, advice
from diagnostics.agent.window import Window

LIMIT_WAITING = 0.1
LIMIT_AVAILABLE = 0.02
LIMIT_BYTES = 4 << 30
LOOKED_AT_SECONDS = 10.0
_WAITING, _AVAILABLE, _TOTAL = "pressure/memory/full_seconds", "host/memory/available_bytes", "host/memory/total_bytes"


def check(window: Window) -> Iterator[Observed]:
    """Of the whole machine."""
    waiting = window.rate(_WAITING, LOOKED_AT_SECONDS)
    available, total = window.latest(_AVAILABLE), window.latest(_TOTAL)
    if waiting is not None and waiting >= LIMIT_WAITING:
        yield RULE.observed(
            window,
            device="pressure",
            summary=f"memory: all tasks waited for it {waiting:.0%} of the last {LOOKED_AT_SECONDS:.0f} s",
            explanation="Pages are taken from one process to give them to another.",
            since_seconds=window.grew_since(_WAITING, LOOKED_AT_SECONDS),
            series=(_WAITING, _AVAILABLE),
        )
    elif available is not None and total and available < min(LIMIT_AVAILABLE * total, LIMIT_BYTES):
        yield RULE.observed(
            window,
            device="available",
            summary=f"memory: {available / 2**20:,.0f} MiB of {total / 2**30:,.0f} GiB are available",
            explanation="The kernel kills a process when there is none left.",
            since_seconds=window.now,
            series=(_AVAILABLE,),
        )


RULE = LiveRule(
    id="memory-pressure",
    title="The node is short of memory",
    severity="warning",
    check=check,
    longest_interval_seconds=4.0,
    recommended=advice(
        "free-memory",
        "See who uses the memory; fewer data loaders or a smaller batch.",
        "ps -eo pid,rss,comm --sort=-rss | head",
        "cat /proc/pressure/memory",
    ),
)
